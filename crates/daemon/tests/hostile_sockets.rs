//! Unauthenticated and misbehaving connections, while another client works.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::carrier::Carrier;
use testkit::client::{AnyClient, Client};
use testkit::http::{Http, bearer};
use testkit::proc;
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon, TOKEN};
use testkit::sse::Stream;
use testkit::websocket::Socket;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
const MIB: u64 = 1024 * 1024;
/// What a test may make the daemon grow by, whatever it throws at it.
const MOST_GROWTH: u64 = 64 * MIB;

/// A client of each kind that was there before.
struct Good {
    clients: Vec<(AnyClient, String)>,
    answered: usize,
}

impl Good {
    fn new(served: &ServedDaemon) -> Good {
        let clients = CarrierKind::ALL.map(|way| {
            let mut client = served.client(way);
            let session = client.open();
            (client, session)
        });
        Good { clients: clients.into(), answered: 0 }
    }

    /// Each runs a command and sees all of it.
    fn work(&mut self) {
        for (client, session) in &mut self.clients {
            let ran = client.run(json!({ "session_id": session, "argv": ["echo", "still here"] }));
            assert_eq!(ran.text(), "still here\n");
            self.answered += 1;
        }
    }
}

fn grown_since(served: &ServedDaemon, before: u64) -> u64 {
    proc::held_bytes(served.pid()).saturating_sub(before)
}

/// ARCHITECTURE.md, invariant 37.
#[test]
fn five_thousand_unauthenticated_connections_do_not_disturb_clients() {
    let sandbox = Sandbox::new();
    let mut served = ServedDaemon::start(REXD, &sandbox);
    let mut good = Good::new(&served);
    good.work();
    let before = proc::held_bytes(served.pid());
    // As many as a test may hold open; the oldest gives way, slowly sent headers and all.
    let mut strangers: VecDeque<TcpStream> = VecDeque::new();
    for number in 0..5_000 {
        let mut stranger = TcpStream::connect(served.addresses.http).unwrap();
        let begun: &[u8] = match number % 4 {
            0 => b"",
            1 => b"GET /events?session_id=s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
            2 => b"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{",
            _ => b"\x16\x03\x01\x02\x00\x01",
        };
        // One that was sent away already is one less.
        if stranger.write_all(begun).is_ok() {
            strangers.push_back(stranger);
        }
        for slow in strangers.iter_mut().skip(number % 7).step_by(100) {
            slow.write_all(b"a").ok();
        }
        if strangers.len() > 400 {
            strangers.pop_front();
        }
        if number % 250 == 0 {
            good.work();
            let mut fresh = served.client(CarrierKind::WebSocket);
            assert!(fresh.call("server.ping", json!({}))["time"].is_string(), "somebody new is served too");
        }
    }
    assert_eq!(good.answered, 3 * 21);
    let grown = grown_since(&served, before);
    assert!(grown < MOST_GROWTH, "{grown} bytes are kept for strangers");
    drop(strangers);
    good.work();
    assert_eq!(served.stop().code(), Some(0), "{}", served.log.text());
}

#[test]
fn a_thousand_silent_connections_to_the_unix_socket_are_no_harm() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut good = Good::new(&served);
    let before = proc::held_bytes(served.pid());
    let mut silent = VecDeque::new();
    for number in 0..1_000 {
        silent.push_back(UnixStream::connect(&served.addresses.unix).unwrap());
        if silent.len() > 300 {
            silent.pop_front();
        }
        if number % 200 == 0 {
            good.work();
        }
    }
    good.work();
    let grown = grown_since(&served, before);
    assert!(grown < MOST_GROWTH, "{grown} bytes");
}

/// ARCHITECTURE.md, invariant 37.
#[test]
fn ten_thousand_wrong_tokens_are_all_refused_and_change_nothing() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut good = Good::new(&served);
    good.work();
    let (before, audited) = (proc::held_bytes(served.pid()), audit_lines(&sandbox));
    let open = br#"{"jsonrpc":"2.0","id":1,"method":"session.open","params":{}}"#;
    let (mut refused, mut http) = (0, Http::connect(served.addresses.http).unwrap());
    while refused < 10_000 {
        let token = format!("{}{refused}", &TOKEN[..TOKEN.len() - 4]);
        let answer = http.ask("/rpc", &bearer(Some(&token)), Some(open)).unwrap();
        assert_eq!(answer.head.status, 401, "{answer:?}");
        assert!(!answer.body.contains("s_"), "{answer:?}");
        refused += 1;
        if answer.head.header("connection") == Some("close") {
            http = Http::connect(served.addresses.http).unwrap();
        }
        if refused % 2_500 == 0 {
            good.work();
        }
    }
    for token in [None, Some("wrong")] {
        let error = Socket::connect(served.addresses.http, token).unwrap_err();
        assert!(error.to_string().starts_with("401"), "{error}");
        let refused = Stream::open(served.addresses.http, token, "s", None).unwrap().unwrap_err();
        assert_eq!(refused.head.status, 401);
    }
    let grown = grown_since(&served, before);
    assert!(grown < MOST_GROWTH, "{grown} bytes");
    let added = audit_lines(&sandbox) - audited;
    assert!(added < 1_000, "{added} lines of audit: whoever is refused must not fill the disk");
    assert!(served.log.text().len() < 100_000, "nor the log");
}

fn audit_lines(sandbox: &Sandbox) -> usize {
    sandbox.read("audit.log").lines().count()
}

/// Bytes that look random.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| byte()).collect()
}

/// ARCHITECTURE.md, invariant 37.
#[test]
fn noise_on_any_socket_ends_that_connection_at_the_most() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut good = Good::new(&served);
    let before = proc::held_bytes(served.pid());
    for seed in 0..60 {
        let noise = noise(seed, 5_000);
        let mut unix = UnixStream::connect(&served.addresses.unix).unwrap();
        unix.write_all(&noise).unwrap();
        unix.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answers = String::new();
        unix.read_to_string(&mut answers).unwrap();
        assert!(answers.lines().all(|line| line.contains("-32700") || line.contains("-32600")), "{answers}");
        let mut tcp = TcpStream::connect(served.addresses.http).unwrap();
        tcp.write_all(&noise).ok();
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut answer = Vec::new();
        tcp.read_to_end(&mut answer).ok();
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
        let mut socket = Socket::connect(served.addresses.http, Some(TOKEN)).unwrap();
        socket.stream().write_all(&noise).ok();
        let deadline = Instant::now() + Duration::from_secs(1);
        // Noise may happen to be the beginning of a long frame; then the daemon waits for the rest of it.
        while let Ok(testkit::carrier::Received::Message(line)) = socket.receive(deadline) {
            assert!(line.contains("\"error\""), "{line}");
        }
    }
    good.work();
    let grown = grown_since(&served, before);
    assert!(grown < MOST_GROWTH, "{grown} bytes");
    assert!(!served.log.text().contains("panicked"), "{}", served.log.text());
}

#[test]
fn a_message_over_the_limit_is_rejected_without_being_stored() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut good = Good::new(&served);
    good.work();
    let before = proc::held_bytes(served.pid());
    let piece = vec![b'a'; MIB as usize];

    // A body that announces its length.
    let mut http = TcpStream::connect(served.addresses.http).unwrap();
    let head = format!("POST /rpc HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n");
    http.write_all(format!("{head}Content-Length: 10737418240\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(status(&mut http), "HTTP/1.1 413");
    // One that does not.
    let mut http = TcpStream::connect(served.addresses.http).unwrap();
    http.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    for _ in 0..70 {
        // The daemon may answer and close before it has read all of it.
        let is_taken = write!(http, "{MIB:x}\r\n")
            .and_then(|()| http.write_all(&piece))
            .and_then(|()| write!(http, "\r\n"));
        if is_taken.is_err() {
            break;
        }
    }
    let answer = status(&mut http);
    assert!(answer == "HTTP/1.1 413" || answer.is_empty(), "{answer}");

    // A message over the limit is refused, and the next one works.
    for way in [CarrierKind::Unix, CarrierKind::WebSocket] {
        let mut carrier = served.addresses.connect(way).unwrap();
        let long = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":"{}"}}"#,
            "a".repeat(65 * MIB as usize)
        );
        carrier.send(format!("{long}\n").as_bytes()).unwrap();
        let mut client = Client::new(carrier, served.log.clone());
        let refusal = client.receive().unwrap();
        assert_eq!(refusal["error"]["code"], -32008, "{way:?}: {refusal}");
        assert!(client.call("server.ping", json!({}))["time"].is_string(), "{way:?}");
    }

    // A frame that claims to be longer than anything.
    let mut socket = Socket::connect(served.addresses.http, Some(TOKEN)).unwrap();
    socket
        .stream()
        .write_all(&[0x82, 0xff, 0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4])
        .unwrap();
    for _ in 0..100 {
        if socket.stream().write_all(&piece).is_err() {
            break;
        }
    }
    good.work();
    let grown = grown_since(&served, before);
    assert!(grown < MOST_GROWTH, "{grown} bytes are kept");
}

fn status(http: &mut TcpStream) -> String {
    http.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut start = [0; 12];
    match http.read_exact(&mut start) {
        Ok(()) => String::from_utf8_lossy(&start).into_owned(),
        Err(_closed) => String::new(),
    }
}

/// ARCHITECTURE.md, invariant 34.
#[test]
fn a_session_is_its_callers_alone() {
    let sandbox = Sandbox::with_config(
        "[[auth.tokens]]\nname = \"other\"\nfile = \"$DIR/other.token\"\nscopes = [\"read\", \"exec\", \"admin\"]\n",
    );
    let other = "another-token-0123456789abcdef0123456789abcdef";
    let file = sandbox.write("other.token", other);
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let served = ServedDaemon::start(REXD, &sandbox);
    for way in [CarrierKind::WebSocket, CarrierKind::Http] {
        let mut owner = served.client(way);
        let opened = owner.open_with(json!({ "resume": true }));
        let session = opened["session_id"].as_str().unwrap().to_owned();
        let params =
            |token: &Value| json!({ "session_id": session, "resume_token": token, "last_event_id": 0 });
        for stranger_way in [CarrierKind::WebSocket, CarrierKind::Http, CarrierKind::Unix] {
            let addresses = served.addresses.with_token(Some(other));
            let mut stranger = served.client_at(&addresses, stranger_way);
            let refused = stranger.refused("session.resume", params(&opened["resume_token"]));
            assert_eq!(refused["code"], -32001, "{way:?}, {stranger_way:?}: {refused}");
            let refused = stranger.refused("exec.list", json!({ "session_id": session }));
            assert_eq!(refused["message"], "session not found", "{way:?}, {stranger_way:?}: {refused}");
        }
        let refused = Stream::open(served.addresses.http, Some(other), &session, None).unwrap().unwrap_err();
        assert_eq!(refused.head.status, 404, "{refused:?}");
        let mut guess = served.client(way);
        for wrong in [json!(""), json!("0".repeat(32)), json!(other)] {
            let refused = guess.refused("session.resume", params(&wrong));
            assert_eq!(refused["code"], -32001, "{way:?}: {refused}");
        }
        let ran = owner.run(json!({ "session_id": session, "argv": ["echo", "mine"] }));
        assert_eq!(ran.text(), "mine\n", "{way:?}: nobody disturbed it");
    }
}
