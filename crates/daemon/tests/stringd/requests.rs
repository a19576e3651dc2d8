//! Requests at the edge: names of users in other encodings, chunked bodies that are too long, too many connections.

use std::io::Write as _;

use serde_json::json;
use testkit::sandbox::Sandbox;

use crate::support::start;

#[test]
fn the_header_of_a_user_is_utf_8_or_latin_1() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.client();
    let (status, _) = client.json("POST", "/users", &json!({ "id": "José", "home": sandbox.root() }));
    assert_eq!(status, 200);
    let body = json!({ "cmd": "//help", "topic": "bash:a" }).to_string();
    for name in [&b"Jos\xc3\xa9"[..], b"Jos\xe9"] {
        let mut request = b"POST /exec HTTP/1.1\r\nHost: localhost\r\nX-User-Id: ".to_vec();
        request.extend_from_slice(name);
        request.extend_from_slice(format!("\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        client.http.stream().write_all(&request).unwrap();
        assert_eq!(client.reply().head["user_id"], "José", "{name:?}");
    }
}

#[test]
fn a_chunked_body_over_the_limit_is_refused() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    let head = "POST /exec HTTP/1.1\r\nHost: localhost\r\nX-User-Id: u\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.http.stream().write_all(head.as_bytes()).unwrap();
    // Eleven chunks of 1 MiB; the limit is 10 MiB.
    let chunk = ["100000\r\n".as_bytes(), &vec![b'x'; 1 << 20], b"\r\n"].concat();
    for _ in 0..11 {
        client.http.stream().write_all(&chunk).unwrap();
    }
    client.http.stream().write_all(b"0\r\n\r\n").unwrap();
    let (head, body) = client.answer();
    assert_eq!((head.status, head.header("connection")), (413, Some("close")), "{body}");
    assert_eq!(body, "{\"error\":\"Request body exceeds 10485760 bytes\"}");
    assert_eq!(served.client().get("/health")["ok"], true);
}

#[test]
fn a_connection_over_the_limit_is_refused_with_the_headers_of_the_face() {
    let sandbox = Sandbox::with_config("[server]\nmax_connections = 4\n");
    let served = start(&sandbox);
    let mut clients: Vec<_> = (0..4).map(|_| served.client()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/health")["ok"], true);
    }
    // It is refused before it sends anything.
    let (head, _) = served.client().answer();
    assert_eq!((head.status, head.header("retry-after")), (503, Some("1")));
}
