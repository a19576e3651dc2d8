//! The agent loops among the examples, each against a model that plays a script.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use mcp::{McpWorkspace, REX};
use serde_json::{Value, json};

/// A model that answers with these, one after the other.
struct Model {
    child: Child,
    port: String,
}

impl Model {
    fn playing(place: &McpWorkspace, script: &[Value]) -> Model {
        let lines: String = script.iter().map(|answer| format!("{answer}\n")).collect();
        let script = place.sandbox.write("script.jsonl", lines);
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/scripted_model.py");
        let mut command = place.command("python3");
        command.arg(server).env("SCRIPT", script).env("ASKED", place.sandbox.path("asked.jsonl"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("python3 runs");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut port).expect("a port");
        Model { child, port: port.trim().to_owned() }
    }

    /// What it was asked, once it has played everything.
    fn asked(mut self, place: &McpWorkspace) -> Vec<Value> {
        assert!(self.child.wait().expect("it ends").success());
        let lines = place.sandbox.read("asked.jsonl");
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// Runs a loop; what it says at the end.
fn run(place: &McpWorkspace, name: &str, prefix: &str, base: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agent-loops").join(name);
    let mut command = place.command("python3");
    command.arg(script).arg("write a greeting").env("REX", REX);
    for (variable, value) in [("API_KEY", "a-key"), ("BASE_URL", base), ("MODEL", "scripted")] {
        command.env(format!("{prefix}_{variable}"), value);
    }
    let run = command.output().expect("python3 runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).expect("text")
}

#[test]
fn a_loop_with_chat_completions_writes_the_file() {
    let place = McpWorkspace::open();
    let call = |id: &str, name: &str, arguments: Value| {
        let function = json!({ "name": name, "arguments": arguments.to_string() });
        let call = json!({ "id": id, "type": "function", "function": function });
        json!({ "choices": [{ "message": { "role": "assistant", "content": null, "tool_calls": [call] } }] })
    };
    let model = Model::playing(
        &place,
        &[
            call("c1", "write", json!({ "path": "hello.txt", "content": "hello ✓\n" })),
            call("c2", "bash", json!({ "command": "cat hello.txt; exit 4" })),
            call("c3", "read", json!({ "path": "missing.txt" })),
            json!({ "choices": [{ "message": { "role": "assistant", "content": "done" } }] }),
        ],
    );
    let said = run(&place, "openai_loop.py", "OPENAI", &format!("http://127.0.0.1:{}/v1", model.port));
    assert_eq!(said, "done\n");
    assert_eq!(place.sandbox.read("root/hello.txt"), "hello ✓\n");
    let asked = model.asked(&place);
    assert_eq!(
        (asked[0]["path"].as_str(), asked[0]["key"].as_str()),
        (Some("/v1/chat/completions"), Some("Bearer a-key"))
    );
    assert_eq!(asked[0]["body"]["tools"].as_array().unwrap().len(), 12);
    let answer = |turn: usize| asked[turn]["body"]["messages"].as_array().unwrap().last().unwrap().clone();
    assert!(answer(1)["content"].as_str().unwrap().contains("created") && answer(1)["tool_call_id"] == "c1");
    let said = answer(2)["content"].as_str().unwrap().to_owned();
    assert!(said.starts_with("[exit code 4, ") && said.ends_with("]\nhello ✓\n"), "{said}");
    assert!(answer(3)["content"].as_str().unwrap().contains("no such file"));
}

#[test]
fn a_loop_with_the_messages_api_writes_the_file() {
    let place = McpWorkspace::open();
    let call = |id: &str, name: &str, input: Value| {
        let uses = json!({ "type": "tool_use", "id": id, "name": name, "input": input });
        json!({ "stop_reason": "tool_use", "content": [{ "type": "text", "text": "I will." }, uses] })
    };
    let model = Model::playing(
        &place,
        &[
            call("t1", "write", json!({ "path": "hello.txt", "content": "hello\n" })),
            call("t2", "edit", json!({ "path": "hello.txt", "old_string": "nothing", "new_string": "x" })),
            call(
                "t3",
                "edit",
                json!({ "path": "hello.txt", "old_string": "hello", "new_string": "hello there" }),
            ),
            json!({ "stop_reason": "end_turn", "content": [{ "type": "text", "text": "done" }] }),
        ],
    );
    let said = run(&place, "anthropic_loop.py", "ANTHROPIC", &format!("http://127.0.0.1:{}", model.port));
    assert_eq!(said, "done\n");
    assert_eq!(place.sandbox.read("root/hello.txt"), "hello there\n");
    let asked = model.asked(&place);
    assert_eq!((asked[0]["path"].as_str(), asked[0]["key"].as_str()), (Some("/v1/messages"), Some("a-key")));
    assert!(asked[0]["body"]["tools"][0]["input_schema"].is_object());
    let answer = |turn: usize| {
        asked[turn]["body"]["messages"].as_array().unwrap().last().unwrap()["content"][0].clone()
    };
    assert_eq!((answer(1)["tool_use_id"].as_str(), answer(1).get("is_error")), (Some("t1"), None));
    assert_eq!(
        (answer(2)["tool_use_id"].as_str(), answer(2)["is_error"].as_bool()),
        (Some("t2"), Some(true))
    );
    assert!(answer(3)["content"].as_str().unwrap().contains("replaced 1 occurrence in "));
}
