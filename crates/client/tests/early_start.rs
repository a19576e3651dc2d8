//! The start of a command that is sent together with the request that opens its session, by a server whose every message the
//! test writes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod scripted_server;

use std::time::Duration;

use client::{Command, Error, Process, ProcessEventKind, Session, SessionOptions, Target};
use scripted_server::{Connection, exit, opened, output, started};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

/// The result of `session.open` of a server with these capabilities.
fn opened_with(capabilities: &[&str]) -> Value {
    let mut opened = opened();
    opened["capabilities"] = json!(capabilities);
    opened
}

/// Starts a command with its session, and returns the output of the command and its exit status.
async fn start(path: std::path::PathBuf, options: SessionOptions) -> Result<String, Error> {
    let connection = Session::dial(Target::Unix(path), options).await?;
    assert!(connection.is_connected());
    let (_session, starting) = connection.start(Command::argv(["echo"])).await?;
    gather(starting.process().await?).await
}

async fn gather(mut process: Process) -> Result<String, Error> {
    let mut received = String::new();
    while let Some(event) = process.next().await? {
        match event.kind {
            ProcessEventKind::Stdout(bytes) => received += std::str::from_utf8(&bytes).unwrap(),
            ProcessEventKind::Exit(exit) => received += &format!(", exit {}", exit.code),
            ProcessEventKind::Lost(lost) => received += &format!(" ({lost})"),
            other => panic!("{other:?}"),
        }
    }
    Ok(received)
}

/// Runs the client beside a server. The server's connection stays open until the client is done.
async fn run<S, T>(serve: impl FnOnce(UnixListener) -> S) -> Result<String, Error>
where
    S: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    run_with(SessionOptions::default(), serve).await
}

async fn run_with<S, T>(
    options: SessionOptions,
    serve: impl FnOnce(UnixListener) -> S,
) -> Result<String, Error>
where
    S: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let serving = tokio::spawn(serve(UnixListener::bind(&path).unwrap()));
    let received = timeout(PATIENCE, start(path, options)).await.expect("the client is done");
    drop(timeout(PATIENCE, serving).await.expect("the server is done").unwrap());
    received
}

const CAPABILITIES: &[&str] = &["session.last", "resume", "resume_key"];

#[tokio::test]
async fn a_command_starts_in_one_round_trip() {
    let received = run(async |listener: UnixListener| {
        let mut server = Connection::accept(&listener).await;
        // Both are read before anything is answered.
        let open = server.received("session.open").await;
        let start = server.early_start().await;
        assert_eq!(start["params"]["session_id"], "@last");
        assert_eq!(open["params"]["resume"], true);
        server.respond(&open, opened_with(CAPABILITIES)).await;
        server.respond(&start, started()).await;
        server.send(output(1, 5, "hello")).await;
        server.send(exit(2)).await;
        server
    });
    assert_eq!(received.await.unwrap(), "hello, exit 0");
}

#[tokio::test]
async fn responses_may_arrive_in_any_order() {
    let received = run(async |listener: UnixListener| {
        let mut server = Connection::accept(&listener).await;
        let open = server.received("session.open").await;
        let start = server.early_start().await;
        server.respond(&start, started()).await;
        server.send(output(1, 5, "hello")).await;
        server.respond(&open, opened_with(CAPABILITIES)).await;
        server.send(exit(2)).await;
        server
    });
    assert_eq!(received.await.unwrap(), "hello, exit 0");
}

/// A server without `@last` refuses the early request, and receives another one with the id.
#[tokio::test]
async fn a_server_that_does_not_announce_it_receives_the_start_again() {
    let received = run(async |listener: UnixListener| {
        let mut server = Connection::accept(&listener).await;
        let open = server.received("session.open").await;
        server.respond(&open, opened_with(&[])).await;
        let early = server.early_start().await;
        server.refuse(&early, -32602, "session not found").await;
        let start = server.received("exec.start").await;
        assert_eq!(start["params"]["session_id"], "s");
        assert_eq!(start["params"]["idempotency_key"], early["params"]["idempotency_key"]);
        server.respond(&start, started()).await;
        server.send(exit(1)).await;
        server
    });
    assert_eq!(received.await.unwrap(), ", exit 0");
}

/// A server that announces it refuses for a reason of its own: the command is not sent again.
#[tokio::test]
async fn a_refused_command_is_not_sent_again() {
    let received = run(async |listener: UnixListener| {
        let mut server = Connection::accept(&listener).await;
        let open = server.received("session.open").await;
        let start = server.early_start().await;
        server.respond(&open, opened_with(CAPABILITIES)).await;
        server.refuse(&start, -32001, "denied").await;
        server.received("session.close").await;
    });
    assert_eq!(received.await.unwrap_err().to_string(), "denied");
}

#[tokio::test]
async fn a_refused_session_is_reported_as_such() {
    let received = run(async |listener: UnixListener| {
        let mut server = Connection::accept(&listener).await;
        let open = server.received("session.open").await;
        server.early_start().await;
        server.refuse(&open, -32008, "too many sessions").await;
        server
    });
    assert_eq!(received.await.unwrap_err().to_string(), "too many sessions");
}

/// The first connection is cut before a response, so that the command may run; returns both requests.
async fn cut(listener: &UnixListener) -> (Value, Value) {
    let mut server = Connection::accept(listener).await;
    let open = server.received("session.open").await;
    let start = server.early_start().await;
    assert!(open["params"]["resume_key"].as_str().is_some_and(|key| key.len() == 32), "{open}");
    assert_eq!(open["params"].get("resent_after_ms"), None);
    (open, start)
}

/// ARCHITECTURE.md, invariant 47.
#[tokio::test]
async fn a_session_whose_opening_was_cut_is_continued_with_its_key() {
    let received = run(async |listener: UnixListener| {
        let (first, early) = cut(&listener).await;
        let mut server = Connection::accept(&listener).await;
        let open = server.received("session.open").await;
        assert_eq!(open["params"]["resume_key"], first["params"]["resume_key"]);
        assert!(open["params"]["resent_after_ms"].as_i64().is_some_and(|age| age >= 1), "{open}");
        // Its events are sent again, from the first one.
        let mut result = opened_with(CAPABILITIES);
        result["lost"] = json!(0);
        server.respond(&open, result).await;
        server.send(output(1, 5, "hello")).await;
        let start = server.received("exec.start").await;
        assert_eq!(start["params"]["session_id"], "s");
        assert_eq!(start["params"]["idempotency_key"], early["params"]["idempotency_key"]);
        server.respond(&start, started()).await;
        server.send(exit(2)).await;
        server
    });
    assert_eq!(received.await.unwrap(), "hello, exit 0");
}

#[tokio::test]
async fn lost_events_of_a_session_whose_opening_was_cut_are_reported() {
    let received = run(async |listener: UnixListener| {
        cut(&listener).await;
        let mut server = Connection::accept(&listener).await;
        let open = server.received("session.open").await;
        let mut result = opened_with(CAPABILITIES);
        result["lost"] = json!(7);
        server.respond(&open, result).await;
        let start = server.received("exec.start").await;
        server.respond(&start, started()).await;
        server.send(exit(8)).await;
        server
    });
    let received = received.await.unwrap();
    assert!(received.contains('7') && received.ends_with(", exit 0"), "{received}");
}

fn is_ambiguous(error: &Error) -> bool {
    matches!(error, Error::Ambiguous { method: "exec.start", .. })
}

/// The server may have started the command in a session that it cannot continue.
#[tokio::test]
async fn a_command_that_may_run_is_not_started_again() {
    for refusal in [None, Some((-32001, "the session has ended"))] {
        let received = run(async move |listener: UnixListener| {
            cut(&listener).await;
            let mut server = Connection::accept(&listener).await;
            let open = server.received("session.open").await;
            match refusal {
                Some((code, message)) => server.refuse(&open, code, message).await,
                // It has ignored the key, and has opened another session.
                None => server.respond(&open, opened_with(&["session.last"])).await,
            }
            server
        });
        let error = received.await.unwrap_err();
        assert!(is_ambiguous(&error), "{error}");
    }
}

/// The other connection is still open at the server's end.
#[tokio::test]
async fn a_session_that_is_still_attached_is_tried_again() {
    let received = run(async |listener: UnixListener| {
        cut(&listener).await;
        let mut second = Connection::accept(&listener).await;
        let open = second.received("session.open").await;
        let error = json!({ "code": -32006, "message": "attached elsewhere", "data": { "retry": true } });
        second.send(json!({ "id": open["id"], "error": error })).await;
        let mut third = Connection::accept(&listener).await;
        let open = third.received("session.open").await;
        third.respond(&open, opened_with(CAPABILITIES)).await;
        let start = third.received("exec.start").await;
        third.respond(&start, started()).await;
        third.send(exit(1)).await;
        (second, third)
    });
    assert_eq!(received.await.unwrap(), ", exit 0");
}

#[tokio::test]
async fn a_server_that_does_not_answer_may_have_started_the_command() {
    let options = SessionOptions { connect_timeout: Duration::from_secs(3), ..SessionOptions::default() };
    let received = run_with(options, async |listener: UnixListener| {
        let mut server = Connection::accept(&listener).await;
        server.received("session.open").await;
        server.early_start().await;
        server
    });
    let error = received.await.unwrap_err();
    assert!(is_ambiguous(&error) && error.to_string().contains("no answer within"), "{error}");
}

/// Without a session that can be resumed there is no key, and a cut is reported.
#[tokio::test]
async fn without_reconnecting_a_cut_is_reported() {
    let options = SessionOptions { reconnect_timeout: Duration::ZERO, ..SessionOptions::default() };
    let received = run_with(options, async |listener: UnixListener| {
        let mut server = Connection::accept(&listener).await;
        let open = server.received("session.open").await;
        assert_eq!(open["params"].get("resume_key"), None);
        server.received("exec.start").await;
        listener
    });
    let error = received.await.unwrap_err();
    assert!(is_ambiguous(&error), "{error}");
}
