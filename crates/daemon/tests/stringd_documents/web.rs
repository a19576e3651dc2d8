//! A web server on loopback for documents and actions: fixed answers, and paths that show the request or never end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// A path and the whole response to it.
pub(crate) type Page = (String, String);

/// Serves the pages, one connection at a time, each with one request.
pub(crate) fn serve(pages: Vec<Page>) -> SocketAddr {
    serve_with(pages, |stream| stream)
}

/// The same over a stream that is made from each connection.
pub(crate) fn serve_with<S: Read + Write>(
    pages: Vec<Page>,
    wrap: impl Fn(TcpStream) -> S + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            answer(wrap(stream), &pages);
        }
    });
    address
}

fn answer(mut stream: impl Read + Write, pages: &[Page]) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while !is_complete(&bytes) {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    }
    let request = String::from_utf8_lossy(&bytes).into_owned();
    let target = request.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let path = target.split('?').next().unwrap_or_default();
    let response = match path {
        path if path.starts_with("/echo") => response("text/plain", &request),
        "/show" => response("text/plain", &shown(&request)),
        "/flood" | "/stall" => "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nstart\n".to_owned(),
        path => match pages.iter().find(|(known, _)| known == path) {
            Some((_, response)) => response.clone(),
            None => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
        },
    };
    // A client that is gone gets no answer.
    let mut sent = stream.write_all(response.as_bytes()).and_then(|()| stream.flush());
    while path == "/flood" && sent.is_ok() {
        sent = stream.write_all(&[b'x'; 64 * 1024]);
    }
    while path == "/stall" && matches!(stream.read(&mut piece), Ok(1..)) {}
}

/// A success with a body of a type.
pub(crate) fn response(kind: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// The first line of a request, the headers that an action can set, and its body.
fn shown(request: &str) -> String {
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
    let (first, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let mut lines = vec![first.trim_end_matches(" HTTP/1.1").to_owned()];
    for wanted in ["accept: ", "content-type: ", "x-key: "] {
        let lower = |line: &str| line.to_ascii_lowercase().starts_with(wanted);
        lines.extend(headers.lines().filter(|line| lower(line)).map(str::to_ascii_lowercase));
    }
    format!("{}\n\n{body}", lines.join("\n"))
}

/// Whether a request has its head and the whole body.
fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|it| it.parse().ok());
    body.len() >= length.unwrap_or(0)
}
