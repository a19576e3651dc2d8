//! Outbound connections against small servers: fragmented responses, redirects, rejections, and a server that sends first.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use link::dial::{self, DialError, Redirects, Request, Tls};
use link::websocket::Settings;
use link::{Incoming, Limits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Reads the head of a request, and its body if it has one.
async fn asked(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "{text}");
    }
}

/// Answers one connection after the other with these; what was asked comes back.
async fn server(answers: Vec<String>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(async move {
        let mut all = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            all.push(asked(&mut stream).await);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        all
    });
    (address, serving)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_request_arrives_unchanged_and_its_response_is_returned() {
    let (address, serving) = server(vec![answer("201 Created", "x-made: yes\r\n", "done")]).await;
    let mut request = Request::new(Method::POST, format!("http://{address}/a/b?c=d"));
    request.headers.insert("authorization", HeaderValue::from_static("Bearer t"));
    request.body = "hello".into();
    let answer = dial::http(request).await.unwrap();
    assert_eq!((answer.status, answer.headers["x-made"].as_bytes()), (StatusCode::CREATED, &b"yes"[..]));
    assert_eq!(answer.bytes(100).await.unwrap(), b"done");
    let asked = serving.await.unwrap().remove(0);
    assert!(asked.starts_with("POST /a/b?c=d HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("authorization: Bearer t\r\n") && asked.ends_with("\r\n\r\nhello"), "{asked}");
    assert!(asked.contains(&format!("host: {address}\r\n")), "{asked}");
}

#[tokio::test]
async fn redirects_are_followed_on_request_without_credentials_for_other_hosts() {
    let (elsewhere, there) = server(vec![answer("200 OK", "", "here")]).await;
    let first = answer("302 Found", "location: b\r\n", "");
    let second = answer("307 Temporary Redirect", &format!("location: http://{elsewhere}/c\r\n"), "");
    let (address, serving) = server(vec![first.clone(), second, first]).await;
    let mut request = Request::new(Method::POST, format!("http://{address}/x/a"));
    request.headers.insert("authorization", HeaderValue::from_static("Bearer t"));
    request.body = "hello".into();
    request.redirects = Redirects::Follow;
    let found = dial::http(request.clone()).await.unwrap();
    assert_eq!(found.bytes(100).await.unwrap(), b"here");
    let there = there.await.unwrap().remove(0);
    assert!(there.starts_with("GET /c ") && !there.contains("Bearer"), "{there}");
    request.redirects = Redirects::Stop;
    assert_eq!(dial::http(request).await.unwrap().status, StatusCode::FOUND);
    let asked = serving.await.unwrap();
    assert!(asked[1].starts_with("GET /x/b ") && asked[1].contains("Bearer"), "{}", asked[1]);
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_late_and_a_server_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut request = Request::new(Method::GET, format!("http://{address}/"));
    request.timeout = Some(Duration::from_millis(50));
    assert!(matches!(dial::http(request).await, Err(DialError::Late(_))));
    drop(listener);
    let error = dial::http(Request::new(Method::GET, format!("http://{address}/"))).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("could not connect to {address}: ")), "{error}");
}

#[tokio::test]
async fn data_after_the_handshake_response_is_not_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = asked(&mut stream).await;
        let key = asked.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
        let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.as_bytes());
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-accept: {accept}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), b"\x82\x03\x00\x01\x02"].concat()).await.unwrap();
        (stream, asked)
    });
    let headers = HeaderMap::from_iter([("x-request-id".parse().unwrap(), HeaderValue::from_static("7"))]);
    let socket =
        dial::websocket(&format!("ws://{address}/rv?ticket=1"), &headers, &Tls::default()).await.unwrap();
    let (mut link, _closer) = socket.binary(&Settings::relay(), &Limits::default());
    assert_eq!(link.incoming.recv().await, Some(Incoming::Message(Bytes::from_static(&[0, 1, 2]))));
    let (_stream, asked) = serving.await.unwrap();
    assert!(
        asked.starts_with("GET /rv?ticket=1 HTTP/1.1\r\n") && asked.contains("x-request-id: 7\r\n"),
        "{asked}"
    );
}

#[tokio::test]
async fn a_rejected_handshake_contains_the_response_body() {
    let (address, _serving) = server(vec![answer("403 Forbidden", "", "no ticket")]).await;
    let refused = dial::websocket(&format!("ws://{address}/"), &HeaderMap::new(), &Tls::default()).await;
    let Err(DialError::Refused { status, body }) = refused else { panic!("{refused:?}") };
    assert_eq!((status, body.as_str()), (StatusCode::FORBIDDEN, "no ticket"));
}
