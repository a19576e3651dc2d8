//! The bytes of all messages that are being received or sent stay within one limit, and small requests are still answered.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::http::{Http, bearer};
use testkit::proc::held_bytes;
use testkit::prometheus;
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon, TOKEN};
use testkit::tries::Tries;
use testkit::websocket::Socket;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
const MIB: usize = 1024 * 1024;
const LIMIT: usize = 4 * MIB;
/// Clients of each kind, and what each of them sends of a message of 4 MiB.
const CLIENTS: usize = 24;
const PARTIAL: usize = 3 * MIB;
/// The bound of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

fn served() -> (Sandbox, ServedDaemon) {
    let sandbox = Sandbox::with_config(&format!("[server]\nmax_buffered_bytes = {LIMIT}\n"));
    let served = ServedDaemon::start(REXD, &sandbox);
    (sandbox, served)
}

/// The bytes that the daemon has taken from its budget.
fn used(served: &ServedDaemon) -> f64 {
    let mut http = Http::connect(served.addresses.http).unwrap();
    let page = http.ask("/metrics", &bearer(Some(TOKEN)), None).unwrap();
    prometheus::parse(&page.body).unwrap().value("rexd_queue_depth", &[("queue", "buffered_bytes")]).unwrap()
}

/// Sends as much as the daemon reads and the kernel holds; a connection that the daemon has closed sends nothing. Returns
/// whether the daemon has rejected the message.
fn send_some(stream: &mut (impl Read + Write), sent: &mut usize, piece: &[u8]) -> bool {
    while *sent < PARTIAL {
        match stream.write(&piece[..piece.len().min(PARTIAL - *sent)]) {
            Ok(count) => *sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_closed) => *sent = PARTIAL,
        }
    }
    // Nothing else is a reason to respond to a part of a message, or to close the connection.
    !stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn head(length: usize) -> String {
    format!(
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {length}\r\n\r\n"
    )
}

fn http_clients(served: &ServedDaemon) -> Vec<TcpStream> {
    let head = head(4 * MIB);
    let client = |_| {
        let mut stream = TcpStream::connect(served.addresses.http).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    (0..CLIENTS).map(client).collect()
}

fn websocket_clients(served: &ServedDaemon) -> Vec<TcpStream> {
    let client = |_| {
        let mut socket = Socket::connect(served.addresses.http, Some(TOKEN)).unwrap();
        let stream = socket.stream();
        let mut head = vec![0x81, 0x80 | 127];
        head.extend((4 * MIB as u64).to_be_bytes());
        head.extend([0; 4]);
        stream.write_all(&head).unwrap();
        stream.try_clone().unwrap()
    };
    (0..CLIENTS).map(client).collect()
}

/// A small request is answered at once, and the daemon stays small, while clients hold partial messages.
fn stays_small(served: &ServedDaemon, streams: &mut [impl Read + Write]) {
    let idle = held_bytes(served.pid());
    let piece = vec![b'x'; 64 * 1024];
    let mut sent = vec![0; streams.len()];
    let deadline = Instant::now() + PATIENCE;
    let mut has_been_full = false;
    // Until every client has sent its part or was rejected, and the daemon has read as much of it as it may: the kernel may
    // hold all of it before.
    while !has_been_full || sent.iter().any(|sent| *sent < PARTIAL) {
        assert!(Instant::now() < deadline, "{sent:?}, the limit was reached: {has_been_full}");
        for (stream, sent) in streams.iter_mut().zip(&mut sent) {
            has_been_full |= send_some(stream, sent, &piece);
        }
        let used = used(served);
        assert!(used <= LIMIT as f64, "{used}");
        has_been_full |= used >= (LIMIT - MIB) as f64;
        // 64 KiB of each connection, its read buffers, and what the allocator keeps.
        let (held, allowed) =
            (held_bytes(served.pid()), idle + (LIMIT + streams.len() * MIB / 2 + 12 * MIB) as u64);
        assert!(held <= allowed, "{held} bytes, idle {idle}, allowed {allowed}");
        let mut http = Http::connect(served.addresses.http).unwrap();
        let open = br#"{"jsonrpc":"2.0","id":1,"method":"no.such.method","params":{}}"#;
        let answer = http.ask("/rpc", &bearer(Some(TOKEN)), Some(open)).unwrap();
        assert_eq!(answer.head.status, 200, "{}", answer.body);
    }
}

#[test]
fn partial_bodies_stay_within_the_limit() {
    let (_sandbox, served) = served();
    let mut streams = http_clients(&served);
    streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    stays_small(&served, &mut streams);
    drop(streams);
    // A message that never fits is rejected before it is sent.
    let mut stream = TcpStream::connect(served.addresses.http).unwrap();
    stream.write_all(head(5 * MIB).as_bytes()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("-32008") && answer.contains("server.max_buffered_bytes"), "{answer}");
}

#[test]
fn partial_frames_and_lines_stay_within_the_limit() {
    let (_sandbox, served) = served();
    let mut streams = websocket_clients(&served);
    streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    stays_small(&served, &mut streams);
    drop(streams);
    let connect = |_| UnixStream::connect(&served.addresses.unix).unwrap();
    let mut streams: Vec<UnixStream> = (0..CLIENTS).map(connect).collect();
    streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    stays_small(&served, &mut streams);
    drop(streams);
    let deadline = Instant::now() + PATIENCE;
    while used(&served) > 0.0 {
        assert!(Instant::now() < deadline, "everything is returned");
        std::thread::yield_now();
    }
}

#[test]
fn responses_that_nobody_reads_stay_within_the_limit() {
    let (sandbox, served) = served();
    let file = sandbox.path("root/large");
    std::fs::write(&file, "x".repeat(MIB - 1024)).unwrap();
    let idle = held_bytes(served.pid());
    let read = |session: &str| {
        let params = json!({ "session_id": session, "path": file });
        json!({ "jsonrpc": "2.0", "id": 2, "method": "fs.read", "params": params }).to_string() + "\n"
    };
    let greedy: Vec<_> = (0..CLIENTS / 2)
        .map(|_| {
            let mut client = served.client(CarrierKind::Unix);
            let session = client.open();
            client.carrier.send(read(&session).repeat(16).as_bytes()).unwrap();
            client
        })
        .collect();
    let mut tries = Tries::within(PATIENCE, "the limit is reached");
    while used(&served) < (LIMIT - 2 * MIB) as f64 {
        tries.again();
    }
    // A client that reads gets its response, however long the others take.
    let mut other = served.client(CarrierKind::Unix);
    let session = other.open();
    assert_eq!(other.call("fs.stat", json!({ "session_id": session, "path": file }))["exists"], true);
    // What the lanes hold of each connection, and what the allocator keeps.
    let (held, allowed) = (held_bytes(served.pid()), idle + (LIMIT + 24 * MIB) as u64);
    assert!(held <= allowed, "{held} bytes, idle {idle}, allowed {allowed}");
    drop(greedy);
    let content = other.call("fs.read", json!({ "session_id": session, "path": file }));
    assert_eq!(content["content"].as_str().unwrap().len(), MIB - 1024);
}
