//! The exit of the leader as an entry of the log: after all output of the leader, before later output of its children.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod support;

use std::path::Path;
use std::time::Duration;

use engine::process::{
    Containment, Cursor, ExitStatus, Item, LogReader, Process, ProcessLimits, ProcessSpec, TerminalSize,
};
use engine::{Engine, EngineSettings, Session};
use support::{bounds, shell};

/// A session whose processes are not closed before every holder of their pipes has ended.
fn patient_session(log_bytes: usize) -> Session {
    let patience = Duration::from_secs(600);
    let engine = Engine::start(EngineSettings {
        process_limits: ProcessLimits { log_bytes, drain_idle: patience, drain_max: patience, ..bounds() },
        containment: Containment::Best,
        max_sessions: 1,
        sandbox: engine::sandbox::SandboxSettings::default(),
        guardian: None,
        adopts_orphans: false,
    });
    engine.open_session().unwrap()
}

/// A leader that writes, starts a child that holds the pipe until the gate is written to, and exits with 3.
fn leaves_a_child(writes: &str, gate: &Path) -> ProcessSpec {
    rustix::fs::mknodat(rustix::fs::CWD, gate, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    shell(&format!("{writes}; (cat {}; printf ' after') & exit 3", gate.display()))
}

async fn open_gate(gate: &Path) {
    let gate = gate.to_owned();
    tokio::task::spawn_blocking(move || std::fs::write(gate, "opened")).await.unwrap().unwrap();
}

/// Everything from the reader on: neighbouring output as one text, the exit and the end as words.
async fn read_all(mut reader: LogReader) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    let mut is_text = false;
    loop {
        let word = match reader.next(usize::MAX).await {
            Item::Output { bytes, .. } => {
                let text = std::str::from_utf8(&bytes).unwrap();
                match seen.last_mut().filter(|_| is_text) {
                    Some(last) => last.push_str(text),
                    None => seen.push(text.to_owned()),
                }
                is_text = true;
                continue;
            }
            Item::Exited { status, is_denied: false } => format!("{status:?}"),
            Item::Closed(closed) => {
                assert_eq!(closed.exit, ExitStatus::Code(3));
                seen.push("closed".to_owned());
                return seen;
            }
            other => format!("{other:?}"),
        };
        seen.push(word);
        is_text = false;
    }
}

async fn wait_for_exit(process: &Process) {
    while process.state().exited.is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_exit_comes_behind_the_leaders_output_while_a_grandchild_holds_the_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let gate = directory.path().join("gate");
    let mut session = patient_session(1024 * 1024);
    let spec = leaves_a_child("printf before", &gate);
    let process = session.start(spec).unwrap().running().await.unwrap();
    let mut reader = process.primary_reader(Cursor(0));
    assert!(matches!(reader.next(usize::MAX).await, Item::Output { next: Cursor(6), .. }));
    let exited = reader.next(usize::MAX).await;
    assert!(matches!(exited, Item::Exited { status: ExitStatus::Code(3), .. }), "{exited:?}");
    assert_eq!(process.state().exited, Some(ExitStatus::Code(3)));
    open_gate(&gate).await;
    assert_eq!(read_all(reader).await, ["opened after", "closed"]);
    for (from, expected) in [
        (0, &["before", "Code(3)", "opened after", "closed"][..]),
        (4, &["re", "Code(3)", "opened after", "closed"]),
        (6, &["Code(3)", "opened after", "closed"]),
        (13, &["Code(3)", "after", "closed"]),
        (18, &["Code(3)", "closed"]),
    ] {
        assert_eq!(read_all(process.reader(Cursor(from))).await, expected, "from {from}");
    }
    session.close().await;
}

#[tokio::test]
async fn the_exit_keeps_its_place_when_the_output_before_it_goes_to_disk() {
    let directory = tempfile::tempdir().unwrap();
    let gate = directory.path().join("gate");
    let mut session = patient_session(64 * 1024);
    let spec = leaves_a_child("yes x | head -c 3000000", &gate);
    let process = session.start(spec).unwrap().running().await.unwrap();
    let reader = process.primary_reader(Cursor(0));
    process.set_reader_disconnected(true);
    wait_for_exit(&process).await;
    open_gate(&gate).await;
    process.closed().await.unwrap();
    process.set_reader_disconnected(false);
    let seen = read_all(reader).await;
    let lengths: Vec<usize> = seen.iter().map(String::len).collect();
    assert_eq!(lengths, [3_000_000, 7, 12, 6], "{:?}", &seen[1..]);
    assert_eq!(seen[1..], ["Code(3)", "opened after", "closed"]);
    session.close().await;
}

#[tokio::test]
async fn the_exit_comes_behind_all_that_the_leader_wrote_to_its_terminal() {
    let mut session = patient_session(1024 * 1024);
    for round in 0..50 {
        let spec = ProcessSpec {
            terminal: Some(TerminalSize { cols: 80, rows: 24 }),
            ..shell("yes x | head -n 3000; printf last; exit 3")
        };
        let process = session.start(spec).unwrap().running().await.unwrap();
        let seen = read_all(process.primary_reader(Cursor(0))).await;
        assert!(seen[0].ends_with("last"), "round {round}");
        assert_eq!(seen[1..], ["Code(3)", "closed"], "round {round}");
    }
    session.close().await;
}

/// Read by a thread after the first 16 KiB.
#[tokio::test]
async fn a_terminal_with_much_output_keeps_its_order_and_loses_nothing() {
    let mut session = patient_session(1024 * 1024);
    let spec = ProcessSpec {
        terminal: Some(TerminalSize { cols: 80, rows: 24 }),
        ..shell("seq 100000; read go; seq 100000; exit 3")
    };
    let process = session.start(spec).unwrap().running().await.unwrap();
    let mut reader = process.primary_reader(Cursor(0));
    let mut text = String::new();
    while !text.ends_with("\n100000\r\n") {
        match reader.next(usize::MAX).await {
            Item::Output { bytes, .. } => text.push_str(std::str::from_utf8(&bytes).unwrap()),
            other => panic!("{other:?}"),
        }
    }
    process.resize(TerminalSize { cols: 100, rows: 30 }).await.unwrap();
    process.input("go\n".into(), false).await.unwrap();
    let seen = read_all(reader).await;
    let rest = seen[0].strip_prefix("go\r\n").unwrap();
    let expected: String = (1..=100_000).map(|line| format!("{line}\r\n")).collect();
    assert!(text == expected && rest == expected, "{} and {} bytes", text.len(), rest.len());
    assert_eq!(seen[1..], ["Code(3)", "closed"]);
    session.close().await;
}

#[tokio::test]
async fn a_reader_that_ignores_the_exit_receives_output_and_the_end_only() {
    let mut session = patient_session(1024 * 1024);
    let process = session.start(shell("printf out; exit 3")).unwrap().running().await.unwrap();
    let mut reader = process.primary_reader(Cursor(0));
    reader.ignore_exit();
    assert_eq!(read_all(reader).await, ["out", "closed"]);
    session.close().await;
}
