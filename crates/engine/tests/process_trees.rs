//! Kills of whole trees and background processes of a leader, with and without cgroups.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod support;

use std::time::Duration;

use engine::process::{Containment, Cursor, ExitStatus, Item, ProcessLimits, ProcessSpec, Signal};
use engine::{Engine, EngineSettings};
use support::{bounds, engine, gather, is_alive, read_until, run, shell};

/// Ignores TERM, double-forks, leaves the session, and says its numbers.
const RUNAWAY: &str = r#"
trap '' TERM
setsid sh -c 'trap "" TERM; (setsid sh -c "trap \"\" TERM; echo runaway \$\$; exec >/dev/null 2>&1 </dev/null; while :; do sleep 1000; done" &) ; echo middle $$; while :; do sleep 1000; done' &
echo leader $$
while :; do sleep 1000; done
"#;

fn number(text: &str, word: &str) -> i32 {
    let line =
        text.lines().find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("no {word} in {text:?}"));
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

async fn a_runaway_dies(containment: Containment, signal: Signal) {
    let engine = engine(containment);
    let mut session = engine.open_session().unwrap();
    let process = session.start(shell(RUNAWAY)).unwrap().running().await.unwrap();
    let mut reader = process.primary_reader(Cursor(0));
    let mut text = String::new();
    for word in ["leader ", "middle ", "runaway "] {
        if !text.contains(word) {
            text.push_str(&read_until(&mut reader, word).await);
        }
    }
    let pids = ["leader", "middle", "runaway"].map(|word| number(&text, word));
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    let ended = process.kill(signal).await.unwrap();
    for pid in pids {
        assert!(!is_alive(pid), "{pid} lives; {ended:?}");
        assert!(ended.killed.iter().any(|member| member.pid == pid), "{pid} is not named in {ended:?}");
    }
    assert_eq!(ended.remaining, []);
    session.close().await;
}

/// ARCHITECTURE.md, invariant 6.
#[tokio::test]
async fn a_tree_that_ignores_term_and_runs_away_is_dead_after_a_kill_with_cgroups() {
    assert!(engine(Containment::Best).uses_cgroups(), "this machine has writable cgroups");
    a_runaway_dies(Containment::Best, Signal::TERM).await;
    a_runaway_dies(Containment::Best, Signal::KILL).await;
}

/// ARCHITECTURE.md, invariant 6.
#[tokio::test]
async fn a_tree_that_ignores_term_and_runs_away_is_dead_after_a_kill_without_cgroups() {
    a_runaway_dies(Containment::Marks, Signal::TERM).await;
    a_runaway_dies(Containment::Marks, Signal::KILL).await;
}

/// Leaves session and group, loses its parent, and executes itself without end: most of the time it shows no environment.
const EXECUTOR: &str = r#"
cat > executor <<'END'
#!/bin/sh
exec ./executor
END
chmod +x executor
(setsid sh -c 'echo executor $$ .; exec ./executor >/dev/null 2>&1 </dev/null' &)
while :; do sleep 1000; done
"#;

/// ARCHITECTURE.md, invariant 6.
#[tokio::test]
async fn a_runaway_that_is_executing_programs_is_dead_after_a_kill_that_is_complete() {
    for containment in [Containment::Best, Containment::Marks] {
        let engine = engine(containment);
        for _ in 0..20 {
            let directory = tempfile::tempdir().unwrap();
            let mut session = engine.open_session().unwrap();
            let mut spec = shell(EXECUTOR);
            spec.cwd = support::directory(directory.path());
            let process = session.start(spec).unwrap().running().await.unwrap();
            let text = read_until(&mut process.primary_reader(Cursor(0)), " .").await;
            let executor = number(&text, "executor");
            let ended = process.kill(Signal::KILL).await.unwrap();
            // Without a cgroup the search can miss it, which the outcome states.
            let is_proven = !is_alive(executor) || !ended.is_complete;
            assert!(is_proven, "{containment:?}: {executor} lives; {ended:?}");
            session.close().await;
            if let Some(pid) = rustix::process::Pid::from_raw(executor).filter(|_| is_alive(executor)) {
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
            }
        }
    }
}

/// ARCHITECTURE.md, invariant 8.
#[tokio::test]
async fn a_grandchild_that_holds_the_output_does_not_delay_the_end_and_is_named() {
    for containment in [Containment::Best, Containment::Marks] {
        let mut session = engine(containment).open_session().unwrap();
        let result = run(&mut session, shell("sleep 1000 & echo $!")).await;
        let sleeper: i32 = result.text().trim().parse().unwrap();
        assert_eq!(result.closed.exit, ExitStatus::Code(0));
        assert_eq!(result.closed.held_by.iter().map(|member| member.pid).collect::<Vec<_>>(), [sleeper]);
        assert!(is_alive(sleeper), "a background job outlives its leader");
        session.close().await;
        assert!(!is_alive(sleeper), "and ends with its session");
    }
}

/// ARCHITECTURE.md, invariant 8.
#[tokio::test]
async fn a_grandchild_that_keeps_printing_does_not_delay_the_end() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    let result = run(&mut session, shell("yes & exit 4")).await;
    assert_eq!(result.closed.exit, ExitStatus::Code(4));
    assert_eq!(result.closed.held_by.len(), 1);
    session.close().await;
}

/// ARCHITECTURE.md, invariant 7.
#[tokio::test]
async fn a_background_job_of_a_finished_process_can_still_be_killed() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    let process = session.start(shell("sleep 1000 & echo $!")).unwrap().running().await.unwrap();
    let result = gather(&process).await;
    let sleeper: i32 = result.text().trim().parse().unwrap();
    let ended = process.kill(Signal::TERM).await.unwrap();
    assert_eq!(ended.killed.iter().map(|member| member.pid).collect::<Vec<_>>(), [sleeper]);
    assert!(!is_alive(sleeper));
}

/// ARCHITECTURE.md, invariant 6.
#[tokio::test]
async fn another_signal_goes_to_the_group_once() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    let line = "trap 'echo usr1; exit 9' USR1; echo ready; while :; do sleep 0.01; done";
    let process = session.start(shell(line)).unwrap().running().await.unwrap();
    let mut reader = process.primary_reader(Cursor(0));
    read_until(&mut reader, "ready").await;
    process.kill(Signal::parse("USR1").unwrap()).await.unwrap();
    let mut text = String::new();
    let closed = loop {
        match reader.next(usize::MAX).await {
            Item::Output { bytes, .. } => text.push_str(std::str::from_utf8(&bytes).unwrap()),
            Item::Exited { .. } => {}
            Item::Closed(closed) => break closed,
            other @ (Item::Lost { .. } | Item::Disconnected) => panic!("{other:?}"),
        }
    };
    assert!(text.contains("usr1"), "{text:?} {closed:?}");
    assert_eq!(closed.exit, ExitStatus::Code(9));
}

/// ARCHITECTURE.md, invariant 5.
#[tokio::test]
async fn a_kill_during_the_start_is_honoured() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    for _ in 0..50 {
        let starting = session.start(shell("sleep 1000")).unwrap();
        let process = starting.process().clone();
        let (killed, started) = tokio::join!(process.kill(Signal::KILL), starting.running());
        killed.unwrap();
        let closed = started.unwrap().closed().await.unwrap();
        assert_eq!(closed.exit, ExitStatus::Signal(Signal::KILL));
    }
    session.close().await;
}

/// ARCHITECTURE.md, invariant 7.
#[tokio::test]
async fn a_dropped_session_leaves_nothing_running() {
    let engine = engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    let process = session.start(shell("sleep 1000 & sleep 1000")).unwrap().running().await.unwrap();
    let leader = process.pid().unwrap();
    drop(session);
    process.closed().await.unwrap();
    assert!(!is_alive(leader));
}

/// Moves itself out of its cgroup, as root or the owner of the hierarchy may, and lets go of everything else.
const DESERTER: &str = r#"
setsid sh -c 'for f in $(awk "/ - cgroup2 /{print \$5}" /proc/self/mountinfo); do echo 0 > $f/cgroup.procs; done; echo deserter $$; exec >/dev/null 2>&1 </dev/null; while :; do sleep 1000; done' &
echo leader $$
"#;

#[tokio::test]
async fn a_process_that_leaves_its_cgroup_is_found_all_the_same() {
    // The deserter has its time to speak after the end of its leader.
    let patience = Duration::from_secs(60);
    let engine = Engine::start(EngineSettings {
        process_limits: ProcessLimits { drain_idle: patience, drain_max: patience, ..bounds() },
        containment: Containment::Best,
        max_sessions: 64,
        sandbox: engine::sandbox::SandboxSettings::default(),
        guardian: None,
        adopts_orphans: false,
    });
    let mut session = engine.open_session().unwrap();
    let process = session
        .start(shell(&format!("{DESERTER} while :; do sleep 1000; done")))
        .unwrap()
        .running()
        .await
        .unwrap();
    let mut reader = process.primary_reader(Cursor(0));
    let text = read_until(&mut reader, "deserter ").await;
    let deserter = number(&text, "deserter");
    let ended = process.kill(Signal::TERM).await.unwrap();
    assert!(!is_alive(deserter) && ended.killed.iter().any(|member| member.pid == deserter), "{ended:?}");
    let result = run(&mut session, shell(DESERTER)).await;
    let deserter = number(result.text(), "deserter");
    assert!(is_alive(deserter));
    session.close().await;
    let mut waited = 0;
    while is_alive(deserter) && waited < 1_000_000 {
        tokio::task::yield_now().await;
        waited += 1;
    }
    assert!(!is_alive(deserter), "a session leaves nobody behind");
}

#[tokio::test]
async fn a_process_without_a_grace_does_not_delay_the_end_of_its_session() {
    for containment in [Containment::Best, Containment::Marks] {
        let engine = Engine::start(EngineSettings {
            process_limits: ProcessLimits { kill_grace: Duration::from_secs(3_600), ..bounds() },
            containment,
            max_sessions: 64,
            sandbox: engine::sandbox::SandboxSettings::default(),
            guardian: None,
            adopts_orphans: false,
        });
        let mut session = engine.open_session().unwrap();
        let line = "trap '' TERM; echo leader $$; while :; do sleep 1000; done";
        let spec = ProcessSpec { end_grace: Some(Duration::ZERO), ..shell(line) };
        let process = session.start(spec).unwrap().running().await.unwrap();
        let text = read_until(&mut process.primary_reader(Cursor(0)), "leader ").await;
        let pid = number(&text, "leader");
        tokio::time::timeout(Duration::from_secs(60), session.close()).await.unwrap();
        assert!(!is_alive(pid), "{pid} lives");
    }
}
