//! Sessions of exec-server: they are kept for their client, lose no output, and end with all their processes.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod exec_server;

use std::time::Instant;

use exec_server::{PATIENCE, ServedDaemon, base64, bytes, start};
use serde_json::{Value, json};
use testkit::proc::watch;
use testkit::sandbox::Sandbox;

fn pid_of(text: &[u8]) -> i32 {
    String::from_utf8_lossy(text).trim().parse().unwrap()
}

/// ARCHITECTURE.md, invariant 55.
#[test]
fn a_session_continues_with_its_processes_on_another_connection() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut codex = served.client();
    codex.shell("p", "while read line; do echo got:$line; done");
    codex.call("process/write", json!({"processId": "p", "chunk": base64("one\n"), "writeId": "1"}));
    let first = codex.event("process/output", "p");
    assert_eq!(
        (first["params"]["seq"].as_u64(), bytes(&first["params"]["chunk"])),
        (Some(1), b"got:one\n".to_vec())
    );
    let session = codex.session.clone();
    codex.cut();

    let mut codex = served.resumed(&session);
    let write = json!({"processId": "p", "chunk": base64("two\n"), "writeId": "2"});
    for _ in 0..3 {
        assert_eq!(codex.call("process/write", write.clone())["status"], "accepted");
    }
    assert_eq!(bytes(&codex.event("process/output", "p")["params"]["chunk"]), b"got:two\n");
    let read = codex.call("process/read", json!({"processId": "p", "afterSeq": 0, "waitMs": 0}));
    let text: Vec<u8> =
        read["chunks"].as_array().unwrap().iter().flat_map(|chunk| bytes(&chunk["chunk"])).collect();
    assert_eq!((text, read["nextSeq"].as_u64()), (b"got:one\ngot:two\n".to_vec(), Some(3)));
    assert_eq!(codex.call("process/terminate", json!({"processId": "p"}))["running"], true);
    assert_eq!(codex.finish("p"), (Vec::new(), 137));
}

/// ARCHITECTURE.md, invariant 56.
#[test]
fn output_written_while_disconnected_arrives_complete_and_in_order() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut codex = served.client();
    // More than memory keeps for it, and told to begin only when nobody listens any more.
    let line = format!(
        "echo ready; until [ -e {go} ]; do sleep 0.01; done; seq 1 2000000; echo done > {done}",
        go = sandbox.path("go").display(),
        done = sandbox.path("done").display()
    );
    codex.shell("p", &line);
    codex.event("process/output", "p");
    let session = codex.session.clone();
    codex.cut();
    // The first attempt finds the old connection gone; only then may the process write.
    served.resumed(&session).cut();
    sandbox.write("go", "");
    sandbox.appears("done", Instant::now() + PATIENCE);

    let mut codex = served.resumed(&session);
    let read = codex.call("process/read", json!({"processId": "p", "afterSeq": 1}));
    let mut text: Vec<u8> =
        read["chunks"].as_array().unwrap().iter().flat_map(|chunk| bytes(&chunk["chunk"])).collect();
    let mut next = read["nextSeq"].as_u64().unwrap();
    while !read["closed"].as_bool().unwrap() {
        let message = codex.take(|message| message["params"]["processId"] == "p");
        let params = &message["params"];
        let seq = params["seq"].as_u64().unwrap();
        if seq < next {
            continue;
        }
        assert_eq!(seq, next);
        next += 1;
        match message["method"].as_str().unwrap() {
            "process/output" => text.extend(bytes(&params["chunk"])),
            "process/closed" => break,
            _ => {}
        }
    }
    let expected: String = (1..=2_000_000).map(|number| format!("{number}\n")).collect();
    assert!(text == expected.as_bytes(), "{} of {} bytes", text.len(), expected.len());
}

/// ARCHITECTURE.md, invariant 56.
#[test]
fn a_reader_that_stopped_and_was_cut_off_misses_nothing_and_the_end_comes_last() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut codex = served.client();
    // Far more than sockets hold: the daemon is stuck in the middle of it when the connection ends.
    let line = format!("seq -f %015.0f 1 3000000; echo done > {}", sandbox.path("done").display());
    codex.shell("p", &line);
    sandbox.appears("done", Instant::now() + PATIENCE);
    let session = codex.session.clone();
    codex.cut();
    let mut codex = served.resumed(&session);
    let read = codex.call("process/read", json!({"processId": "p", "afterSeq": 0}));
    let mut pieces = std::collections::BTreeMap::new();
    for chunk in read["chunks"].as_array().unwrap() {
        pieces.insert(chunk["seq"].as_u64().unwrap(), bytes(&chunk["chunk"]));
    }
    let (mut exited, mut closed) = (None, None);
    while closed.is_none() {
        let message = codex.take(|message| message["params"]["processId"] == "p");
        let seq = message["params"]["seq"].as_u64();
        match message["method"].as_str().unwrap() {
            "process/output" => drop(pieces.insert(seq.unwrap(), bytes(&message["params"]["chunk"]))),
            "process/exited" => exited = seq,
            _ => closed = seq,
        }
    }
    assert!(pieces.keys().copied().eq(1..=pieces.len() as u64), "numbers are missing");
    assert_eq!((exited, closed), (Some(pieces.len() as u64 + 1), Some(pieces.len() as u64 + 2)));
    let text: Vec<u8> = pieces.into_values().flatten().collect();
    let expected: String = (1..=3_000_000).map(|number| format!("{number:015}\n")).collect();
    assert!(text == expected.as_bytes(), "{} of {} bytes", text.len(), expected.len());
}

/// ARCHITECTURE.md, invariant 55.
#[test]
fn a_session_in_use_is_retried_and_then_given_away() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut first = served.client();
    let session = first.session.clone();
    let mut second = served.connect();
    let params = json!({"clientName": "test", "resumeSessionId": session});
    assert_eq!(second.refused("initialize", params), -32010);
    // The client asks again and again; the connection that gives no sign gives way.
    drop(second);
    let mut second = served.resumed(&session);
    assert_eq!(second.call("environment/status", json!({}))["status"], "ready");
    while first.receive().is_some() {}
    let unknown = json!({"clientName": "test", "resumeSessionId": "00000000-0000-4000-8000-000000000000"});
    let mut third = served.connect();
    assert_eq!(third.refused("initialize", unknown), -32600);
    third.greet(json!({"clientName": "a failed handshake leaves the connection usable"}));
}

/// ARCHITECTURE.md, invariant 55.
#[test]
fn processes_of_v0_end_with_their_connection_and_those_of_v1_wait() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut codex = served.client();
    let line = "echo $$; exec sleep 1000";
    let v0 = json!({"processId": "old", "argv": ["sh", "-c", line], "cwd": "/", "env": {}, "tty": false});
    let answer = codex.call("command/exec", v0);
    assert_eq!(
        answer,
        json!({"processId": "old", "running": true, "exitCode": null, "stdout": null, "stderr": null})
    );
    let old = pid_of(&bytes(&codex.event("command/exec/outputDelta", "old")["params"]["chunk"]));
    codex.shell("new", line);
    let new = pid_of(&bytes(&codex.event("process/output", "new")["params"]["chunk"]));
    let session = codex.session.clone();
    codex.cut();
    assert!(watch(old).ends_before(Instant::now() + PATIENCE), "it outlives its connection");
    let mut codex = served.resumed(&session);
    assert!(!watch(new).has_ended());
    assert_eq!(codex.call("command/exec/terminate", json!({"processId": "old"}))["running"], false);
    assert_eq!(codex.call("process/terminate", json!({"processId": "new"}))["running"], true);
    assert!(watch(new).has_ended(), "a kill that was answered is done");
}

/// ARCHITECTURE.md, invariant 55.
#[test]
fn a_daemon_that_ends_leaves_nothing_of_any_session() {
    let sandbox = Sandbox::new();
    let mut served = ServedDaemon::start(&sandbox, &[]);
    let mut codex = served.client();
    codex.shell("p", "sleep 1000 & echo $!; wait");
    let attached = pid_of(&bytes(&codex.event("process/output", "p")["params"]["chunk"]));
    let mut gone = served.client();
    gone.shell("p", "sleep 1000 & echo $!; wait");
    let waiting = pid_of(&bytes(&gone.event("process/output", "p")["params"]["chunk"]));
    gone.cut();
    let pid = rustix::process::Pid::from_raw(i32::try_from(served.child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(served.child.wait().unwrap().success());
    for pid in [attached, waiting] {
        assert!(watch(pid).ends_before(Instant::now() + PATIENCE), "{pid} is left");
    }
}

#[test]
fn the_end_of_a_command_does_not_wait_for_a_grandchild_that_holds_its_output() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut codex = served.client();
    codex.shell("p", "sleep 1000 & echo started");
    let (output, status) = codex.finish("p");
    assert_eq!((output.as_slice(), status), (&b"started\n"[..], 0));
}

/// ARCHITECTURE.md, invariant 57.
#[test]
fn ends_are_not_held_up_by_requests_that_wait() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut codex = served.client();
    codex.shell("p", "echo ready; sleep 1000");
    let ready = codex.event("process/output", "p");
    let polls: Vec<u64> = (0..500)
        .map(|_| {
            codex.request(
                "process/read",
                json!({"processId": "p", "afterSeq": ready["params"]["seq"], "waitMs": 600_000}),
            )
        })
        .collect();
    assert_eq!(codex.call("process/terminate", json!({"processId": "p"}))["running"], true);
    for poll in polls {
        assert_eq!(codex.answer(poll).unwrap()["exited"], true);
    }
}

#[test]
fn ids_and_statuses_are_those_of_the_protocol() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut codex = served.client();
    codex.shell("p", "exit 3");
    assert_eq!(codex.finish("p").1, 3);
    let again = start("p", &["sh", "-c", "exit 3"]);
    assert_eq!(codex.refused("process/start", again), -32600, "the id is kept for a while");
    assert_eq!(codex.refused("process/start", start("q", &[])), -32602);
    assert_eq!(codex.refused("process/start", start("q", &["/no/such/program"])), -32603);
    let mut missing = start("q", &["true"]);
    missing["cwd"] = json!("/no/such/directory");
    assert_eq!(codex.refused("process/start", missing), -32603);
    codex.shell("q", "kill -9 $$");
    assert_eq!(codex.finish("q").1, 137, "a start that failed has left the id free");
    assert_eq!(codex.refused("process/read", json!({"processId": "none"})), -32600);
    let write = |process: &str| json!({"processId": process, "chunk": base64("x")});
    assert_eq!(codex.call("process/write", write("none"))["status"], "unknownProcess");
    let mut closed = start("r", &["sleep", "1000"]);
    closed["pipeStdin"] = json!(false);
    codex.call("process/start", closed);
    assert_eq!(codex.call("process/write", write("r"))["status"], "stdinClosed");
    assert_eq!(codex.call("process/signal", json!({"processId": "r", "signal": "interrupt"})), json!({}));
    assert_eq!(codex.finish("r").1, 130);
    assert_eq!(codex.refused("process/signal", json!({"processId": "r", "signal": "kill"})), -32602);
    let mut terminal = start("t", &["sh", "-c", "kill -9 $$"]);
    (terminal["tty"], terminal["arg0"]) = (json!(true), Value::Null);
    codex.call("process/start", terminal);
    assert_eq!(codex.finish("t").1, 1);
    let mut renamed = start("u", &["sh", "-c", "ps -o args= -p $$"]);
    renamed["arg0"] = json!("another-name");
    codex.call("process/start", renamed);
    assert_eq!(codex.finish("u").0, b"another-name -c ps -o args= -p $$\n");
}

#[test]
fn an_id_is_free_for_another_command_once_its_process_is_over_and_a_repeated_start_is_refused() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut codex = served.client();
    codex.shell("p", "read line; echo first");
    assert_eq!(codex.refused("process/start", start("p", &["echo", "second"])), -32600, "it runs");
    codex.call("process/write", json!({"processId": "p", "chunk": base64("\n"), "writeId": "1"}));
    assert_eq!(codex.finish("p"), (b"first\n".to_vec(), 0));
    let repeated = start("p", &["sh", "-c", "read line; echo first"]);
    assert_eq!(codex.refused("process/start", repeated), -32600, "a start that was answered already");
    codex.call("process/start", start("p", &["echo", "second"]));
    assert_eq!(codex.finish("p"), (b"second\n".to_vec(), 0));
    let read = codex.call("process/read", json!({"processId": "p", "afterSeq": 0, "waitMs": 0}));
    let text: Vec<u8> =
        read["chunks"].as_array().unwrap().iter().flat_map(|chunk| bytes(&chunk["chunk"])).collect();
    assert_eq!(text, b"second\n", "nothing of the one before it");
}
