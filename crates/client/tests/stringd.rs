//! The client of stringd against a scripted server: one test per point of the protocol's checklist for clients.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step ends the test")]

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};

use client::stringd::{ExecRequest, StartError, StringdClient, StringdError};

const HEALTH: &str = r#"{"ok":true,"users":1,"sessions":0}"#;
/// The same; the server closes the connection behind it.
const HEALTH_AND_CLOSE: &str = r#"{"ok":true,"users":2,"sessions":0}"#;
const HEAD: &str = r#"event: head
data: {"ok":true,"code":null,"cmd":"/x","request_id":null,"user_id":"u","topic":"file:main","topic_type":"file","meta":null}

"#;
const CONTENT: &str = "event: content\ndata: \"re: /x\\nfirst\\nsecond\"\n\n";
const DONE: &str = "event: done\ndata: {}\n\n";

/// A server that answers requests in order, each with a status and a body, and notes what it received.
struct Server {
    address: SocketAddr,
    received: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
}

fn serve(answers: Vec<(u16, String)>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (received, connections) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
    let (notes, count) = (received.clone(), connections.clone());
    std::thread::spawn(move || {
        let mut answers = answers.into_iter().peekable();
        while answers.peek().is_some() {
            let (stream, _) = listener.accept().unwrap();
            *count.lock().unwrap() += 1;
            let mut reader = BufReader::new(stream);
            while let Some(request) = request(&mut reader) {
                notes.lock().unwrap().push(request);
                let Some((status, body)) = answers.next() else { return };
                // A status of 1 closes the connection without an answer.
                if status == 1 {
                    break;
                }
                let length = body.len();
                // A status of 0 cuts the body.
                let (status, length) = if status == 0 { (200, length + 10) } else { (status, length) };
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
                reader.get_mut().write_all(head.as_bytes()).unwrap();
                // The connection is closed behind a complete answer.
                if length > body.len() || body == HEALTH_AND_CLOSE {
                    break;
                }
            }
        }
    });
    Server { address, received, connections }
}

fn request(reader: &mut impl std::io::BufRead) -> Option<String> {
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
        text += &line.to_ascii_lowercase();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(text + &String::from_utf8(body).unwrap())
}

fn ok(body: &str) -> (u16, String) {
    (200, body.to_owned())
}

fn exec() -> ExecRequest {
    ExecRequest { cmd: "/x".to_owned(), topic: "file:main".to_owned(), request_id: None }
}

#[tokio::test]
async fn a_ping_is_the_health_of_the_daemon_and_false_without_one() {
    let server = serve(vec![ok(HEALTH)]);
    assert!(StringdClient::at(server.address, "u").ping().await);
    assert!(server.received.lock().unwrap()[0].starts_with("get /health "));
    let unused = "127.0.0.1:1".parse().unwrap();
    assert!(!StringdClient::at(unused, "u").ping().await);
}

#[tokio::test]
async fn the_user_is_registered_under_both_keys() {
    let server = serve(vec![ok(r#"{"user_id":"u","home":"/h","created":true}"#)]);
    assert!(StringdClient::at(server.address, "u").ensure_user("/h").await.unwrap().created);
    let received = server.received.lock().unwrap()[0].clone();
    assert!(received.contains(r#""id":"u""#) && received.contains(r#""user_id":"u""#), "{received}");
}

#[tokio::test]
async fn a_command_names_its_user_accepts_events_and_uses_one_connection() {
    let stream = format!("{HEAD}{CONTENT}{DONE}");
    let server = serve(vec![ok(HEALTH), ok(&stream), ok(&stream)]);
    let mut client = StringdClient::at(server.address, "u");
    client.health().await.unwrap();
    for _ in 0..2 {
        let result = client.exec(&exec()).await.unwrap();
        assert_eq!((result.ok, result.content.as_str(), result.meta), (true, "first\nsecond", None));
    }
    assert_eq!(*server.connections.lock().unwrap(), 1);
    let received = server.received.lock().unwrap()[1].clone();
    assert!(received.contains("x-user-id: u\r\n"), "{received}");
    assert!(received.contains("accept: text/event-stream\r\n"), "{received}");
}

#[tokio::test]
async fn a_stream_without_its_last_event_is_incomplete_and_the_command_is_not_repeated() {
    let server = serve(vec![(0, format!("{HEAD}{CONTENT}")), ok(HEALTH)]);
    let mut client = StringdClient::at(server.address, "u");
    let result = client.exec(&exec()).await.unwrap();
    assert_eq!((result.ok, result.code.as_deref()), (false, Some("STREAM_INCOMPLETE")));
    assert_eq!(server.received.lock().unwrap().len(), 1);
    assert!(client.ping().await, "the next request has a new connection");
}

#[tokio::test]
async fn a_full_queue_and_a_late_command_are_separate_errors() {
    let full =
        r#"{"error":"QUEUE_FULL","message":"Topic u:file:main has 16 commands queued. Try again later."}"#;
    let late = r#"{"error":"QUEUE_TIMEOUT","message":"Timed out waiting in queue."}"#;
    let unknown = r#"{"error":"Unknown user: u"}"#;
    let server = serve(vec![(429, full.to_owned()), (504, late.to_owned()), (401, unknown.to_owned())]);
    let mut client = StringdClient::at(server.address, "u");
    assert!(
        matches!(client.exec(&exec()).await, Err(StringdError::QueueFull(text)) if text.contains("16 commands"))
    );
    assert!(matches!(client.exec(&exec()).await, Err(StringdError::QueueTimeout(_))));
    assert!(matches!(client.exec(&exec()).await, Err(StringdError::Refused { status: 401, .. })));
    assert_eq!(server.received.lock().unwrap().len(), 3, "nothing is repeated");
}

#[tokio::test]
async fn a_daemon_is_started_on_loopback_only() {
    // An address of the documentation range, which no request must reach.
    let mut client = StringdClient::at("192.0.2.1:9".parse().unwrap(), "u");
    let started = client.ensure_daemon(Path::new("/nonexistent")).await;
    assert!(matches!(started, Err(StartError::NotLoopback(_))), "{started:?}");
    let unused = "127.0.0.1:1".parse().unwrap();
    let started = StringdClient::at(unused, "u").ensure_daemon(Path::new("/nonexistent")).await;
    assert!(matches!(started, Err(StartError::Spawn { .. })), "{started:?}");
    let server = serve(vec![ok(HEALTH)]);
    StringdClient::at(server.address, "u").ensure_daemon(Path::new("/nonexistent")).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_was_closed_in_between_is_replaced_and_a_sent_command_is_not_repeated() {
    let stream = format!("{HEAD}{CONTENT}{DONE}");
    let server = serve(vec![ok(HEALTH_AND_CLOSE), ok(&stream), (1, String::new()), ok(HEALTH)]);
    let mut client = StringdClient::at(server.address, "u");
    client.health().await.unwrap();
    // The server closes before the command is written: it may be lost once, but never arrives twice.
    let first = client.exec(&exec()).await;
    let sent = || server.received.lock().unwrap().iter().filter(|it| it.starts_with("post /exec ")).count();
    if first.is_err() {
        assert_eq!(sent(), 0, "{first:?}");
        client.exec(&exec()).await.unwrap();
    }
    assert_eq!(sent(), 1);
    let cut = client.exec(&exec()).await;
    assert!(matches!(cut, Err(StringdError::Broken(_))), "{cut:?}");
    assert_eq!(sent(), 2, "the command that was written is not repeated");
    assert!(client.ping().await, "the next request has a new connection");
}

#[tokio::test]
async fn a_document_is_in_the_result_and_a_daemon_is_asked_to_end() {
    let meta = r##"{"uri":"file:///a.md","title":"A","current_block":"#b","menus":[],"actions":["x"],"history_length":1,"block_id":"b","converted":false,"warnings":[]}"##;
    let head = HEAD.replace("\"meta\":null", &format!("\"meta\":{meta}"));
    let end = r#"{"ok":true,"message":"stringd shutting down"}"#;
    let server = serve(vec![ok(&format!("{head}{CONTENT}{DONE}")), ok(end)]);
    let mut client = StringdClient::at(server.address, "u");
    let result = client.exec(&exec()).await.unwrap();
    let meta = result.meta.unwrap();
    assert_eq!((meta.uri.as_str(), meta.current_block.as_deref()), ("file:///a.md", Some("#b")));
    assert_eq!(result.topic.as_deref(), Some("file:main"));
    assert!(client.shutdown().await.unwrap().ok);
    assert!(server.received.lock().unwrap()[1].starts_with("post /shutdown "));
}

#[tokio::test]
async fn a_carriage_return_in_the_framing_is_not_an_event() {
    let stream = format!("{HEAD}{CONTENT}{DONE}").replace('\n', "\r\n");
    let server = serve(vec![ok(&stream)]);
    let result = StringdClient::at(server.address, "u").exec(&exec()).await.unwrap();
    assert_eq!((result.ok, result.code.as_deref()), (false, Some("STREAM_INCOMPLETE")));
}
