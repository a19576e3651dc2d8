//! Finds a process by its id or a prefix of it.

use client::process::Process;
use client::{Session, v1};

use crate::failure::Failure;

/// Finds the one process with this id or prefix.
pub(super) async fn find(session: &Session, id: &str) -> Result<v1::ListedProcess, Failure> {
    pick(session.processes().await?, id)
}

/// Attaches to a process of another session, so that requests about it are allowed while the result is held. Detached
/// processes need no attachment. If attaching fails, the following request returns the error.
pub(super) async fn attach_foreign(session: &Session, found: &v1::ListedProcess) -> Option<Process> {
    match found.detached {
        true => None,
        false => session.attach(&found.process_id, found.cursor).await.ok(),
    }
}

/// The one process whose id is or starts with `id`; the common prefix `p_` may be omitted.
fn pick(processes: Vec<v1::ListedProcess>, id: &str) -> Result<v1::ListedProcess, Failure> {
    let begins = |process: &v1::ListedProcess| {
        let full = process.process_id.as_str();
        !id.is_empty()
            && (full.starts_with(id) || full.strip_prefix("p_").is_some_and(|rest| rest.starts_with(id)))
    };
    let mut meant: Vec<v1::ListedProcess> = match processes.iter().find(|process| process.process_id == id) {
        Some(exact) => vec![exact.clone()],
        None => processes.into_iter().filter(begins).collect(),
    };
    match (meant.pop(), meant.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => Err(Failure::new(format!("no process {id}")).hint("`rex ps -a` lists the processes")),
        (Some(_), others) => {
            Err(Failure::new(format!("ambiguous process id {id}: {} processes start with it", others + 1))
                .hint("use more characters of the id; `rex ps -a` lists the processes"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(id: &str) -> v1::ListedProcess {
        v1::ListedProcess {
            process_id: id.to_owned(),
            pty_id: None,
            argv: vec!["true".to_owned()],
            cwd: "/".to_owned(),
            pid: None,
            status: "running".to_owned(),
            exit_code: None,
            signal: None,
            started_at: String::new(),
            detached: true,
            face: "rexd".to_owned(),
            cursor: 0,
            argv_truncated: false,
        }
    }

    #[test]
    fn a_unique_prefix_of_an_id_is_enough() {
        let all = || ["p_ab12", "p_ab34", "p_ab3"].map(listed).to_vec();
        for (id, found) in [("p_ab12", Some("p_ab12")), ("ab1", Some("p_ab12")), ("p_ab3", Some("p_ab3"))] {
            assert_eq!(pick(all(), id).ok().map(|one| one.process_id).as_deref(), found, "{id}");
        }
        for (id, word) in [("x", "no process"), ("", "no process"), ("p_ab", "3 processes")] {
            assert!(pick(all(), id).unwrap_err().message.contains(word), "{id}");
        }
    }
}
