//! Detached processes through the protocol: they survive every daemon, and the next one can list, read and end them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::daemon::{Rexd, data};
use testkit::proc;
use testkit::sandbox::Sandbox;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
/// Prints numbered lines for ever from a job in the background, and answers what is typed.
const CHATTER: &str = r#"stty -echo 2>/dev/null
(i=0; while :; do i=$((i+1)); echo "line $i"; sleep 0.005; done) &
while read word; do if [ "$word" = size ]; then echo "size $(stty size)"; else echo "got $word"; fi; done
wait"#;

/// A detached process as this client has seen it so far.
struct Seen {
    id: String,
    pty: Option<String>,
    cursor: u64,
    text: String,
}

impl Seen {
    fn start(rexd: &mut Rexd, session: &str, mark: &str, has_terminal: bool) -> Seen {
        let params = json!({
            "session_id": session, "argv": ["sh", "-c", CHATTER], "detach": true, "env": { "CHATTER": mark },
        });
        let method = if has_terminal { "pty.open" } else { "exec.start" };
        let started = rexd.call(method, params);
        let id = started["process_id"].as_str().unwrap().to_owned();
        Seen { id, pty: started["pty_id"].as_str().map(str::to_owned), cursor: 0, text: String::new() }
    }

    /// Reads on until what was seen satisfies.
    fn read_until(&mut self, rexd: &mut Rexd, what: &str, is_enough: impl Fn(&str) -> bool) {
        while !is_enough(&self.text) {
            let event = rexd.take(what, |message| {
                message["params"]["process_id"] == *self.id && message["params"]["data"].is_string()
            });
            self.text.push_str(std::str::from_utf8(&data(&event["params"])).unwrap());
            self.cursor = event["params"]["cursor"].as_u64().unwrap();
        }
    }

    fn attach(&self, rexd: &mut Rexd, session: &str) -> Value {
        rexd.call(
            "exec.attach",
            json!({ "session_id": session, "process_id": self.id, "cursor": self.cursor }),
        )
    }

    /// Every line exactly once, in order, whatever else was said in between.
    fn check_lines(&self) -> usize {
        let text = self.text.replace("\r\n", "\n");
        let whole = &text[..text.rfind('\n').unwrap() + 1];
        let lines = whole.lines().filter(|line| line.starts_with("line"));
        lines.enumerate().fold(0, |_, (index, line)| {
            assert_eq!(line, format!("line {}", index + 1), "of {}", self.id);
            index + 1
        })
    }

    fn type_in(&self, rexd: &mut Rexd, session: &str, text: &str) {
        match &self.pty {
            Some(pty) => {
                rexd.call("pty.input", json!({ "session_id": session, "pty_id": pty, "data": text }))
            }
            None => {
                rexd.call("exec.input", json!({ "session_id": session, "process_id": self.id, "data": text }))
            }
        };
    }

    fn kill(&self, rexd: &mut Rexd, session: &str) -> Value {
        rexd.call("exec.kill", json!({ "session_id": session, "process_id": self.id }))
    }
}

fn lines_seen(text: &str) -> usize {
    text.matches("line ").count()
}

/// ARCHITECTURE.md, invariant 28.
#[test]
fn ten_processes_survive_the_daemon_and_no_line_is_missed_or_doubled() {
    let sandbox = Sandbox::new();
    let mark = format!("survive-{}", std::process::id());
    let mut first = Rexd::start_open(REXD, &sandbox);
    let session = first.open();
    let mut all: Vec<Seen> =
        (0..10).map(|number| Seen::start(&mut first, &session, &mark, number % 2 == 1)).collect();
    for (number, seen) in all.iter_mut().enumerate() {
        seen.read_until(&mut first, "some lines", |text| lines_seen(text) > 3 * number);
    }
    first.signal(Signal::KILL);
    first.wait();

    let mut next = Rexd::start_open(REXD, &sandbox);
    let session = next.open();
    let listed = next.call("exec.list", json!({ "session_id": session }));
    let mut ids: Vec<&str> =
        listed["processes"].as_array().unwrap().iter().map(|p| p["process_id"].as_str().unwrap()).collect();
    let mut expected: Vec<&str> = all.iter().map(|seen| seen.id.as_str()).collect();
    ids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ids, expected);
    for process in listed["processes"].as_array().unwrap() {
        assert_eq!(
            (&process["status"], &process["detached"]),
            (&json!("running"), &json!(true)),
            "{process}"
        );
    }
    for seen in &mut all {
        let attached = seen.attach(&mut next, &session);
        assert_eq!((&attached["lost"], &attached["cursor"]), (&json!(0), &json!(seen.cursor)), "{attached}");
        seen.read_until(&mut next, "more lines", |text| lines_seen(text) > 60);
    }
    assert!(all.iter().map(Seen::check_lines).all(|lines| lines >= 60));

    all[0].type_in(&mut next, &session, "hello\n");
    all[0].read_until(&mut next, "the answer", |text| text.contains("got hello\n"));
    let pty = all[1].pty.clone().unwrap();
    next.call("pty.resize", json!({ "session_id": session, "pty_id": pty, "cols": 101, "rows": 37 }));
    all[1].type_in(&mut next, &session, "size\n");
    all[1].read_until(&mut next, "the size", |text| text.contains("size 37 101"));
    assert!(all.iter().map(Seen::check_lines).all(|lines| lines >= 60));

    let trees = proc::watch_marked(&format!("CHATTER={mark}"));
    assert!(trees.len() >= 20, "a shell and its job each: {}", trees.len());
    for seen in &all {
        let killed = seen.kill(&mut next, &session);
        assert_eq!((&killed["ok"], &killed["left"]), (&json!(true), &json!([])), "{killed}");
        assert!(killed["killed"].as_array().unwrap().len() >= 2, "{killed}");
    }
    assert_eq!(proc::survivors(&trees, Duration::from_secs(30)), [0i32; 0]);
    assert_eq!(proc::marked(&format!("CHATTER={mark}")), [0i32; 0], "nothing of the trees is left");
    assert_eq!(next.end().0.code(), Some(0));
}

/// ARCHITECTURE.md, invariant 29.
#[test]
fn a_keeper_of_the_previous_version_is_listed_attached_and_killed() {
    let sandbox = Sandbox::new();
    let mark = format!("older-{}", std::process::id());
    let mut command = sandbox.command(REXD);
    command.arg("--stdio").arg("--root").arg(sandbox.root()).env("REXD_KEEPER_PROTOCOL", "1");
    let mut older = Rexd::spawn(command);
    let session = older.open();
    let mut all = [false, true].map(|terminal| Seen::start(&mut older, &session, &mark, terminal));
    for seen in &mut all {
        seen.read_until(&mut older, "some lines", |text| lines_seen(text) > 5);
    }
    older.signal(Signal::KILL);
    older.wait();

    let mut newer = Rexd::start_open(REXD, &sandbox);
    let session = newer.open();
    let listed = newer.call("exec.list", json!({ "session_id": session }));
    assert_eq!(listed["processes"].as_array().unwrap().len(), 2, "{listed}");
    for seen in &mut all {
        assert_eq!(seen.attach(&mut newer, &session)["lost"], 0);
        seen.type_in(&mut newer, &session, "there\n");
        seen.read_until(&mut newer, "the answer", |text| text.contains("got there"));
        seen.check_lines();
        assert_eq!(seen.kill(&mut newer, &session)["ok"], true);
    }
    assert_eq!(proc::marked(&format!("CHATTER={mark}")), [0i32; 0]);
}

#[test]
fn a_small_quota_drops_the_oldest_output_and_reports_it_while_the_process_continues() {
    let sandbox = Sandbox::with_config("[keepers]\nlog_bytes = 1048576\nquota_bytes = 4194304");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    let line = "head -c 20000000 /dev/zero | tr '\\0' x; printf end";
    let params = json!({ "session_id": session, "command": line, "shell": true, "detach": true });
    let id = rexd.call("exec.start", params)["process_id"].as_str().unwrap().to_owned();
    let waited = rexd.call("exec.wait", json!({ "session_id": session, "process_id": id }));
    assert_eq!(
        (&waited["status"], &waited["bytes_stdout"]),
        (&json!("exited"), &json!(20_000_003)),
        "{waited}"
    );
    rexd.call("session.close", json!({ "session_id": session }));

    let mut next = Rexd::start(REXD, &sandbox);
    let session = next.open();
    let attached = next.call("exec.attach", json!({ "session_id": session, "process_id": id }));
    let lost = attached["lost"].as_u64().unwrap();
    assert!(lost > 15_000_000, "{attached}");
    assert_eq!(attached["cursor"], lost);
    let finished = next.finish(&id);
    assert_eq!(lost + finished.stdout.len() as u64, 20_000_003);
    assert!(finished.stdout.ends_with(b"xend"));
}

/// ARCHITECTURE.md, invariant 24.
#[test]
fn the_end_of_a_detached_process_is_audited_once_with_or_without_sessions() {
    let sandbox = Sandbox::new();
    let mut first = Rexd::start(REXD, &sandbox);
    let session = first.open();
    let params = json!({ "session_id": session, "argv": ["sh", "-c", "read word; exit 7"], "detach": true });
    let id = first.call("exec.start", params)["process_id"].as_str().unwrap().to_owned();
    first.signal(Signal::KILL);
    first.wait();
    let mut next = Rexd::start(REXD, &sandbox);
    let session = next.open();
    for _ in 0..2 {
        next.call("exec.attach", json!({ "session_id": session, "process_id": id }));
    }
    next.call("exec.input", json!({ "session_id": session, "process_id": id, "data": "go\n" }));
    next.event("exec.exit", &id);
    // An absolute path stays as it is.
    let audit = sandbox.audit();
    sandbox.gains(audit.to_str().unwrap(), "\"exec.exit\"", Instant::now() + Duration::from_secs(60));
    assert_eq!(next.end().0.code(), Some(0));
    let text = std::fs::read_to_string(sandbox.audit()).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ends: Vec<&Value> = records.iter().filter(|record| record["method"] == "exec.exit").collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!((&ends[0]["exit_code"], &ends[0]["caller"]), (&json!(7), &json!("stdio")), "{ends:?}");
    assert_eq!(ends[0]["params"]["process_id"], id);
    daemon::observe::audit::verify(&sandbox.audit()).unwrap();
}
