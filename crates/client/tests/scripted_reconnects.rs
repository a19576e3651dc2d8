//! What the events of a process report after a lost connection, by a server whose every message the test writes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod scripted_server;

use std::time::Duration;

use client::{Command, ProcessEventKind, Session, SessionOptions, Target};
use scripted_server::{Connection, exit, opened, output, started};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is still executing a start when the connection is lost and the start is sent again. The process has some
/// events before the client has asked for the third time, and the others after that.
async fn serve(listener: UnixListener, early: Vec<Value>, late: Vec<Value>) -> Connection {
    let mut first = Connection::accept(&listener).await;
    let id = first.request("session.open").await;
    first.send(json!({ "id": id, "result": opened() })).await;
    first.request("exec.start").await;
    drop(first);
    let mut second = Connection::accept(&listener).await;
    let id = second.request("session.resume").await;
    second.send(json!({ "id": id, "result": opened() })).await;
    let id = second.request("exec.start").await;
    let in_progress =
        json!({ "code": -32006, "message": "in progress", "data": { "field": "idempotency_key" } });
    second.send(json!({ "id": id, "error": in_progress })).await;
    for event in early {
        second.send(event).await;
    }
    let id = second.request("exec.start").await;
    second.send(json!({ "id": id, "result": started() })).await;
    for event in late {
        second.send(event).await;
    }
    second
}

/// Does not resume a session, and opens another. Returns the request that attaches to the process.
async fn lose_session(listener: &UnixListener) -> (Connection, Value) {
    let mut old = Connection::accept(listener).await;
    let id = old.request("session.resume").await;
    old.send(json!({ "id": id, "error": { "code": -32001, "message": "unknown session" } })).await;
    let mut new = Connection::accept(listener).await;
    let id = new.request("session.open").await;
    new.send(json!({ "id": id, "result": opened() })).await;
    let id = new.request("exec.attach").await;
    (new, id)
}

/// A server that loses its sessions, so many times, while a detached process runs, and some of the output of that process.
async fn serve_loss(listener: UnixListener, times: usize) -> Connection {
    let mut first = Connection::accept(&listener).await;
    let id = first.request("session.open").await;
    first.send(json!({ "id": id, "result": opened() })).await;
    let id = first.request("exec.start").await;
    first.send(json!({ "id": id, "result": started() })).await;
    first.send(output(1, 5, "hello")).await;
    drop(first);
    let (mut third, mut id) = lose_session(&listener).await;
    for _ in 1..times {
        drop(third);
        (third, id) = lose_session(&listener).await;
    }
    let attached = json!({
        "process_id": "p", "status": "running", "exit_code": null, "signal": null, "cursor": 105, "lost": 100,
    });
    third.send(json!({ "id": id, "result": attached })).await;
    third.send(output(1, 111, " world")).await;
    third.send(exit(2)).await;
    third
}

/// The events of the process up to its exit, behind which they end.
async fn run<S>(command: Command, serve: impl FnOnce(UnixListener) -> S) -> String
where
    S: Future<Output = Connection> + Send + 'static,
{
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let serving = tokio::spawn(serve(UnixListener::bind(&path).unwrap()));
    let session = Session::open(Target::Unix(path), SessionOptions::default()).await.unwrap();
    let starting = session.start(command);
    let mut process = timeout(PATIENCE, starting).await.expect("a response").unwrap();
    let mut received = String::new();
    while let Some(event) = timeout(PATIENCE, process.next()).await.expect("an event or the end").unwrap() {
        match event.kind {
            ProcessEventKind::Stdout(bytes) => received += std::str::from_utf8(&bytes).unwrap(),
            ProcessEventKind::Exit(exit) => received += &format!(", exit {}", exit.code),
            ProcessEventKind::Lost(lost) => received += &format!(" ({lost})"),
            other => panic!("{other:?}"),
        }
    }
    drop(timeout(PATIENCE, serving).await.expect("the server has sent all").unwrap());
    received
}

/// ARCHITECTURE.md, invariant 47.
#[tokio::test]
async fn output_of_a_process_whose_repeated_start_is_in_progress_is_kept() {
    let (early, late) = (vec![output(1, 5, "hello")], vec![output(2, 11, " world"), exit(3)]);
    let received = run(Command::argv(["echo"]), |listener| serve(listener, early, late)).await;
    assert_eq!(received, "hello world, exit 0");
}

/// The most events that were kept once, and more.
#[tokio::test]
async fn every_event_that_arrives_before_the_response_to_the_start_is_kept() {
    let early = (1..=3_000).map(|number| output(number, number, "x")).collect();
    let received = run(Command::argv(["echo"]), |listener| serve(listener, early, vec![exit(3_001)])).await;
    assert_eq!(received, format!("{}, exit 0", "x".repeat(3_000)));
}

/// ARCHITECTURE.md, invariant 47.
#[tokio::test]
async fn output_that_exceeds_the_limit_before_the_response_to_the_start_is_reported_as_lost() {
    const PIECE: u64 = 1 << 20;
    let text = "x".repeat(usize::try_from(PIECE).unwrap());
    let early = (1..=80).map(|number| output(number, number * PIECE, &text)).collect();
    let late = vec![output(81, 80 * PIECE + 4, "late"), exit(82)];
    let received = run(Command::argv(["echo"]), |listener| serve(listener, early, late)).await;
    let kept = received.bytes().take_while(|byte| *byte == b'x').count() as u64;
    assert!((64 * PIECE..80 * PIECE).contains(&kept), "{kept}");
    let lost = 80 * PIECE - kept;
    assert_eq!(
        received.trim_start_matches('x'),
        format!(" ({lost} bytes of output were dropped)late, exit 0")
    );
}

#[tokio::test]
async fn events_that_the_server_lost_before_the_response_to_the_start_are_reported() {
    let lost = json!({ "method": "session.lost", "params": { "session_id": "s", "event_id": 1, "lost": 7 } });
    let (early, late) = (vec![lost], vec![output(9, 5, "hello"), exit(10)]);
    let received = run(Command::argv(["echo"]), |listener| serve(listener, early, late)).await;
    assert!(received.ends_with(")hello, exit 0") && received.contains('7'), "{received}");
}

#[tokio::test]
async fn events_end_behind_an_exit_that_arrived_before_the_response_to_the_start() {
    let early = vec![output(1, 5, "hello"), exit(2)];
    let received = run(Command::argv(["echo"]), |listener| serve(listener, early, Vec::new())).await;
    assert_eq!(received, "hello, exit 0");
}

/// ARCHITECTURE.md, invariant 47.
#[tokio::test]
async fn output_that_a_detached_process_lost_before_it_is_attached_again_is_reported() {
    let received = run(Command::argv(["echo"]).detach(), |listener| serve_loss(listener, 1)).await;
    assert_eq!(received, "hello (100 bytes of output were dropped) world, exit 0");
}

/// ARCHITECTURE.md, invariant 47.
#[tokio::test]
async fn a_detached_process_is_followed_though_the_next_session_is_lost_before_it_is_attached_to() {
    let received = run(Command::argv(["echo"]).detach(), |listener| serve_loss(listener, 3)).await;
    assert_eq!(received, "hello (100 bytes of output were dropped) world, exit 0");
}
