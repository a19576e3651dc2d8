//! Requests of hub users to a host: files, git, the machine, and operations that a person approves.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod host_support;

use std::process::Command;

use host_support::{HostProcess, HubConnection, ScriptedHub, Stored, rpc, with_ended_run};
use serde_json::{Value, json};
use testkit::sandbox::Sandbox;

#[tokio::test]
async fn files_of_an_ended_run_are_read_listed_and_searched_within_its_directory() {
    let sandbox = Sandbox::new();
    sandbox.write("root/readme.md", "hello\nneedle -v here\n");
    sandbox.write("root/sub/x.txt", "needle\n");
    sandbox.write("root/latin1", b"\xff\xfe");
    sandbox.write("root/large", "é".repeat(600_000));
    sandbox.link("root/out", sandbox.outside().join("secret.txt"));
    let (_host, _hub, mut connection, mut stored, run) = with_ended_run(&sandbox).await;
    let (connection, stored) = (&mut connection, &mut stored);
    let read = rpc(connection, stored, &run, "rpc.fs.read", json!({"path": "readme.md"})).await;
    let expected = json!({"path": "readme.md", "content": "hello\nneedle -v here\n", "truncated": false});
    assert_eq!(read["result"], expected, "{read}");
    for (path, error) in [
        (json!(null), "missing path"),
        (json!("/etc/passwd"), "path must be relative"),
        (json!("a/../../b"), "path contains .."),
        (json!("latin1"), "file is not valid utf-8"),
        (json!("out"), "path escapes run cwd"),
        (json!("none"), "bad path: "),
    ] {
        let refused = rpc(connection, stored, &run, "rpc.fs.read", json!({"path": path})).await;
        assert!(refused["error"].as_str().unwrap().starts_with(error), "{path}: {refused}");
    }
    let large = rpc(connection, stored, &run, "rpc.fs.read", json!({"path": "large"})).await;
    assert_eq!(large["result"]["truncated"], true);
    assert_eq!(large["result"]["content"].as_str().unwrap().len(), 1024 * 1024);
    let list = rpc(connection, stored, &run, "rpc.fs.list", json!({})).await;
    let names: Vec<&str> = list["result"]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["large", "latin1", "out", "readme.md", "sub"]);
    assert_eq!(list["result"]["entries"][4], json!({"name": "sub", "is_dir": true, "size_bytes": null}));
    let file = rpc(connection, stored, &run, "rpc.fs.list", json!({"path": "readme.md"})).await;
    assert_eq!(file["error"], "path is not a directory");
    // A query that looks like an option is a query.
    let found = rpc(connection, stored, &run, "rpc.fs.search", json!({"q": "-v"})).await;
    let expected = json!([{"path": "readme.md", "line": 2, "column": 8, "text": "needle -v here"}]);
    assert_eq!(found["result"]["matches"], expected, "{found}");
    let missing = rpc(connection, stored, &run, "rpc.fs.search", json!({})).await;
    assert_eq!(missing["error"], "missing q");
    // Each request left two events in the run, after its exit; what it read is not stored as a whole.
    let count = |stored: &Stored, kind| stored.kinds(&run).iter().filter(|found| *found == kind).count();
    while count(stored, "tool.result") < 12 {
        // A response overtakes the events.
        connection.until(stored, |message| message["type"] == "tool.result").await;
    }
    assert_eq!(count(stored, "tool.call"), 12);
    let events = stored.of(&run);
    let results: Vec<&Value> = events.iter().filter(|event| event["type"] == "tool.result").collect();
    assert!(results.iter().all(|result| result["data"].as_object().unwrap().contains_key("error")));
    assert!(results.iter().all(|result| result.to_string().len() < 20_000), "the large file is cut");
    stored.assert_complete(&run);
}

#[tokio::test]
async fn git_shows_the_work_tree_and_the_machine_describes_itself() {
    let sandbox = Sandbox::new();
    sandbox.write("root/gone.txt", "old\n");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(sandbox.root())
            .args(["-c", "user.name=t", "-c", "user.email=t@t"])
            .args(arguments);
        assert!(command.output().unwrap().status.success(), "git {arguments:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "first"]);
    std::fs::remove_file(sandbox.path("root/gone.txt")).unwrap();
    let (_host, _hub, mut connection, mut stored, run) = with_ended_run(&sandbox).await;
    let (connection, stored) = (&mut connection, &mut stored);
    let status = rpc(connection, stored, &run, "rpc.git.status", json!({})).await;
    assert_eq!(status["result"]["stdout"], "## main\n D gone.txt\n", "{status}");
    let diff = rpc(connection, stored, &run, "rpc.git.diff", json!({"path": "gone.txt"})).await;
    assert!(diff["result"]["stdout"].as_str().unwrap().contains("-old"), "{diff}");
    let staged = rpc(connection, stored, &run, "rpc.git.diff", json!({"staged": true})).await;
    assert_eq!(staged["result"]["stdout"], "", "{staged}");
    git(&["add", "gone.txt"]);
    let staged = rpc(connection, stored, &run, "rpc.git.diff", json!({"staged": true})).await;
    assert!(staged["result"]["stdout"].as_str().unwrap().contains("-old"), "{staged}");
    let info = rpc(connection, stored, &run, "rpc.host.capabilities", json!({"host_id": "any"})).await;
    let supported = info["result"]["supported_rpc"].as_array().unwrap();
    assert!(supported.contains(&json!("rpc.bash")) && info["result"]["os"] == "linux", "{info}");
    assert!(info["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["tool"] == "codex"));
    let log = rpc(connection, stored, &run, "rpc.host.logs.tail", json!({"lines": 500})).await;
    assert!(log["result"]["text"].as_str().unwrap().contains("connected"), "{log}");
}

/// Stores events until a run waits for a decision; returns the data of the question.
async fn question(connection: &mut HubConnection, stored: &mut Stored, request_id: &str) -> Value {
    let is_question = |message: &Value| {
        message["type"] == "run.permission_requested" && message["data"]["request_id"] == request_id
    };
    connection.until(stored, is_question).await["data"].clone()
}

async fn response(connection: &mut HubConnection, stored: &mut Stored, request_id: &str) -> Value {
    let is_response =
        |message: &Value| message["type"] == "rpc.response" && message["data"]["request_id"] == request_id;
    connection.until(stored, is_response).await["data"].clone()
}

#[tokio::test]
async fn a_write_waits_for_a_person_who_sees_what_will_happen() {
    let sandbox = Sandbox::new();
    sandbox.write("root/a.txt", "old\n");
    let (_host, _hub, mut connection, mut stored, run) = with_ended_run(&sandbox).await;
    let (connection, stored) = (&mut connection, &mut stored);
    // Refused before a person is asked.
    for (data, error) in [
        (json!({"path": "../a", "content": ""}), "path contains .."),
        (json!({"path": "big", "content": "x".repeat(1024 * 1024 + 1)}), "content too large"),
        (json!({"path": "none/a", "content": ""}), "bad path"),
    ] {
        let refused = rpc(connection, stored, &run, "rpc.fs.write", data).await;
        assert!(refused["error"].as_str().unwrap().starts_with(error), "{refused}");
    }
    let write =
        json!({"request_id": "w1", "path": "a.txt", "content": "new --password=hunter2\n", "user": "ann"});
    connection.send("rpc.fs.write", Some(&run), write.clone()).await;
    let asked = question(connection, stored, "w1").await;
    assert_eq!(
        (asked["op_tool"].clone(), asked["reason"].clone()),
        (json!("rpc.fs.write"), json!("permission"))
    );
    assert!(asked["op_args_summary"].as_str().unwrap().chars().count() <= 80);
    assert!(asked["op_args"]["diff"].as_str().unwrap().contains("-old"), "{asked}");
    assert!(!asked.to_string().contains("hunter2"), "stored without secrets: {asked}");
    assert_eq!(asked["requester"], "user:ann");
    let shown = rpc(connection, stored, &run, "rpc.approval.show", json!({"approval_id": "w1"})).await;
    assert!(shown["result"].to_string().contains("hunter2"), "shown as it is: {shown}");
    assert_eq!(sandbox.read("root/a.txt"), "old\n");
    let decision = json!({"request_id": "w1", "user": "bob"});
    connection.send("run.permission.approve", Some(&run), decision).await;
    let written = response(connection, stored, "w1").await;
    assert_eq!(written["result"], json!({"path": "a.txt", "bytes_written": 23, "truncated": false}));
    assert_eq!(sandbox.read("root/a.txt"), "new --password=hunter2\n");
    let is_result = |event: &Value| event["type"] == "tool.result" && event["data"]["request_id"] == "w1";
    if !stored.of(&run).iter().any(is_result) {
        connection.until(stored, is_result).await;
    }
    let kinds = stored.kinds(&run);
    // Looking at the question is no operation: its true text is stored nowhere.
    let expected = ["tool.call", "run.permission_requested", "run.permission_decided", "tool.result"];
    assert!(kinds.ends_with(&expected.map(str::to_owned)), "{kinds:?}");
    // A denied write changes nothing.
    connection
        .send("rpc.fs.write", Some(&run), json!({"request_id": "w2", "path": "a.txt", "content": ""}))
        .await;
    question(connection, stored, "w2").await;
    connection.send("run.permission.deny", Some(&run), json!({"request_id": "w2", "user": "bob"})).await;
    let denied = response(connection, stored, "w2").await;
    assert_eq!(denied["error"], "denied");
    assert_eq!(sandbox.read("root/a.txt"), "new --password=hunter2\n");
    let late = json!({"request_id": "w2", "user": "bob"});
    connection.send("run.permission.approve", Some(&run), late).await;
    rpc(connection, stored, &run, "rpc.fs.read", json!({"path": "a.txt"})).await;
    assert_eq!(sandbox.read("root/a.txt"), "new --password=hunter2\n");
}

/// A command that fails keeps its output; the answer for the run holds for the next command.
#[tokio::test]
async fn a_command_runs_once_after_approval_and_keeps_its_output_when_it_fails() {
    let sandbox = Sandbox::new();
    let (_host, _hub, mut connection, mut stored, run) = with_ended_run(&sandbox).await;
    let (connection, stored) = (&mut connection, &mut stored);
    let cmd = json!({"request_id": "b1", "cmd": "echo out; echo err >&2; exit 3", "user": "ann"});
    connection.send("rpc.bash", Some(&run), cmd.clone()).await;
    let asked = question(connection, stored, "b1").await;
    assert_eq!(
        (asked["op_tool"].clone(), asked["op_args_summary"].clone()),
        (json!("bash"), json!("cmd=echo out; echo err >&2; exit 3"))
    );
    let decision = json!({"request_id": "b1", "decision": "approve_for_session", "user": "bob"});
    connection.send("run.permission.approve", Some(&run), decision).await;
    let failed = response(connection, stored, "b1").await;
    assert_eq!(failed["error"], "bash exited with code 3: err\n");
    assert_eq!(failed["result"]["stdout"], "out\n");
    let next = rpc(connection, stored, &run, "rpc.bash", json!({"cmd": "echo $((6*7)) | tee answer"})).await;
    assert_eq!(next["result"]["stdout"], "42\n", "{next}");
    // A repeated request runs once and gets the same answer.
    let again =
        rpc(connection, stored, &run, "rpc.bash", json!({"request_id": "b1", "cmd": cmd["cmd"]})).await;
    assert_eq!((&again["error"], &again["result"]), (&failed["error"], &failed["result"]));
}

#[tokio::test]
async fn a_question_survives_the_host_and_an_operation_that_ran_is_in_doubt() {
    let sandbox = Sandbox::new();
    let (mut host, hub, mut connection, mut stored, run) = with_ended_run(&sandbox).await;
    let write = json!({"request_id": "w", "path": "late.txt", "content": "after\n", "user": "ann"});
    connection.send("rpc.fs.write", Some(&run), write.clone()).await;
    let asked = question(&mut connection, &mut stored, "w").await;
    let shown =
        rpc(&mut connection, &mut stored, &run, "rpc.approval.show", json!({"approval_id": "w"})).await;
    // A command that runs when the host is killed: it holds a pipe open until it is gone.
    let bash = json!({"request_id": "b", "cmd": "echo begun > begun; sleep 600", "user": "ann"});
    connection.send("rpc.bash", Some(&run), bash.clone()).await;
    question(&mut connection, &mut stored, "b").await;
    connection.send("run.permission.approve", Some(&run), json!({"request_id": "b", "user": "bob"})).await;
    sandbox.appears("root/begun", std::time::Instant::now() + host_support::PATIENCE);
    host.kill();
    drop(connection);
    std::fs::remove_file(sandbox.path("root/begun")).unwrap();
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let is_doubt = |message: &Value| message["type"] == "tool.result" && message["data"]["request_id"] == "b";
    if !stored.of(&run).iter().any(is_doubt) {
        connection.until(&mut stored, is_doubt).await;
    }
    let doubt = stored.of(&run).into_iter().find(is_doubt).unwrap();
    assert!(doubt["data"]["error"].as_str().unwrap().starts_with("in doubt"), "{doubt}");
    let repeated = rpc(&mut connection, &mut stored, &run, "rpc.bash", bash).await;
    assert!(repeated["error"].as_str().unwrap().starts_with("in doubt"), "{repeated}");
    assert!(!sandbox.path("root/begun").exists(), "it is never repeated");
    // The other question has the same id and deadline, and was not sent a second time.
    let again =
        rpc(&mut connection, &mut stored, &run, "rpc.approval.show", json!({"approval_id": "w"})).await;
    assert_eq!(again["result"]["approval_id"], shown["result"]["approval_id"], "{again}");
    let questions = stored
        .of(&run)
        .into_iter()
        .filter(|event| event["type"] == "run.permission_requested" && event["data"]["request_id"] == "w");
    assert_eq!(questions.count(), 1);
    // As times: a text has no zeros at its end. The file has milliseconds.
    let time = |text: &Value| text.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert_eq!(time(&again["result"]["expires_at"]), time(&asked["expires_at"]));
    connection.send("run.permission.approve", Some(&run), json!({"request_id": "w", "user": "bob"})).await;
    let is_written =
        |message: &Value| message["type"] == "tool.result" && message["data"]["request_id"] == "w";
    let written = connection.until(&mut stored, is_written).await;
    assert_eq!(written["data"]["ok"], true, "{written}");
    assert_eq!(sandbox.read("root/late.txt"), "after\n");
    let answer = rpc(&mut connection, &mut stored, &run, "rpc.fs.write", write).await;
    assert_eq!(answer["result"]["bytes_written"], 6, "the repeated request gets the answer");
    stored.assert_complete(&run);
}

/// After a power failure the journal may lack events that were sent: the numbers of the hub are the ones that count.
#[tokio::test]
async fn after_a_power_failure_an_operation_in_doubt_is_reported_with_a_number_that_is_free() {
    let sandbox = Sandbox::new();
    let (mut host, hub, mut connection, mut stored, run) = with_ended_run(&sandbox).await;
    // Without acknowledgements the journal keeps every event.
    connection.is_acking = false;
    let bash = json!({"request_id": "b", "cmd": "echo begun > begun; sleep 600", "user": "ann"});
    connection.send("rpc.bash", Some(&run), bash.clone()).await;
    question(&mut connection, &mut stored, "b").await;
    connection.send("run.permission.approve", Some(&run), json!({"request_id": "b", "user": "bob"})).await;
    sandbox.appears("root/begun", std::time::Instant::now() + host_support::PATIENCE);
    host.kill();
    drop(connection);
    let path = sandbox.path(format!("home/state/rexd/runs/{run}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = text.lines().take_while(|line| !line.contains("\"type\":\"tool.call\"")).collect();
    assert!(kept.len() < text.lines().count(), "{text}");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let kept = (kept.join("\n") + "\n").replace(boot.trim(), "another-boot");
    assert!(kept.contains("another-boot"), "{kept}");
    std::fs::write(path, kept).unwrap();
    let last = stored.last(&run);
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let is_doubt = |message: &Value| message["type"] == "tool.result" && message["data"]["request_id"] == "b";
    let doubt = connection.until(&mut stored, is_doubt).await;
    assert!(doubt["data"]["error"].as_str().unwrap().starts_with("in doubt"), "{doubt}");
    assert!(doubt["seq"].as_i64().unwrap() > last, "{doubt}");
    let repeated = rpc(&mut connection, &mut stored, &run, "rpc.bash", bash).await;
    assert!(repeated["error"].as_str().unwrap().starts_with("in doubt"), "{repeated}");
    assert_eq!(stored.last(&run), *stored.runs[&run].keys().last().unwrap(), "no number is missing");
}

/// The types of the events of a request.
fn kinds_of(stored: &Stored, run: &str, request_id: &str) -> Vec<String> {
    let events = stored.of(run).into_iter().filter(|event| event["data"]["request_id"] == request_id);
    events.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// Removes the events from the first one of this type on, from the journal and from the hub, as if the host had been killed
/// before it wrote that.
fn forget_from(sandbox: &Sandbox, stored: &mut Stored, run: &str, kind: &str) {
    let path = sandbox.path(format!("home/state/rexd/runs/{run}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let event = format!("\"type\":\"{kind}\"");
    let kept: Vec<&str> = text.lines().take_while(|line| !line.contains(&event)).collect();
    assert!(kept.len() < text.lines().count(), "no {kind} in {text}");
    std::fs::write(path, kept.join("\n") + "\n").unwrap();
    let events = stored.runs.get_mut(run).unwrap();
    let first = events.values().find(|event| event["type"] == kind).unwrap()["seq"].as_i64().unwrap();
    events.retain(|seq, _| *seq < first);
}

/// The file of the only operation that the host has stored.
fn pending_file(sandbox: &Sandbox) -> std::path::PathBuf {
    let files = std::fs::read_dir(sandbox.path("home/state/rexd/runs/pending")).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    // Beside it there may be a draft that the killed host was writing.
    files.find(|path| path.extension().is_some_and(|end| end == "json")).unwrap()
}

#[tokio::test]
async fn a_question_whose_event_a_killed_host_did_not_write_is_asked_by_the_next_one() {
    let sandbox = Sandbox::new();
    let (mut host, hub, mut connection, mut stored, run) = with_ended_run(&sandbox).await;
    // Without acknowledgements the journal keeps every event.
    connection.is_acking = false;
    let write = json!({"request_id": "w", "path": "late.txt", "content": "after\n", "user": "ann"});
    connection.send("rpc.fs.write", Some(&run), write.clone()).await;
    question(&mut connection, &mut stored, "w").await;
    host.kill();
    drop(connection);
    forget_from(&sandbox, &mut stored, &run, "run.permission_requested");
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    question(&mut connection, &mut stored, "w").await;
    connection.send("run.permission.approve", Some(&run), json!({"request_id": "w", "user": "bob"})).await;
    let answer = rpc(&mut connection, &mut stored, &run, "rpc.fs.write", write).await;
    assert_eq!(answer["result"]["bytes_written"], 6, "{answer}");
}

/// A host that was killed after an operation, the hub, what it has, and the run.
async fn killed_after_operation(sandbox: &Sandbox, bash: &Value) -> (ScriptedHub, Stored, String) {
    let (mut host, hub, mut connection, mut stored, run) = with_ended_run(sandbox).await;
    connection.is_acking = false;
    connection.send("rpc.bash", Some(&run), bash.clone()).await;
    question(&mut connection, &mut stored, "b").await;
    connection.send("run.permission.approve", Some(&run), json!({"request_id": "b", "user": "bob"})).await;
    while kinds_of(&stored, &run, "b").len() < 4 {
        connection.until(&mut stored, |message| message["seq"].is_i64()).await;
    }
    host.kill();
    (hub, stored, run)
}

#[tokio::test]
async fn an_operation_has_each_event_once_wherever_the_host_is_killed() {
    let bash = json!({"request_id": "b", "cmd": "echo done >> done", "user": "ann"});
    // The host was killed before it stored the answer, or that the event of the answer is written.
    for state in ["running", "done"] {
        let sandbox = Sandbox::new();
        let (hub, mut stored, run) = killed_after_operation(&sandbox, &bash).await;
        let each_once = kinds_of(&stored, &run, "b");
        let path = pending_file(&sandbox);
        let mut call: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        call["state"] = json!(state);
        std::fs::write(&path, call.to_string()).unwrap();
        let _host = HostProcess::start(&sandbox, &hub.url());
        let (mut connection, _) = hub.greeted(&stored).await;
        rpc(&mut connection, &mut stored, &run, "rpc.bash", bash.clone()).await;
        // A later event shows that no other one is on its way.
        rpc(&mut connection, &mut stored, &run, "rpc.fs.list", json!({"request_id": "l"})).await;
        while kinds_of(&stored, &run, "l").len() < 2 {
            connection.until(&mut stored, |message| message["seq"].is_i64()).await;
        }
        assert_eq!(kinds_of(&stored, &run, "b"), each_once, "{state}");
        assert_eq!(sandbox.read("root/done"), "done\n", "{state}");
    }
    // The host was killed before it stored the question.
    let sandbox = Sandbox::new();
    let (hub, mut stored, run) = killed_after_operation(&sandbox, &bash).await;
    std::fs::remove_file(pending_file(&sandbox)).unwrap();
    forget_from(&sandbox, &mut stored, &run, "run.permission_requested");
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    connection.send("rpc.bash", Some(&run), bash).await;
    question(&mut connection, &mut stored, "b").await;
    assert_eq!(kinds_of(&stored, &run, "b"), ["tool.call", "run.permission_requested"]);
}

/// A host that was killed between a decision and the begin of its operation gets the decision from the hub again, even before
/// it has asked again.
#[tokio::test]
async fn a_decision_that_is_repeated_after_a_restart_takes_effect() {
    let sandbox = Sandbox::new();
    let (mut host, hub, mut connection, mut stored, run) = with_ended_run(&sandbox).await;
    let bash = json!({"request_id": "b", "cmd": "echo done >> done", "user": "ann"});
    connection.send("rpc.bash", Some(&run), bash.clone()).await;
    question(&mut connection, &mut stored, "b").await;
    host.kill();
    drop(connection);
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    connection.send("run.permission.approve", Some(&run), json!({"request_id": "b", "user": "bob"})).await;
    let answer = rpc(&mut connection, &mut stored, &run, "rpc.bash", bash).await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(sandbox.read("root/done"), "done\n");
    while kinds_of(&stored, &run, "b").len() < 4 {
        connection.until(&mut stored, |message| message["seq"].is_i64()).await;
    }
    let mut kinds = kinds_of(&stored, &run, "b");
    kinds.sort();
    assert_eq!(kinds, ["run.permission_decided", "run.permission_requested", "tool.call", "tool.result"]);
}
