//! The relay executor against a registry and a rendezvous that behave like the released ones.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use daemon::faces::exec_server::relay::{self, RemoteExecutorConfig, RemoteExecutorError};
use futures_util::{SinkExt as _, StreamExt as _};
use link::task::Tasks;
use link::websocket::Settings;
use link::{Incoming, Link};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use wire::exec_server::relay::{Body, Data, RelayFrame};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers every message with itself in other words.
async fn echo(mut link: Link) {
    while let Some(Incoming::Message(message)) = link.incoming.recv().await {
        if link.outgoing.respond([b"echo ", &message[..]].concat().into()).await.is_err() {
            break;
        }
    }
}

/// Takes one request and answers it; what was asked comes back.
async fn registered(listener: &TcpListener, status: &str, body: &str) -> String {
    let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut asked).await.unwrap(), 0);
    }
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8(asked).unwrap()
}

async fn rendezvous(listener: &TcpListener) -> WebSocketStream<TcpStream> {
    let (stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    tokio_tungstenite::accept_async(stream).await.unwrap()
}

fn place(listener: &TcpListener) -> String {
    let address = listener.local_addr().unwrap();
    format!(r#"{{"executor_id":"e 1","url":"ws://{address}/rv?ticket=1","later":true}}"#)
}

async fn listener() -> (TcpListener, RemoteExecutorConfig) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/base/", listener.local_addr().unwrap());
    (listener, RemoteExecutorConfig::with_bearer_token(&base, "e 1", "t0ken").unwrap())
}

async fn send(socket: &mut WebSocketStream<TcpStream>, id: &str, body: Body) {
    socket.send(Message::Binary(RelayFrame::new(id, body).encode())).await.unwrap();
}

fn data(seq: u32, text: &str) -> Body {
    let payload = Bytes::copy_from_slice(text.as_bytes());
    Body::Data(Data { seq, segment_index: 0, segment_count: 1, payload })
}

/// The next message of the executor, whose stream, and its number; greetings and acknowledgements are ignored, as the
/// released harness does.
async fn next_data(socket: &mut WebSocketStream<TcpStream>) -> (String, u32, String) {
    loop {
        let message = timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap();
        let Message::Binary(bytes) = message else { continue };
        let frame = RelayFrame::decode(bytes).unwrap();
        if let Body::Data(data) = frame.body {
            assert_eq!((data.segment_index, data.segment_count), (0, 1), "never cut for a released harness");
            return (frame.stream_id, data.seq, String::from_utf8(data.payload.to_vec()).unwrap());
        }
    }
}

#[tokio::test]
async fn streams_of_one_socket_are_served_apart_and_a_lost_socket_is_replaced() {
    let (listener, config) = listener().await;
    let running =
        tokio::spawn(
            async move { relay::run(&config, echo, &Tasks::new()).await.map(|never| match never {}) },
        );
    let asked = registered(&listener, "200 OK", &place(&listener)).await;
    assert!(asked.starts_with("POST /base/cloud/executor/e%201/register HTTP/1.1\r\n"), "{asked}");
    assert!(
        asked.contains("authorization: Bearer t0ken\r\n") && asked.contains("accept: */*\r\n"),
        "{asked}"
    );
    assert!(!asked.to_lowercase().contains("content-type"), "{asked}");
    let mut socket = rendezvous(&listener).await;
    for id in ["a", "b"] {
        send(&mut socket, id, Body::Resume { next_seq: 0 }).await;
        send(&mut socket, id, data(0, &format!("hello from {id}"))).await;
        assert_eq!(next_data(&mut socket).await, (id.to_owned(), 0, format!("echo hello from {id}")));
    }
    send(&mut socket, "a", Body::Reset { reason: "done".to_owned() }).await;
    send(&mut socket, "b", data(1, "still here")).await;
    assert_eq!(next_data(&mut socket).await, ("b".to_owned(), 1, "echo still here".to_owned()));
    // As with the released executors, the same id begins anew after a reset.
    send(&mut socket, "a", data(0, "again")).await;
    assert_eq!(next_data(&mut socket).await, ("a".to_owned(), 0, "echo again".to_owned()));
    drop(socket);
    registered(&listener, "200 OK", &place(&listener)).await;
    let mut socket = rendezvous(&listener).await;
    send(&mut socket, "c", data(0, "new")).await;
    assert_eq!(next_data(&mut socket).await, ("c".to_owned(), 0, "echo new".to_owned()));
    running.abort();
}

#[tokio::test]
async fn a_rejected_token_ends_the_executor_with_a_hint() {
    for (status, said) in [("401 Unauthorized", "bad_token: go away"), ("403 Forbidden", "")] {
        let (listener, config) = listener().await;
        let body = match said {
            "" => "",
            _ => r#"{"error":{"code":"bad_token","message":"go away"}}"#,
        };
        let answering = registered(&listener, status, body);
        let tasks = Tasks::new();
        let (ended, _) = tokio::join!(timeout(PATIENCE, relay::run(&config, echo, &tasks)), answering);
        let error = ended.unwrap().unwrap_err();
        assert!(matches!(error, RemoteExecutorError::Auth { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(said) && text.contains("CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN"), "{text}");
        assert!(!text.contains("t0ken"), "{text}");
    }
}

#[tokio::test]
async fn other_refusals_and_answers_that_are_none_end_it_too() {
    let cases = [
        ("404 Not Found", "no such executor", "404 Not Found: no such executor"),
        ("200 OK", "<html>", "is no registration"),
        ("200 OK", r#"{"executor_id":"e","url":"http://x"}"#, "no ws://"),
    ];
    for (status, body, expected) in cases {
        let (listener, config) = listener().await;
        let answering = registered(&listener, status, body);
        let tasks = Tasks::new();
        let (ended, _) = tokio::join!(timeout(PATIENCE, relay::run(&config, echo, &tasks)), answering);
        let error = ended.unwrap().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn registration_is_retried_after_a_server_error() {
    let (listener, config) = listener().await;
    let running =
        tokio::spawn(
            async move { relay::run(&config, echo, &Tasks::new()).await.map(|never| match never {}) },
        );
    registered(&listener, "503 Service Unavailable", "later").await;
    registered(&listener, "200 OK", &place(&listener)).await;
    rendezvous(&listener).await;
    running.abort();
}

/// The messages of the log of all tests in this program. One of a single thread could miss messages: `tracing` asks only one
/// thread whether it wants a message, and stores the answer.
#[derive(Clone, Default)]
struct LogRecorder(Arc<Mutex<String>>);

impl tracing::Subscriber for LogRecorder {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Text<'a>(&'a mut String);
        impl tracing::field::Visit for Text<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    *self.0 += &format!("{value:?}\n");
                }
            }
        }
        event.record(&mut Text(&mut self.0.lock().unwrap()));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// The rendezvous stays connected, and nothing comes from it any more, not even a pong.
#[tokio::test]
async fn a_rendezvous_that_falls_silent_is_given_up_and_dialled_again() {
    let log = LogRecorder::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let (listener, mut config) = listener().await;
    config.keep_alive = Settings { ping_every: Duration::from_millis(500), deadline: Duration::from_secs(3) };
    let running =
        tokio::spawn(
            async move { relay::run(&config, echo, &Tasks::new()).await.map(|never| match never {}) },
        );
    registered(&listener, "200 OK", &place(&listener)).await;
    let mut silent = rendezvous(&listener).await;
    send(&mut silent, "a", data(0, "first")).await;
    assert_eq!(next_data(&mut silent).await.2, "echo first");
    // From here on it neither reads nor writes.
    registered(&listener, "200 OK", &place(&listener)).await;
    let mut next = rendezvous(&listener).await;
    send(&mut next, "a", data(0, "second")).await;
    assert_eq!(next_data(&mut next).await.2, "echo second");
    let logged = log.0.lock().unwrap().clone();
    for message in ["a WebSocket is closed: the peer", "the connection to the rendezvous is gone"] {
        assert!(logged.contains(message), "{message}:\n{logged}");
    }
    drop(silent);
    running.abort();
}
