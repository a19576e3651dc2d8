//! Runs of a host, seen by a scripted hub: started, written to, stopped, and continued after every kind of end.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod host_support;

use host_support::{HostProcess, ScriptedHub, Stored};
use serde_json::json;
use testkit::sandbox::Sandbox;

#[tokio::test]
async fn a_host_greets_with_its_token_in_a_header_and_sends_a_run_in_order() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, hello) = hub.greeted(&stored).await;
    assert!(connection.uri.starts_with("/ws/host?host_id=host-") && !connection.uri.contains("token"));
    let token = connection.headers["authorization"].strip_prefix("Bearer ").unwrap();
    assert_eq!(token.len(), 64);
    assert_eq!(hello["data"]["runs"], json!([]));
    let run = connection.start(&mut stored, "echo one; echo two >&2; printf '\\377'; exit 7").await;
    assert!(run.starts_with("run-"), "{run}");
    let exit = connection.exited(&mut stored, &run).await;
    assert_eq!(exit["data"]["exit_code"], 7);
    assert_eq!(stored.kinds(&run), ["run.started", "run.exited"]);
    stored.assert_complete(&run);
    let text = stored.text(&run);
    assert!(text.contains("one\r\n") && text.contains("two\r\n"), "{text:?}");
    let events = stored.of(&run);
    assert_eq!(events.last().unwrap()["type"], "run.exited", "nothing follows the exit");
    let started = &events[0]["data"];
    assert_eq!(started["tool"], "shell");
    assert_eq!(started["cwd"], sandbox.root().to_str().unwrap());
    // The byte that is no text is there exactly.
    let exact = events.iter().any(|event| {
        let base64 = event["data"]["base64"].as_str().unwrap_or_default();
        wire::base64::decode(base64).unwrap().contains(&0xff)
    });
    assert!(exact, "{events:?}");
}

#[tokio::test]
async fn a_run_knows_where_it_is_and_has_a_terminal_of_the_size_it_is_given() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    sandbox.write("root/sub/file", "");
    let _host = HostProcess::start_with(&sandbox, &hub.url(), |command| {
        command.env("HOST_TOKEN", "a-token-of-mine").env("HOST_ID", "my-host");
    });
    let (mut connection, _) = hub.greeted(&stored).await;
    assert_eq!(connection.uri, "/ws/host?host_id=my-host");
    assert_eq!(connection.headers["authorization"], "Bearer a-token-of-mine");
    let cmd = "echo $RELAY_RUN_ID $RELAY_TOOL $RELAY_CWD ${RELAY_HOSTD_SOCK##*/} $PWD [$HOST_TOKEN]; stty size; \
               read line; echo got-$line; stty size; read end";
    let data = json!({"request_id": "r", "tool": "codex", "cmd": cmd, "cwd": "sub", "cols": 100, "rows": 30});
    let response = connection.request(&mut stored, "rpc.run.start", None, data.clone()).await;
    let run = response["result"]["run_id"].as_str().unwrap().to_owned();
    let cwd = sandbox.root().join("sub");
    let cwd = cwd.to_str().unwrap();
    connection.output(&mut stored, &run, "30 100").await;
    let first = stored.text(&run);
    assert!(first.contains(&format!("{run} codex {cwd} host.sock {cwd} []")), "{first:?}");
    connection.send("run.resize", Some(&run), json!({"cols": 90, "rows": 20})).await;
    for _repeated in 0..3 {
        let input = json!({"input_id": "i1", "text": "once\n", "actor": "web", "user": "ann"});
        connection.send("run.send_input", Some(&run), input).await;
    }
    connection.output(&mut stored, &run, "20 90").await;
    assert_eq!(stored.text(&run).matches("got-once").count(), 1);
    connection
        .send("run.send_input", Some(&run), json!({"input_id": "i2", "text": "\n", "user": "ann"}))
        .await;
    let exit = connection.exited(&mut stored, &run).await;
    assert_eq!(exit["data"]["exit_code"], 0);
    let inputs: Vec<_> = stored.of(&run).into_iter().filter(|event| event["type"] == "run.input").collect();
    assert_eq!(inputs.len(), 2, "{inputs:?}");
    assert_eq!(inputs[0]["data"]["user"], "ann");
    assert_eq!(inputs[0]["data"]["text_redacted"], "once\n");
    // A repeated request runs once.
    let again = connection.request(&mut stored, "rpc.run.start", None, data).await;
    assert_eq!(again["result"]["run_id"], run.as_str());
}

#[tokio::test]
async fn stops_end_a_run_and_its_exit_code_tells_the_signal() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    for (signal, code) in [(json!("kill"), 137), (json!(null), 143), (json!("int"), 130)] {
        let run = connection.start(&mut stored, &format!("echo ready; exec sleep 600 # {signal}")).await;
        connection.output(&mut stored, &run, "ready").await;
        let data = json!({"request_id": format!("stop {signal}"), "signal": signal});
        let stopped = connection.request(&mut stored, "rpc.run.stop", Some(&run), data).await;
        assert_eq!(stopped["ok"], true, "{stopped}");
        let exit = connection.exited(&mut stored, &run).await;
        assert_eq!(exit["data"]["exit_code"], code, "{exit}");
        let late = json!({"request_id": format!("late {signal}"), "signal": "term"});
        let late = connection.request(&mut stored, "rpc.run.stop", Some(&run), late).await;
        assert_eq!(late["error"], "the run has ended");
    }
    let data = json!({"request_id": "none", "signal": "term"});
    let unknown = connection.request(&mut stored, "rpc.run.stop", Some("run-none"), data).await;
    assert_eq!((unknown["ok"].clone(), unknown["error"].clone()), (json!(false), json!("unknown run_id")));
    let data = json!({"request_id": "list"});
    let list = connection.request(&mut stored, "rpc.runs.list", None, data).await;
    assert_eq!(list["result"]["runs"], json!([]));
}

#[tokio::test]
async fn a_lost_connection_and_a_killed_host_lose_nothing_and_send_little_twice() {
    const LINES: usize = 3_000;
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let mut host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    // Waits for a line of input every thousand lines, so that each end falls into the middle.
    let cmd = format!(
        "stty -echo; for i in $(seq 1 {LINES}); do echo \"line $i é\"; [ $((i % 1000)) = 0 ] && read go; done; exit 3"
    );
    let run = connection.start(&mut stored, &cmd).await;
    connection.output(&mut stored, &run, "line 1000 é\r\n").await;
    // The connection is cut, and the host dials again.
    drop(connection);
    let (mut connection, hello) = hub.greeted(&stored).await;
    let held = &hello["data"]["runs"];
    assert!(held.as_array().unwrap().iter().all(|held| held["run_id"] == run.as_str()), "{hello}");
    let input = json!({"input_id": "first", "text": "\n"});
    connection.send("run.send_input", Some(&run), input.clone()).await;
    connection.output(&mut stored, &run, "line 2000 é\r\n").await;
    // The host is killed; the run continues under its keeper.
    host.kill();
    drop(connection);
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    // An input that took effect before the restart does nothing after it.
    connection.send("run.send_input", Some(&run), input).await;
    let second = json!({"input_id": "second", "text": "\n"});
    connection.send("run.send_input", Some(&run), second).await;
    connection.output(&mut stored, &run, "line 3000 é\r\n").await;
    connection.send("run.send_input", Some(&run), json!({"input_id": "third", "text": "\n"})).await;
    let exit = connection.exited(&mut stored, &run).await;
    assert_eq!(exit["data"]["exit_code"], 3);
    stored.assert_complete(&run);
    let expected: String = (1..=LINES).map(|i| format!("line {i} é\r\n")).collect();
    let text = stored.text(&run);
    assert!(text == expected || text.ends_with(&expected), "{} bytes of {}", text.len(), expected.len());
    let unique = stored.of(&run).len();
    assert!(stored.frames <= unique + 4, "{} frames for {unique} events", stored.frames);
}

#[tokio::test]
async fn a_hub_that_acknowledges_nothing_gets_a_limited_number_of_events() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    connection.is_acking = false;
    let run = connection.start(&mut stored, "stty -echo; while read line; do :; done").await;
    // Each request is two events of its run.
    for number in 0..520 {
        let data = json!({"request_id": format!("{number}")});
        connection.request(&mut stored, "rpc.runs.list", Some(&run), data).await;
    }
    while stored.of(&run).len() < 1_024 {
        connection.until(&mut stored, |message| message["seq"].is_i64()).await;
    }
    // A response is not an event: it still arrives, and no event before it.
    let before = stored.frames;
    let probe = json!({"request_id": "last probe"});
    connection.request(&mut stored, "rpc.runs.list", None, probe).await;
    assert_eq!(stored.frames, before, "the window is full");
    connection.send("run.ack", None, json!({"run_id": run, "last_seq": stored.last(&run)})).await;
    connection.until(&mut stored, |message| message["seq"] == 1_025).await;
}

/// A hub that was restored from an old backup does not have a run whose events it has acknowledged.
#[tokio::test]
async fn a_hub_that_has_lost_an_idle_run_gets_its_later_events_without_a_gap() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run =
        connection.start(&mut stored, "echo ready; until [ -e go ]; do sleep 0.1; done; echo later").await;
    connection.output(&mut stored, &run, "ready").await;
    // The response comes after the acknowledgements have taken effect.
    connection.request(&mut stored, "rpc.runs.list", None, json!({"request_id": "list"})).await;
    drop(connection);
    let mut restored = Stored::default();
    let (mut connection, hello) = hub.greeted(&restored).await;
    assert_eq!(hello["data"]["runs"][0]["run_id"], run.as_str(), "{hello}");
    sandbox.write("root/go", "");
    connection.exited(&mut restored, &run).await;
    let first = &restored.of(&run)[0];
    assert_eq!((&first["type"], &first["data"]["first_seq"]), (&json!("run.lost"), &json!(1)), "{first}");
    assert_eq!(restored.last(&run), *restored.runs[&run].keys().last().unwrap(), "no number is missing");
    assert!(restored.text(&run).contains("later"), "{:?}", restored.text(&run));
}

#[tokio::test]
async fn a_run_that_the_hub_rejects_does_not_hold_up_another_one() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    connection.is_acking = false;
    // More than may be sent without an acknowledgement.
    let rejected = connection.start(&mut stored, "yes | head -c 8000000").await;
    connection.output(&mut stored, &rejected, "y").await;
    let error = json!({"code": "not_your_run", "message": "the run belongs to another host"});
    connection.send("hub.error", Some(&rejected), error).await;
    let run = connection.start(&mut stored, "echo arrives").await;
    connection.output(&mut stored, &run, "arrives").await;
    assert!(stored.text(&rejected).len() < 8_000_000, "it is not sent to the end");
}

#[tokio::test]
async fn keys_are_typed_one_by_one_and_recorded_by_the_line() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection.start(&mut stored, "read line; echo got-$line; read end").await;
    for key in ["l", "s", " --token=abc", "\r"] {
        let data = json!({"text": key, "actor": "web", "user": "ann"});
        connection.send("run.send_stdin", Some(&run), data).await;
    }
    connection.output(&mut stored, &run, "got-ls").await;
    connection.send("run.send_input", Some(&run), json!({"input_id": "end", "text": "\n"})).await;
    connection.exited(&mut stored, &run).await;
    let inputs: Vec<_> = stored.of(&run).into_iter().filter(|event| event["type"] == "run.input").collect();
    let texts: Vec<_> = inputs.iter().map(|input| input["data"]["text_redacted"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), 2, "{inputs:?}");
    assert!(texts[0].starts_with("ls --token=[hidden]") && texts[1] == "\n", "{inputs:?}");
}

#[tokio::test]
async fn a_message_ends_with_return_where_the_program_reads_keys_and_with_a_newline_where_it_reads_lines() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    // Prints the bytes that it gets; a translation by the terminal would hide the difference.
    let print = "echo ready; dd bs=1 count=4 2>/dev/null | od -An -tx1";
    for (mode, typed, bytes) in [
        ("stty raw -echo", "a\nb\n", "61 0a 62 0d"),
        ("stty raw -echo", "ab\r\nx", "61 62 0d 0a"),
        ("stty -icrnl", "a\nb\n", "61 0a 62 0a"),
    ] {
        let run = connection.start(&mut stored, &format!("{mode}; {print} # {bytes}")).await;
        connection.output(&mut stored, &run, "ready").await;
        let id = format!("{mode} {bytes}");
        connection.send("run.send_input", Some(&run), json!({"input_id": id, "text": typed})).await;
        connection.exited(&mut stored, &run).await;
        assert!(stored.text(&run).contains(bytes), "{mode}: {:?}", stored.text(&run));
        let input = stored.of(&run).into_iter().find(|event| event["type"] == "run.input").unwrap();
        assert_eq!(input["data"]["text_redacted"], typed, "the event has the text of the sender");
    }
}

#[tokio::test]
async fn a_start_that_cannot_be_is_refused_with_its_reason() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let root = sandbox.root();
    let root = root.to_str().unwrap();
    let cases = [
        (
            json!({"cwd": format!("{root}/none"), "cmd": "true"}),
            format!("run cwd does not exist: {root}/none"),
        ),
        (json!({"cwd": "/", "cmd": "true"}), "/ is outside the allowed roots".to_owned()),
        (json!({"cmd": "", "tool": "no-such-tool"}), "unsupported tool no-such-tool".to_owned()),
    ];
    for (number, (mut data, error)) in cases.into_iter().enumerate() {
        data["request_id"] = json!(format!("{number}"));
        let response = connection.request(&mut stored, "rpc.run.start", None, data).await;
        let found = response["error"].as_str().unwrap();
        assert!(response["ok"] == false && found.contains(&error), "{response}");
    }
    let unknown = connection.request(&mut stored, "rpc.no.such", None, json!({"request_id": "x"})).await;
    assert_eq!(unknown["error"], "unknown rpc type");
    assert!(stored.runs.is_empty());
    let journals = std::fs::read_dir(sandbox.path("home/state/rexd/runs")).unwrap().count();
    assert_eq!(journals, 0, "a run that was never started leaves nothing");
}
