//! Operation of a running daemon: metrics, names behind a proxy, and revoked access.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::Digest as _;
use testkit::http::{Http, bearer};
use testkit::proc;
use testkit::prometheus::{self, Exposition};
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon, TOKEN};
use testkit::tries::Tries;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
/// How long a test waits for what has to happen. Never reached when all is well.
const PATIENCE: Duration = Duration::from_secs(60);

fn metrics(served: &ServedDaemon) -> Exposition {
    let mut http = Http::connect(served.addresses.http).unwrap();
    let page = http.ask("/metrics", &bearer(Some(TOKEN)), None).unwrap();
    assert_eq!(page.head.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    prometheus::parse(&page.body).unwrap_or_else(|fault| panic!("{fault:?} in\n{}", page.body))
}

/// The metrics once they satisfy a condition: what ends is counted a moment after its client is told.
fn metrics_once(served: &ServedDaemon, is_so: impl Fn(&Exposition) -> bool) -> Exposition {
    let mut tries = Tries::within(PATIENCE, "the counts");
    loop {
        let page = metrics(served);
        if is_so(&page) {
            return page;
        }
        tries.again();
    }
}

#[test]
fn the_metrics_count_requests_and_processes() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(REXD, &sandbox);
    let before = metrics(&served);
    let mut client = served.client(CarrierKind::WebSocket);
    let session = client.open();
    client.run(json!({ "session_id": session, "argv": ["printf", "0123456789"] }));
    client.run(json!({ "session_id": session, "command": "printf abc >&2; exit 3", "shell": true }));
    client.call("fs.write", json!({ "session_id": session, "path": "a", "content": "x" }));
    client.refused("fs.read", json!({ "session_id": session, "path": "/etc/passwd" }));
    client.refused("no.such.method", json!({}));
    let sleeper = client.begin(json!({ "session_id": session, "argv": ["sleep", "1000"] }));
    let running = |page: &Exposition| page.value("rexd_processes_running", &[("kind", "attached")]);
    let during = metrics_once(&served, |page| running(page) == Some(1.0));
    during.follows(&before).unwrap();
    assert_eq!(during.value("rexd_sessions", &[("state", "attached")]), Some(1.0));
    assert_eq!(during.value("rexd_connections", &[("transport", "ws")]), Some(1.0));
    client.call("exec.kill", json!({ "session_id": session, "process_id": sleeper, "signal": "KILL" }));
    client.event("exec.exit", &sleeper);
    client.call("session.close", json!({ "session_id": session }));

    let is_idle = |page: &Exposition| {
        let sessions = page.value("rexd_sessions", &[("state", "attached")]);
        let requests = page.value("rexd_requests_in_flight", &[]);
        (sessions, requests, running(page)) == (Some(0.0), Some(0.0), Some(0.0))
    };
    let after = metrics_once(&served, is_idle);
    after.follows(&during).unwrap();
    let requests = |method: &str, outcome: &str| {
        after
            .value("rexd_requests_total", &[("face", "rexd"), ("method", method), ("outcome", outcome)])
            .unwrap()
    };
    let asked: [(&str, f64, f64); 7] = [
        ("session.open", 1.0, 0.0),
        ("session.close", 1.0, 0.0),
        ("exec.start", 3.0, 0.0),
        ("exec.kill", 1.0, 0.0),
        ("fs.write", 1.0, 0.0),
        ("fs.read", 0.0, 1.0),
        ("other", 0.0, 1.0),
    ];
    for (method, ok, error) in asked {
        assert_eq!((requests(method, "ok"), requests(method, "error")), (ok, error), "{method}");
        let count =
            after.value("rexd_request_duration_seconds_count", &[("face", "rexd"), ("method", method)]);
        assert_eq!(count, Some(ok + error), "{method}");
    }
    assert_eq!(after.sum("rexd_requests_total", &[]), 9.0, "and nothing else was asked");
    assert_eq!(after.value("rexd_processes_started_total", &[]), Some(3.0));
    assert_eq!(after.value("rexd_processes_ended_total", &[("cause", "itself")]), Some(2.0));
    assert_eq!(after.value("rexd_processes_ended_total", &[("cause", "killed")]), Some(1.0));
    assert_eq!(after.value("rexd_output_bytes_total", &[("stream", "stdout")]), Some(10.0));
    assert_eq!(after.value("rexd_output_bytes_total", &[("stream", "stderr")]), Some(3.0));
    assert_eq!(after.value("rexd_lost_bytes_total", &[]), Some(0.0));
    assert_eq!(after.value("rexd_sessions_opened_total", &[]), Some(1.0));
    let sent = after.value("rexd_link_bytes_total", &[("transport", "ws"), ("direction", "sent")]);
    assert!(sent.is_some_and(|bytes| bytes > 500.0), "{sent:?}");
    // The pages before this one came over HTTP, and a WebSocket begins there.
    for (direction, least) in [("received", 300.0), ("sent", 2_000.0)] {
        let bytes = after.value("rexd_link_bytes_total", &[("transport", "http"), ("direction", direction)]);
        assert!(bytes.is_some_and(|bytes| bytes > least), "{direction}: {bytes:?}");
    }
}

#[test]
fn to_follow_ones_own_process_again_changes_neither_the_record_nor_the_counts() {
    let sandbox = Sandbox::new();
    let mut served = ServedDaemon::start(REXD, &sandbox);
    let mut client = served.client(CarrierKind::Unix);
    let session = client.open();
    let process =
        client.begin(json!({ "session_id": session, "argv": ["sh", "-c", "echo one; read word; echo two"] }));
    client.until(&process, "one\n");
    client.call("exec.attach", json!({ "session_id": session, "process_id": process }));
    client.call("exec.input", json!({ "session_id": session, "process_id": process, "data": "go\n" }));
    assert_eq!(client.finish(&process).text(), "one\ntwo\n", "told from the beginning");
    client.call("session.info", json!({ "session_id": session }));
    let counts = metrics(&served);
    assert_eq!(counts.value("rexd_output_bytes_total", &[("stream", "stdout")]), Some(8.0));
    assert_eq!(counts.value("rexd_processes_ended_total", &[("cause", "itself")]), Some(1.0));
    assert_eq!(counts.value("rexd_processes_running", &[("kind", "attached")]), Some(0.0));
    assert_eq!(served.stop().code(), Some(0));
    assert_eq!(audited(&sandbox, "exec.exit").len(), 1);
}

fn audited(sandbox: &Sandbox, method: &str) -> Vec<Value> {
    let text = fs::read_to_string(sandbox.audit()).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["method"] == method).collect()
}

#[test]
fn behind_a_trusted_proxy_the_public_name_is_accepted_and_the_audit_has_the_true_address() {
    let proxied = "[server]\npublic_names = [\"exec.example\"]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    for (config, expected) in [(proxied, json!("203.0.113.9")), ("", Value::Null)] {
        let sandbox = Sandbox::with_config(config);
        let mut served = ServedDaemon::start(REXD, &sandbox);
        let mut http = Http::connect(served.addresses.http).unwrap();
        let mut headers = bearer(Some(TOKEN));
        headers.push("X-Forwarded-For: 198.51.100.1, 203.0.113.9".to_owned());
        headers.push("X-Forwarded-Host: exec.example".to_owned());
        headers.push("Origin: https://exec.example".to_owned());
        let open = br#"{"jsonrpc":"2.0","id":1,"method":"session.open","params":{}}"#;
        let answer = http.ask("/rpc", &headers, Some(open)).unwrap();
        if config.is_empty() {
            assert_eq!(answer.head.status, 403, "nobody else may say so: {}", answer.body);
            headers.truncate(2);
            http = Http::connect(served.addresses.http).unwrap();
            assert_eq!(http.ask("/rpc", &headers, Some(open)).unwrap().head.status, 200);
        } else {
            assert_eq!(answer.head.status, 200, "{}", answer.body);
        }
        assert_eq!(served.stop().code(), Some(0));
        let records = audited(&sandbox, "session.open");
        assert_eq!(records.len(), 1, "{records:?}");
        assert_eq!(records[0]["address"], expected, "{:?}", records[0]);
        assert_eq!(records[0]["caller"], "token:env");
    }
}

#[test]
fn a_token_that_is_revoked_loses_its_connections_and_its_sessions_at_once() {
    let sandbox = Sandbox::new();
    let token = sandbox.write("token-file", "revocable-0123456789abcdef0123456789abcdef\n");
    fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    sandbox.configure(&format!("[[auth.tokens]]\nname = \"guest\"\nfile = {token:?}\n"));
    let served = ServedDaemon::start(REXD, &sandbox);
    let addresses = served.addresses.with_token(Some("revocable-0123456789abcdef0123456789abcdef"));
    let mut own = served.client(CarrierKind::WebSocket);
    let own_session = own.open();
    let mut pids = Vec::new();
    let mut clients: Vec<_> =
        [CarrierKind::WebSocket, CarrierKind::Http].map(|way| served.client_at(&addresses, way)).into();
    for client in &mut clients {
        let session = client.open_with(json!({ "resume": true }))["session_id"].as_str().unwrap().to_owned();
        let id = client
            .begin(json!({ "session_id": session, "command": "echo $$; exec sleep 1000", "shell": true }));
        pids.push(client.until(&id, "\n").trim().parse::<i32>().unwrap());
    }
    let watched: Vec<_> = pids.iter().map(|pid| proc::watch(*pid)).collect();
    fs::remove_file(&token).unwrap();
    served.signal(Signal::HUP);
    assert_eq!(proc::survivors(&watched, PATIENCE), [0i32; 0], "their processes have ended");
    let mut http = Http::connect(served.addresses.http).unwrap();
    let headers = bearer(addresses.token.as_deref());
    assert_eq!(http.ask("/rpc", &headers, Some(b"{}")).unwrap().head.status, 401);
    let ran = own.run(json!({ "session_id": own_session, "argv": ["echo", "still here"] }));
    assert_eq!(ran.text(), "still here\n", "nobody else is touched");
}

#[test]
fn a_caller_at_its_limit_keeps_neither_another_caller_nor_the_operator_from_connecting() {
    let tokens = ["greedy", "other"].map(|name| {
        let secret = format!("{name}-token-that-is-long-enough-0123456789");
        let table = format!(
            "[[auth.tokens]]\nname = \"{name}\"\nscopes = [\"read\"]\nsha256 = \"{}\"\n",
            hex::encode(sha2::Sha256::digest(&secret))
        );
        (secret, table)
    });
    let [(greedy, first), (other, second)] = tokens;
    let limits = "[limits]\nmax_concurrent_sessions = 2\n[server]\nmax_connections = 8\n";
    let sandbox = Sandbox::with_config(&format!("{limits}{first}{second}"));
    let served = ServedDaemon::start(REXD, &sandbox);
    let open = br#"{"jsonrpc":"2.0","id":1,"method":"session.open","params":{}}"#;
    let post = |token: &str| {
        let mut http = Http::connect(served.addresses.http).unwrap();
        let answer = http.ask("/rpc", &bearer(Some(token)), Some(open)).unwrap();
        let status = answer.head.status;
        (http, status, serde_json::from_str::<Value>(&answer.body).unwrap())
    };
    let mut held = Vec::new();
    for number in 0..4 {
        let (http, status, answer) = post(&greedy);
        assert_eq!(status, 200, "{answer}");
        let is_open = answer["result"]["session_id"].is_string();
        assert_eq!(is_open, number < 2, "{answer}");
        if !is_open {
            assert_eq!(answer["error"]["code"], -32008, "{answer}");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(
                message.contains("of this caller") && message.contains("max_concurrent_sessions"),
                "{answer}"
            );
        }
        held.push(http);
    }
    // Half of the connections are its own; the fifth is one too many.
    let (_http, status, answer) = post(&greedy);
    assert_eq!(status, 503, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("max_connections"), "{answer}");
    for _ in 0..2 {
        let (http, status, answer) = post(&other);
        assert!(status == 200 && answer["result"]["session_id"].is_string(), "{answer}");
        held.push(http);
    }
    for _ in 0..2 {
        served.client(CarrierKind::Unix).open();
    }
}

#[test]
fn a_session_that_waits_for_its_client_makes_room_for_a_new_one() {
    let sandbox = Sandbox::with_config("[limits]\nmax_concurrent_sessions = 1\n");
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut other = served.client(CarrierKind::Unix);
    let other_session = other.open();
    let mut first = served.client(CarrierKind::WebSocket);
    first.open_with(json!({ "resume": true }));
    drop(first);
    let mut second = served.client(CarrierKind::WebSocket);
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Refused while the daemon still believes in the old link, and while the old session ends.
        let id = second.request("session.open", json!({}));
        let answer = second.response(id);
        if answer["result"]["session_id"].is_string() {
            break;
        }
        assert_eq!(answer["error"]["code"], -32008, "{answer}");
        assert!(Instant::now() < deadline, "{answer}");
    }
    other.call("session.info", json!({ "session_id": other_session }));
}
