//! `rex mcp` inside a run: its commands and writes ask through the host, and are events of the run.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod host_support;

use host_support::{HostProcess, ScriptedHub, Stored};
use serde_json::{Value, json};
use testkit::programs::program;
use testkit::sandbox::Sandbox;

#[tokio::test]
async fn tools_of_an_agent_in_a_run_are_approved_through_the_host() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    sandbox.write("root/old.txt", "a needle in a text\n");
    let call = |id: u32, tool: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        call(2, "bash", json!({"command": "echo out-$((40+2)); exit 3"})),
        call(3, "write", json!({"path": "new.txt", "content": "hello\n"})),
        call(4, "edit", json!({"path": "old.txt", "old_string": "needle", "new_string": "pin"})),
        call(5, "write", json!({"path": "/etc/elsewhere", "content": ""})),
        call(6, "kill", json!({"process_id": "p_000000000000"})),
    ];
    let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
    sandbox.write("root/messages", text);
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let cmd = format!("stty -echo; {{ cat messages; cat; }} | {} mcp > answers; echo over", program("rex"));
    let run = connection.start(&mut stored, &cmd).await;
    for _operation in 0..3 {
        let is_question = |message: &Value| message["type"] == "run.permission_requested";
        let question = connection.until(&mut stored, is_question).await["data"].clone();
        let decision = if question["op_tool"] == "bash" { "approve" } else { "deny" };
        let is_edit = question["op_args"]["path"] == "old.txt";
        let decision = if is_edit { "approve" } else { decision };
        let data = json!({"request_id": question["request_id"], "user": "ann"});
        connection.send(&format!("run.permission.{decision}"), Some(&run), data).await;
    }
    while stored.kinds(&run).iter().filter(|kind| *kind == "tool.result").count() < 4 {
        connection.until(&mut stored, |message| message["type"] == "tool.result").await;
    }
    let answers = || -> Vec<Value> {
        let lines = sandbox.read("root/answers");
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    for id in 2..=6 {
        let deadline = std::time::Instant::now() + host_support::PATIENCE;
        sandbox.gains("root/answers", &format!("\"id\":{id}"), deadline);
    }
    connection.send("run.send_stdin", Some(&run), json!({"text": "\u{4}"})).await;
    connection.exited(&mut stored, &run).await;
    let answer = |id: u32| {
        let found = answers().into_iter().find(|answer| answer["id"] == id).unwrap_or_default();
        (text_of(&found), found)
    };
    assert_eq!(answer(2).0, "[exit code 3]\nout-42\n", "{}", answer(2).1);
    assert_eq!(
        (answer(3).0, answer(3).1["result"]["isError"].clone()),
        ("the host refused: denied".to_owned(), json!(true))
    );
    assert!(answer(4).0.starts_with("wrote ") && answer(4).0.contains("old.txt"), "{}", answer(4).1);
    assert!(answer(5).0.contains("outside the run") && answer(6).0.contains("not available inside a run"));
    assert_eq!(sandbox.read("root/old.txt"), "a pin in a text\n");
    assert!(!sandbox.path("root/new.txt").exists());
    let tools: Vec<Value> =
        stored.of(&run).into_iter().filter(|event| event["type"] == "tool.call").collect();
    let mut tools: Vec<&str> = tools.iter().map(|call| call["data"]["tool"].as_str().unwrap()).collect();
    tools.sort_unstable();
    assert_eq!(tools, ["rpc.bash", "rpc.fs.read", "rpc.fs.write", "rpc.fs.write"]);
}

/// The text of a result. The first one says where the tools work if the instructions could not wait for the target.
fn text_of(answer: &Value) -> String {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    text.split_inclusive('\n').filter(|line| !line.starts_with("[target ")).collect()
}
