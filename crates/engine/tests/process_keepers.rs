//! Processes owned by a keeper: the same handle, a relay behind it, and a session whose end does not affect them.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use engine::process::{
    Containment, Cursor, Description, ExitCause, ExitStatus, Item, Keeper, KeeperEvent, KeeperReply,
    KeptProcess, KillOutcome, NextKeeperEvent, ProcessId, ProcessSummary, Signal, Stream, TerminalSize,
    TerminalState, TreeMember,
};
use engine::{Engine, EngineSettings, Session};
use support::{bounds, engine};
use tokio::sync::mpsc;

/// A keeper in memory: tells what the test hands it and notes what it was asked.
#[derive(Debug)]
struct Fake {
    news: mpsc::Receiver<KeeperEvent>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn note(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }
}

impl Keeper for Fake {
    fn next(&mut self) -> NextKeeperEvent<'_> {
        Box::pin(self.news.recv())
    }

    fn kill(&self, signal: Signal) -> KeeperReply<KillOutcome> {
        self.note(format!("kill {signal}"));
        let killed = vec![TreeMember { pid: 7, name: "fake".to_owned() }];
        Box::pin(async { Ok(KillOutcome { killed, remaining: Vec::new(), is_complete: true }) })
    }

    fn input(&self, bytes: Bytes, is_last: bool) -> KeeperReply<usize> {
        self.note(format!("input {bytes:?} {is_last}"));
        Box::pin(async move { Ok(bytes.len()) })
    }

    fn resize(&self, size: TerminalSize) -> KeeperReply<()> {
        self.note(format!("resize {}x{}", size.cols, size.rows));
        Box::pin(async { Ok(()) })
    }

    fn terminal(&self) -> KeeperReply<TerminalState> {
        self.note("terminal".to_owned());
        let size = TerminalSize { cols: 80, rows: 24 };
        Box::pin(async move { Ok(TerminalState { size, echoes: true, is_canonical: true, wait: None }) })
    }
}

fn kept(from: u64) -> (KeptProcess, mpsc::Sender<KeeperEvent>, Arc<Mutex<Vec<String>>>) {
    let (sender, news) = mpsc::channel(1);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let description = Description {
        name: None,
        argv: vec!["fake".to_owned()],
        cwd: "/".into(),
        has_terminal: false,
        origin: "test".into(),
        started_at: SystemTime::now(),
        is_detached: true,
    };
    let keeper = Box::new(Fake { news, asked: asked.clone() });
    let id = ProcessId("p_000000000000".to_owned());
    (KeptProcess { id, description, pid: Some(7), from: Cursor(from), keeper }, sender, asked)
}

fn output(start: u64, text: &'static str) -> KeeperEvent {
    KeeperEvent::Output {
        start: Cursor(start),
        stream: Stream::Stdout,
        bytes: Bytes::from_static(text.as_bytes()),
    }
}

fn closed() -> ProcessSummary {
    ProcessSummary {
        exit: ExitStatus::Code(3),
        cause: ExitCause::Itself,
        duration: Duration::from_secs(1),
        stdout_bytes: 12,
        stderr_bytes: 0,
        truncated_bytes: 0,
        held_by: Vec::new(),
        processes_refused: 0,
        denied: None,
    }
}

fn session() -> (Engine, Session) {
    let engine = engine(Containment::Marks);
    let session = engine.open_session().unwrap();
    (engine, session)
}

#[tokio::test]
async fn a_kept_process_is_read_from_where_its_keeper_begins_with_its_losses() {
    let (_engine, mut session) = session();
    let (kept, news, _asked) = kept(5);
    let (process, mut reader) = session.adopt(kept);
    assert_eq!(process.pid(), Some(7));
    assert_eq!(session.process(process.id()).unwrap().id(), process.id());
    news.send(output(5, "one")).await.unwrap();
    news.send(KeeperEvent::Lost { next: Cursor(10) }).await.unwrap();
    news.send(output(10, "two")).await.unwrap();
    news.send(KeeperEvent::Exited(ExitStatus::Code(3))).await.unwrap();
    news.send(output(13, "child")).await.unwrap();
    news.send(KeeperEvent::Closed(closed())).await.unwrap();
    let mut seen = String::new();
    loop {
        match reader.next(usize::MAX).await {
            Item::Output { bytes, next, .. } => {
                seen.push_str(&format!("{} to {} ", std::str::from_utf8(&bytes).unwrap(), next.0));
            }
            Item::Lost { bytes, next } => seen.push_str(&format!("lost {bytes} to {} ", next.0)),
            Item::Exited { status, .. } => seen.push_str(&format!("{status:?} ")),
            Item::Closed(closed) => break assert_eq!(closed.exit, ExitStatus::Code(3)),
            Item::Disconnected => panic!("left"),
        }
    }
    assert_eq!(seen, "one to 8 lost 2 to 10 two to 13 Code(3) child to 18 ");
    assert_eq!(process.closed().await.unwrap().stdout_bytes, 12);
}

#[tokio::test]
async fn commands_and_inputs_reach_the_keeper_in_their_order() {
    let (_engine, mut session) = session();
    let (kept, _news, asked) = kept(0);
    let (process, _reader) = session.adopt(kept);
    assert_eq!(process.input(Bytes::from_static(b"ab"), false).await.unwrap(), 2);
    assert_eq!(process.input(Bytes::from_static(b"c"), true).await.unwrap(), 1);
    process.resize(TerminalSize { cols: 80, rows: 24 }).await.unwrap();
    assert_eq!(process.terminal_state().await.unwrap().size.cols, 80);
    let ended = process.kill(Signal::TERM).await.unwrap();
    assert_eq!(ended.killed[0].pid, 7);
    assert_eq!(
        *asked.lock().unwrap(),
        ["input b\"ab\" false", "input b\"c\" true", "resize 80x24", "terminal", "kill TERM"]
    );
}

#[tokio::test]
async fn a_kept_process_counts_for_no_limit_and_is_in_no_list_of_the_engine() {
    let (engine, mut session) = session();
    let (kept, _news, _asked) = kept(0);
    let (_process, _reader) = session.adopt(kept);
    assert_eq!(session.running(), 0);
    assert!(session.has_capacity(1));
    assert!(engine.processes().await.is_empty());
}

/// ARCHITECTURE.md, invariant 28.
#[tokio::test]
async fn the_end_of_a_session_stops_the_relay_without_a_request_to_the_keeper() {
    let (_engine, mut session) = session();
    let (kept, news, asked) = kept(0);
    let (_process, _reader) = session.adopt(kept);
    session.close().await;
    news.closed().await;
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_keeper_that_dies_takes_the_process_with_it() {
    let (_engine, mut session) = session();
    let (kept, news, _asked) = kept(0);
    let (process, mut reader) = session.adopt(kept);
    news.send(output(0, "last words")).await.unwrap();
    drop(news);
    assert_eq!(process.closed().await.unwrap().exit, ExitStatus::Signal(Signal::KILL));
    assert!(matches!(reader.next(usize::MAX).await, Item::Output { .. }));
    assert!(matches!(
        reader.next(usize::MAX).await,
        Item::Exited { status: ExitStatus::Signal(Signal::KILL), .. }
    ));
    assert!(matches!(reader.next(usize::MAX).await, Item::Closed(_)));
}

#[tokio::test]
async fn a_reader_that_stops_holds_the_keeper_back_and_a_kill_still_passes() {
    let small = EngineSettings {
        process_limits: engine::process::ProcessLimits { log_bytes: 8, ..bounds() },
        containment: Containment::Marks,
        max_sessions: 1,
        sandbox: engine::sandbox::SandboxSettings::default(),
        guardian: None,
        adopts_orphans: false,
    };
    let mut session = Engine::start(small).open_session().unwrap();
    let (kept, news, _asked) = kept(0);
    let (process, mut reader) = session.adopt(kept);
    news.send(output(0, "full now")).await.unwrap();
    let (first, second) = (news.reserve().await.unwrap(), news.try_reserve().is_err());
    first.send(output(8, "more"));
    assert!(second, "one place in the channel");
    process.kill(Signal::KILL).await.unwrap();
    assert!(news.try_reserve().is_err(), "the relay takes nothing that it has no room for");
    assert!(matches!(reader.next(usize::MAX).await, Item::Output { next: Cursor(8), .. }));
    assert!(matches!(reader.next(usize::MAX).await, Item::Output { next: Cursor(12), .. }));
    drop(reader);
    for start in 0..20 {
        news.send(output(12 + start * 8, "unheard.")).await.unwrap();
    }
}
