//! Lifetimes on each socket: attached process trees, disconnected sessions, and daemons that stop.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::client::AnyClient;
use testkit::daemon::data;
use testkit::proc::{self, ProcessWatch};
use testkit::proxy::{CutKind, Proxy};
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon};
use testkit::tries::Tries;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
/// Longer than anything here may take to die.
const SOON: Duration = Duration::from_secs(60);

fn proxy(sandbox: &Sandbox, served: &ServedDaemon, name: &str) -> Proxy {
    let directory = sandbox.path(name);
    std::fs::create_dir(&directory).unwrap();
    Proxy::start(&served.addresses, &directory)
}

/// Starts a tree that does not end by itself, with a member that has left its group; returns its process and all pids.
fn start_tree(client: &mut AnyClient, session: &str) -> (String, Vec<ProcessWatch>) {
    let line =
        "trap '' TERM HUP; (setsid sh -c 'echo away $$ .; exec sleep 1000' &); echo leader $$ .; exec cat";
    let process = client.begin(json!({ "session_id": session, "argv": ["sh", "-c", line] }));
    let mut said = String::new();
    while said.matches(" .").count() < 2 {
        said += &client.until(&process, ".");
    }
    let tree: Vec<ProcessWatch> =
        said.split_whitespace().filter_map(|word| word.parse().ok()).map(proc::watch).collect();
    assert_eq!(tree.len(), 2, "{said}");
    (process, tree)
}

fn resume(client: &mut AnyClient, opened: &Value) -> Value {
    let session = opened["session_id"].as_str().unwrap();
    let last = client.invariants.last_event(session);
    let params =
        json!({ "session_id": session, "resume_token": opened["resume_token"], "last_event_id": last });
    let mut tries = Tries::within(SOON, "the daemon lets go of the old link");
    loop {
        let answer = client.ask("session.resume", params.clone()).unwrap();
        if answer["error"]["data"]["retry"] != true {
            return answer;
        }
        tries.again();
    }
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn without_resume_a_tree_dies_with_its_connection() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(REXD, &sandbox);
    for way in CarrierKind::ALL {
        for how in [CutKind::Closed, CutKind::Reset] {
            let proxy = proxy(&sandbox, &served, &format!("{way:?}-{how:?}"));
            let mut client = served.client_at(&proxy.addresses, way);
            let session = client.open();
            let (_process, tree) = start_tree(&mut client, &session);
            proxy.cut(how);
            assert_eq!(proc::survivors(&tree, SOON), [0; 0], "{way:?} {how:?}: {}", served.log.text());
        }
    }
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn with_resume_a_tree_is_kept_until_the_session_expires() {
    let sandbox = Sandbox::with_config("[server]\nresume_ms = 5000\n");
    let served = ServedDaemon::start(REXD, &sandbox);
    for way in CarrierKind::ALL {
        let proxy = proxy(&sandbox, &served, &format!("{way:?}"));
        let mut client = served.client_at(&proxy.addresses, way);
        let opened = client.open_with(json!({ "resume": true }));
        let session = opened["session_id"].as_str().unwrap().to_owned();
        let (process, tree) = start_tree(&mut client, &session);
        proxy.cut(CutKind::Reset);
        client.reconnect(proxy.addresses.connect(way).unwrap());
        let resumed = resume(&mut client, &opened);
        assert_eq!(resumed["result"]["lost"], 0, "{way:?}: {resumed}");
        client.call("exec.input", json!({ "session_id": session, "process_id": process, "data": "here\n" }));
        client.until(&process, "here\n");
        assert!(tree.iter().all(|process| !process.has_ended()), "{way:?}");
        proxy.cut(CutKind::Closed);
        assert_eq!(proc::survivors(&tree, SOON), [0; 0], "{way:?}: {}", served.log.text());
        client.reconnect(proxy.addresses.connect(way).unwrap());
        assert_eq!(resume(&mut client, &opened)["error"]["code"], -32001, "{way:?}");
    }
}

/// Lines of eight bytes, so that a place in the output says what is there.
const LINES: usize = 400_000;

/// ARCHITECTURE.md, invariant 31.
#[test]
fn what_does_not_fit_while_the_client_is_away_is_given_up_and_counted() {
    let config = "[server]\nresume_bytes = 20000\n[limits]\nspill_bytes = 65536\nhard_output_bytes = 0\n\
                  max_output_bytes = 0\n";
    for way in CarrierKind::ALL {
        let sandbox = Sandbox::with_config(config);
        let served = ServedDaemon::start(REXD, &sandbox);
        let proxy = proxy(&sandbox, &served, "proxy");
        let mut client = served.client_at(&proxy.addresses, way);
        let opened = client.open_with(json!({ "resume": true }));
        let session = opened["session_id"].as_str().unwrap().to_owned();
        let line = format!(
            "printf '%07d\\n' 0; while [ ! -e go ]; do sleep 0.02; done; seq -f %07.0f 1 {LINES}; touch done"
        );
        let process = client.begin(json!({ "session_id": session, "argv": ["sh", "-c", line] }));
        client.until(&process, "0000000\n");
        proxy.cut(CutKind::Reset);
        sandbox.write("root/go", "");
        // It goes on although nobody reads.
        sandbox.appears("root/done", Instant::now() + SOON);
        client.reconnect(proxy.addresses.connect(way).unwrap());
        let resumed = resume(&mut client, &opened);
        // What could not be kept never became an event: its bytes are declared by one. Only what was sent before the
        // daemon noticed the cut can be gone as events, and is counted.
        let lost = resumed["result"]["lost"].as_u64().unwrap_or_else(|| panic!("{way:?}: {resumed}"));
        if lost > 0 {
            client.invariants.lost(&session, lost);
        }
        check_remaining(&mut client, &process, way, lost);
    }
}

/// Every piece is what belongs at its place, and every gap is declared to the byte, but for one of events that are lost.
fn check_remaining(client: &mut AnyClient, process: &str, way: CarrierKind, lost: u64) {
    let byte = |at: u64| format!("{:07}\n", at / 8).as_bytes()[usize::try_from(at % 8).unwrap()];
    let (mut place, mut declared, mut seen) = ((lost == 0).then_some(8_u64), 0, 8_u64);
    loop {
        let event = client.take("events", |message| message["params"]["process_id"] == process);
        let params = &event["params"];
        let cursor = params["cursor"].as_u64().unwrap();
        let bytes = match event["method"].as_str().unwrap() {
            "exec.stdout" => {
                let bytes = data(params);
                let start = cursor - bytes.len() as u64;
                let is_right = (start..).zip(&bytes).all(|(at, found)| byte(at) == *found);
                assert!(is_right, "{way:?}: not what belongs at {start}");
                seen += bytes.len() as u64;
                bytes.len() as u64
            }
            "exec.lost" => {
                declared += params["bytes"].as_u64().unwrap();
                params["bytes"].as_u64().unwrap()
            }
            "exec.exit" => {
                let total = (LINES as u64 + 1) * 8;
                assert_eq!((cursor, &params["bytes_stdout"]), (total, &json!(total)), "{way:?}: {event}");
                assert_eq!(place, Some(total), "{way:?}: it ends with its last byte");
                assert!(lost > 0 || declared > 0, "{way:?}: everything fitted");
                assert!(
                    seen + declared == total || lost > 0 && seen + declared < total,
                    "{way:?}: {seen} seen, {declared} lost"
                );
                return;
            }
            other => panic!("{way:?}: unexpected {other}"),
        };
        assert_eq!(place.unwrap_or(cursor - bytes), cursor - bytes, "{way:?}: an undeclared gap: {event}");
        place = Some(cursor);
    }
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn a_stopping_daemon_notifies_its_clients_and_leaves_no_process() {
    for way in CarrierKind::ALL {
        let sandbox = Sandbox::new();
        let mut served = ServedDaemon::start(REXD, &sandbox);
        let mut clients: Vec<(AnyClient, String)> = Vec::new();
        let mut trees = Vec::new();
        for resume in [false, true] {
            let mut client = served.client(way);
            let opened = client.open_with(json!({ "resume": resume }));
            let session = opened["session_id"].as_str().unwrap().to_owned();
            trees.extend(start_tree(&mut client, &session).1);
            clients.push((client, session));
        }
        served.signal(Signal::TERM);
        for (client, session) in &mut clients {
            let told = client.take("session.closing", |message| message["method"] == "session.closing");
            assert_eq!(told["params"]["session_id"], session.as_str(), "{way:?}: {told}");
            assert_eq!(told["params"]["reason"], "shutdown", "{way:?}: {told}");
        }
        // While it waits for the trees to die nobody else is let in.
        for other in CarrierKind::ALL {
            let refused = served.addresses.connect(other).and_then(|carrier| {
                let mut late = testkit::client::Client::new(carrier, served.log.clone());
                late.ask("session.open", json!({}))
            });
            let is_refused = refused.as_ref().map_or(true, |answer| answer.get("error").is_some());
            assert!(is_refused, "{way:?}, {other:?}: {refused:?}");
        }
        assert_eq!(served.wait(SOON).code(), Some(0), "{way:?}: {}", served.log.text());
        assert_eq!(proc::survivors(&trees, SOON), [0; 0], "{way:?}");
        assert!(!served.log.text().contains("panicked"), "{}", served.log.text());
    }
}

/// ARCHITECTURE.md, invariant 30.
#[test]
fn two_event_streams_of_one_session_receive_each_event_once() {
    use testkit::http::{Http, bearer};
    use testkit::serve::TOKEN;
    use testkit::sse::Stream;
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(REXD, &sandbox);
    let (address, token) = (served.addresses.http, Some(TOKEN));
    let mut http = Http::connect(address).unwrap();
    let mut ask = |method: &str, params: Value| -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let answer = http.ask("/rpc", &bearer(token), Some(body.as_bytes())).unwrap();
        serde_json::from_str::<Value>(&answer.body).unwrap()["result"].take()
    };
    let session = ask("session.open", json!({ "resume": true }))["session_id"].as_str().unwrap().to_owned();
    let params = json!({ "session_id": session, "argv": ["cat"] });
    let process = ask("exec.start", params)["process_id"].as_str().unwrap().to_owned();
    let mut last = 0;
    let mut before: Option<Stream> = None;
    for round in 0..6 {
        let mut listening = Stream::open(address, token, &session, None).unwrap().unwrap();
        let text = format!("round {round}\n");
        ask("exec.input", json!({ "session_id": session, "process_id": process, "data": text }));
        let event = listening.event().unwrap().expect("an event");
        let told: Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!(told["params"]["data"], text.as_str(), "{told}");
        last += 1;
        assert_eq!(told["params"]["event_id"], last, "{told}");
        if let Some(mut before) = before.replace(listening) {
            assert_eq!(before.event().unwrap(), None, "whoever listened before is told no more");
        }
    }
    // Who goes on without a number has not said what arrived: all of it can still be asked for.
    let mut again = Stream::open(address, token, &session, Some("2")).unwrap().unwrap();
    for id in ["3", "4", "5", "6"] {
        assert_eq!(again.event().unwrap().unwrap().id.as_deref(), Some(id), "it was sent, and is kept");
    }
    // A number says that everything up to it arrived: who then asks for earlier events is told how many are gone.
    let mut again = Stream::open(address, token, &session, Some("5")).unwrap().unwrap();
    assert_eq!(again.event().unwrap().unwrap().id.as_deref(), Some("6"));
    let mut again = Stream::open(address, token, &session, Some("2")).unwrap().unwrap();
    let lost: Value = serde_json::from_str(&again.event().unwrap().unwrap().data).unwrap();
    assert_eq!((&lost["method"], &lost["params"]["lost"]), (&json!("session.lost"), &json!(3)), "{lost}");
    assert_eq!(again.event().unwrap().unwrap().id.as_deref(), Some("6"), "the last was sent, and is kept");
    for nonsense in ["abc", "-1", "1e3", "18446744073709551616", "99999999"] {
        let refused = Stream::open(address, token, &session, Some(nonsense)).unwrap().unwrap_err();
        assert!((400..500).contains(&refused.head.status), "{nonsense}: {refused:?}");
    }
    ask("exec.input", json!({ "session_id": session, "process_id": process, "data": "still\n" }));
    assert_eq!(again.event().unwrap().unwrap().id.as_deref(), Some("7"), "nonsense disturbs nobody");
}
