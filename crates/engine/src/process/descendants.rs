//! The descendants of this process: all that a process which adopts orphans has to search for the members of its trees.
//!
//! Reading all of `/proc` finds them too, but then a hundred keepers that are killed together read a hundred times the
//! processes of all the others.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use super::proc;

/// Walks until two in a row agree; beyond it the descendants change too fast, and the caller reads all of `/proc`.
const MAX_WALKS: usize = 8;

/// Whether the kernel lists the children of a process.
pub(super) fn are_listed() -> bool {
    fs::exists("/proc/thread-self/children").unwrap_or(false)
}

/// The descendants of this process, without the children that `is_excluded` and their descendants. `None` if they cannot be
/// read or do not stop changing.
///
/// Complete for processes that exist during the whole call. An exit between two reads moves the children of the process to
/// a list that may have been read already; it also changes the result of the walk, so two equal walks had none.
pub(super) fn of_self(is_excluded: impl Fn(i32) -> bool) -> Option<Vec<i32>> {
    let own = i32::try_from(std::process::id()).ok()?;
    let mut last = None;
    for _ in 0..MAX_WALKS {
        let walked = walk(own, &is_excluded);
        if walked.is_some() && walked == last {
            return walked.map(|found| found.into_keys().filter(|pid| *pid != own).collect());
        }
        last = walked;
    }
    None
}

/// One walk: the processes, and whether each is a zombie. `None` if a list of children changed while it was read.
fn walk(own: i32, is_excluded: impl Fn(i32) -> bool) -> Option<BTreeMap<i32, bool>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![own];
    while let Some(parent) = pending.pop() {
        let children = children(parent).ok()?;
        // Read after the list: a process that is not a zombie now still had all its children then.
        found.insert(parent, proc::ancestry(parent)?.is_zombie);
        // The kernel may skip entries of the list only if one that it has just listed was reaped meanwhile.
        if children.iter().any(|child| proc::ancestry(*child).is_none_or(|entry| entry.parent != parent)) {
            return None;
        }
        pending.extend(children.into_iter().filter(|child| parent != own || !is_excluded(*child)));
    }
    Some(found)
}

/// The children of all threads of a process. Fails if a thread exits meanwhile: its children move to another thread.
fn children(pid: i32) -> io::Result<Vec<i32>> {
    let threads: Vec<_> = fs::read_dir(format!("/proc/{pid}/task"))?.collect::<io::Result<_>>()?;
    let mut children = Vec::new();
    for thread in threads {
        let list = fs::read_to_string(thread.path().join("children"))?;
        children.extend(list.split_ascii_whitespace().filter_map(|child| child.parse::<i32>().ok()));
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn grandchildren_are_found_and_excluded_children_are_not() {
        assert!(are_listed(), "this kernel lists the children of a process");
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 1000 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The grandchild exists once the shell has printed.
        io::Read::read(shell.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let child = i32::try_from(shell.id()).unwrap();
        let grandchild = children(child).unwrap()[0];
        let found = (0..100).find_map(|_| of_self(|_| false));
        let others = (0..100).find_map(|_| of_self(|pid| pid == child));
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(grandchild).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        shell.wait().unwrap();
        let (found, others) = (found.unwrap(), others.unwrap());
        assert!(found.contains(&child) && found.contains(&grandchild), "{found:?}");
        assert!(!others.contains(&child) && !others.contains(&grandchild), "{others:?}");
    }
}
