//! Limits apply to the whole tree, are reported when they end it, and leave no cgroup.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::process::limits::{Controllers, Holder, gaps};
use engine::process::{Containment, ExitCause, ExitStatus, ProcessSpec, Signal};
use engine::sandbox::{Confinement, Profile, ProtectedPaths, ResourceLimits};
use engine::{Engine, Session};
use support::{engine, gather, run, shell};

const MIB: u64 = 1024 * 1024;

/// A line for the shell that may write to temporary files and use up so much.
fn limited(line: &str, limits: ResourceLimits) -> ProcessSpec {
    let temp = std::env::temp_dir().canonicalize().unwrap();
    let profile = Profile { limits, ..Profile::workspace_write(&[temp], None, &ProtectedPaths::default()) };
    ProcessSpec { confinement: Some(Arc::new(Confinement::new([Arc::new(profile)]))), ..shell(line) }
}

fn session(engine: &Engine) -> Session {
    engine.open_session().unwrap()
}

/// Whether something here holds these limits for a whole tree. Where not, the test has nothing to show.
fn are_held(limits: &ResourceLimits) -> bool {
    gaps(limits, Controllers::probe()).is_empty()
}

#[tokio::test]
async fn a_tree_makes_no_more_processes_than_it_may() {
    let limits = ResourceLimits { processes: Some(3), ..ResourceLimits::default() };
    if !are_held(&limits) {
        return;
    }
    for containment in [Containment::Best, Containment::Marks] {
        let engine = engine(containment);
        let mut session = session(&engine);
        // With a limit, the first ones must not end before the last one is made. They end with the session.
        let line = |seconds: u32| format!("for i in 1 2 3 4 5; do sleep {seconds} & echo made; done; wait");
        let result = run(&mut session, limited(&line(1000), limits)).await;
        assert_eq!(result.text().lines().count(), 2, "{result:?}");
        assert!(result.closed.processes_refused > 0);
        assert_ne!(result.closed.exit, ExitStatus::Code(0));
        // The same line without limits.
        let result = run(&mut session, shell(&line(0))).await;
        assert_eq!(result.text().lines().count(), 5);
        assert_eq!(result.closed.processes_refused, 0);
        session.close().await;
    }
}

#[tokio::test]
async fn a_tree_over_its_memory_limit_is_ended_and_the_exit_reports_it() {
    let limits = ResourceLimits { memory_bytes: Some(48 * MIB), ..ResourceLimits::default() };
    if !are_held(&limits) {
        return;
    }
    let engine = engine(Containment::Best);
    let mut session = session(&engine);
    // One line without an end has to be kept whole.
    let hog = "head -c 200000000 /dev/zero | tail -n 1 | wc -c; exit 3";
    let result = run(&mut session, limited(hog, limits)).await;
    assert_eq!(result.closed.cause, ExitCause::MemoryLimit, "{result:?}");
    assert!(!result.text().contains("200000000"));
    let result = run(&mut session, limited("exec tail -n 1 /dev/zero", limits)).await;
    assert_eq!(
        (result.closed.exit, result.closed.cause),
        (ExitStatus::Signal(Signal::KILL), ExitCause::MemoryLimit)
    );
    // What stays below is not disturbed.
    let result = run(&mut session, limited("head -c 1000000 /dev/zero | tail -n 1 | wc -c", limits)).await;
    assert_eq!((result.text().trim(), result.closed.cause), ("1000000", ExitCause::Itself));
}

#[tokio::test]
async fn limits_of_the_single_process_hold() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(Containment::Best);
    let mut session = session(&engine);
    let limits = ResourceLimits {
        file_bytes: Some(MIB),
        open_files: Some(20),
        cpu_seconds: Some(1),
        ..ResourceLimits::default()
    };
    let asked = run(&mut session, limited("ulimit -c; ulimit -n; ulimit -t", limits)).await;
    assert_eq!(asked.text().lines().collect::<Vec<_>>(), ["0", "20", "1"]);
    let big = directory.path().join("big");
    let fill = format!("exec head -c 50000000 /dev/zero > {}", big.display());
    let filled = run(&mut session, limited(&fill, limits)).await;
    assert_eq!(filled.closed.exit, ExitStatus::Signal(Signal::from_number(libc::SIGXFSZ).unwrap()));
    assert_eq!(fs::metadata(big).unwrap().len(), MIB);
    let spun = run(&mut session, limited("while :; do :; done", limits)).await;
    assert_eq!(spun.closed.exit, ExitStatus::Signal(Signal::from_number(libc::SIGXCPU).unwrap()));
    // Only who is confined has them.
    let unlimited = run(&mut session, shell("ulimit -f")).await;
    assert_eq!(unlimited.text().trim(), "unlimited");
}

/// The directory of this process's groups in a hierarchy of version 1.
fn own_groups(controller: &str) -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.split_once(&format!(":{controller}:")))?.1;
    Some(Path::new("/sys/fs/cgroup").join(controller).join(path.trim_start_matches('/')))
}

fn names_with(parent: &Path, part: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).unwrap().flatten().map(|entry| entry.path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().contains(part)).collect()
}

/// Waits until something is so, looking again each time the tasks of the runtime had their turn.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let look = async {
        let mut again = tokio::time::interval(Duration::from_millis(10));
        while !is_so() {
            again.tick().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), look).await.is_ok(), "{what}");
}

#[tokio::test]
async fn groups_go_with_their_tree_and_those_of_dead_daemons_with_the_next() {
    if Controllers::probe().processes != Holder::Legacy {
        return;
    }
    let parent = own_groups("pids").unwrap();
    let namespace = rustix::fs::stat("/proc/self/ns/pid").unwrap().st_ino;
    // No process has so large a number.
    let stray = parent.join(format!("rexd-{namespace}-4999999.0"));
    fs::create_dir_all(stray.join("1")).unwrap();
    let engine = engine(Containment::Best);
    let mut session = session(&engine);
    let limits = ResourceLimits { processes: Some(8), ..ResourceLimits::default() };
    let process =
        session.start(limited("sleep 60 & echo $$; exec sleep 60", limits)).unwrap().running().await.unwrap();
    assert!(!stray.exists());
    let pid = process.pid().unwrap();
    let holds = |directory: &PathBuf| {
        names_with(directory, "").iter().any(|group| {
            fs::read_to_string(group.join("cgroup.procs"))
                .is_ok_and(|pids| pids.lines().any(|line| line == pid.to_string()))
        })
    };
    let mine = names_with(&parent, &format!("-{}.", std::process::id()));
    let directory = mine.into_iter().find(holds).expect("a group with the process in it");
    process.kill(Signal::KILL).await.unwrap();
    gather(&process).await;
    process.gone().await;
    until("nobody is in it", || !holds(&directory)).await;
    // What is as it was made is used again, and only for the same limit.
    let groups = || names_with(&directory, "").iter().filter(|path| path.is_dir()).count();
    for _ in 0..5 {
        run(&mut session, limited("exit 0", limits)).await;
    }
    let used = groups();
    assert!(used <= 3, "{used} groups for commands one after the other");
    run(&mut session, limited("exit 0", ResourceLimits { processes: Some(9), ..limits })).await;
    assert_eq!(groups(), used + 1);
    drop((session, process, engine));
    until("the directory is gone", || !directory.exists()).await;
}

#[tokio::test]
async fn a_program_that_cannot_be_executed_leaves_no_group() {
    if Controllers::probe().processes != Holder::Legacy {
        return;
    }
    let engine = engine(Containment::Best);
    let mut session = session(&engine);
    let limits = ResourceLimits { processes: Some(8), memory_bytes: Some(MIB * 64), ..Default::default() };
    let mut spec = limited("", limits);
    spec.program = engine::process::Program::Argv(vec!["/nonexistent/program".into()]);
    assert!(session.start(spec).unwrap().running().await.is_err());
    let spec = limited("exit 0", limits);
    assert_eq!(run(&mut session, spec).await.closed.exit, ExitStatus::Code(0));
    drop((session, engine));
    let parent = own_groups("memory").unwrap();
    until("nothing is left", || {
        let mine = names_with(&parent, &format!("-{}.", std::process::id()));
        mine.iter().all(|directory| names_with(directory, "").iter().all(|path| !path.is_dir()))
    })
    .await;
}
