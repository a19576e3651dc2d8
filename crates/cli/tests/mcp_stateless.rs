//! MCP 2026-07-28 over HTTP, by hand: requests without a session, whose state belongs to their token.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use std::path::Path;
use std::time::Duration;

use mcp::raw_http::StatelessClient;
use mcp::{ASKS, Http, McpWorkspace};
use serde_json::{Value, json};
use testkit::tries::Tries;

const ONE: &str = "a-token-of-one-caller";
const TWO: &str = "a-token-of-another";

fn serve(place: &McpWorkspace) -> Http {
    place.serve_http(Some(&format!("{ONE},{TWO}")))
}

/// A server for which every command of more than 100 ms is a long one.
fn serve_impatiently(place: &McpWorkspace) -> Http {
    place.serve_http_with(Some(&format!("{ONE},{TWO}")), &[("REX_MCP_WAIT_MS", "100")])
}

fn forms() -> Value {
    json!({ "elicitation": { "form": {} } })
}

fn tasks() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

fn text(result: &Value) -> String {
    let parts = result["content"].as_array().unwrap_or_else(|| panic!("{result}"));
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

/// Waits until a file exists, and returns its text.
fn appears(place: &McpWorkspace, name: &str) -> String {
    let path = place.sandbox.path(format!("root/{name}"));
    let mut tries = Tries::within(Duration::from_secs(60), name);
    while !path.exists() {
        tries.again();
    }
    place.sandbox.read(&format!("root/{name}")).trim().to_owned()
}

fn ends(process: &str) {
    let mut tries = Tries::within(Duration::from_secs(60), "the end of the process");
    while Path::new(&format!("/proc/{process}")).exists() {
        tries.again();
    }
}

#[test]
fn a_server_is_discovered_and_used_without_initialize() {
    let place = McpWorkspace::open();
    let server = serve(&place);
    let client = StatelessClient::new(&server, ONE, json!({}));
    let found = client.result("server/discover", json!({}));
    let versions = found["supportedVersions"].as_array().unwrap();
    for version in ["2024-11-05", "2025-11-25", "2026-07-28"] {
        assert!(versions.contains(&json!(version)), "{found}");
    }
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "rex", "{found}");
    assert_eq!(found["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"], json!({}), "{found}");
    let tools = client.result("tools/list", json!({}));
    assert_eq!(tools["tools"].as_array().unwrap().len(), 12, "{tools}");
    assert!(text(&client.call("bash", json!({ "command": "echo hello" }))).contains("hello"));
    let short = StatelessClient::new(&server, ONE, tasks()).call("bash", json!({ "command": "exit 3" }));
    assert_eq!(short["structuredContent"]["exit_code"], 3, "only a long command is a task: {short}");
    place.sandbox.write("root/a.txt", "contents\n");
    let uri = format!("file://{}", place.sandbox.path("root/a.txt").display());
    assert_eq!(client.result("resources/read", json!({ "uri": uri }))["contents"][0]["text"], "contents\n");

    let later = StatelessClient { version: "2099-01-01", ..StatelessClient::new(&server, ONE, json!({})) };
    let (status, refused) = later.ask("tools/list", json!({}));
    assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32022)), "{refused}");
    assert!(refused["error"]["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert_eq!(StatelessClient::new(&server, "no-token-of-ours", json!({})).status("tools/list"), 401);
}

#[test]
fn processes_are_found_by_later_requests_of_the_same_caller_only() {
    let place = McpWorkspace::open();
    let server = serve(&place);
    let one = StatelessClient::new(&server, ONE, json!({}));
    // The capabilities of a request do not change whose processes it sees.
    let same = StatelessClient::new(&server, ONE, forms());
    let two = StatelessClient::new(&server, TWO, json!({}));
    // The first result describes the target.
    two.call("list", json!({}));
    for how in ["background", "detach"] {
        let command = format!("echo $$ > pid.new; mv pid.new pid-{how}; echo mine; exec cat");
        let started = one.call("bash", json!({ "command": command, how: true }));
        let id = &started["structuredContent"]["process_id"];
        let pid = appears(&place, &format!("pid-{how}"));
        for (tool, arguments) in [
            ("bash_output", json!({ "process_id": id })),
            ("bash_input", json!({ "process_id": id, "data": "theirs\n" })),
            ("grep", json!({ "pattern": "mine", "path": format!("process:{}", id.as_str().unwrap()) })),
            ("kill", json!({ "process_id": id })),
        ] {
            let id = id.as_str().unwrap();
            let unknown = arguments.to_string().replace(id, "p_000000000000");
            let refused = two.call(tool, arguments);
            assert!(
                refused["isError"] == true && text(&refused).contains("process not found\n"),
                "{refused}"
            );
            // The result does not differ from that for a process that does not exist.
            let unknown = two.call(tool, serde_json::from_str(&unknown).unwrap()).to_string();
            assert_eq!(refused.to_string(), unknown.replace("p_000000000000", id), "{how} {tool}");
        }
        if how == "background" {
            assert_eq!(
                same.call("bash_input", json!({ "process_id": id, "data": "hello\n" }))["isError"],
                false
            );
            let seen = same.call("bash_output", json!({ "process_id": id, "cursor": 0, "until": "hello" }));
            assert_eq!(seen["structuredContent"]["output"], "mine\nhello\n", "{seen}");
            let mine = json!({ "pattern": "mine", "path": format!("process:{}", id.as_str().unwrap()) });
            assert!(text(&same.call("grep", mine)).contains(":1: mine"));
        }
        let seen = one.call("bash_output", json!({ "process_id": id, "cursor": 0, "until": "mine" }));
        assert!(text(&seen).contains("mine"), "{seen}");
        assert_eq!(one.call("kill", json!({ "process_id": id }))["isError"], false);
        ends(&pid);
    }
}

/// The parameters of a call that is repeated with the state of a question.
fn repeated(command: &str, state: &Value, answer: Option<Value>) -> Value {
    let mut params = json!({ "name": "bash", "arguments": { "command": command }, "requestState": state });
    if let Some(answer) = answer {
        params["inputResponses"] = json!({ "approval": answer });
    }
    params
}

#[test]
fn an_answer_continues_the_call_that_asked_and_counts_once() {
    let place = McpWorkspace::with_config(ASKS);
    let server = serve(&place);
    let one = StatelessClient::new(&server, ONE, forms());
    let command = "touch marks; echo once >> runs";
    let asked = one.call("bash", json!({ "command": command }));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    assert!(question["params"]["message"].as_str().unwrap().contains(command), "{asked}");
    let state = &asked["requestState"];

    let accept = json!({ "action": "accept", "content": {} });
    let refused = |client: &StatelessClient<'_>, params: Value, word: &str| {
        let (_, response) = client.ask("tools/call", params);
        assert_eq!(response["error"]["code"], -32602, "{response}");
        assert!(response["error"]["message"].as_str().unwrap().contains(word), "{response}");
    };
    let forged = json!(state.as_str().unwrap().replace(|digit: char| digit.is_ascii_digit(), "a"));
    refused(&one, repeated(command, &forged, Some(accept.clone())), "no question waits");
    let two = StatelessClient::new(&server, TWO, forms());
    refused(&two, repeated(command, state, Some(accept.clone())), "no question waits");
    refused(&one, repeated("touch others", state, Some(accept.clone())), "another call");
    refused(&one, repeated(command, state, Some(json!("yes"))), "not an ElicitResult");
    let again = one.result("tools/call", repeated(command, state, None));
    assert_eq!(&again["inputRequests"]["approval"], question, "{again}");
    assert!(!place.sandbox.path("root/marks").exists());

    let ran = one.result("tools/call", repeated(command, state, Some(accept.clone())));
    assert_eq!(ran["structuredContent"]["exit_code"], 0, "{ran}");
    refused(&one, repeated(command, state, Some(accept)), "no question waits");
    assert_eq!(place.sandbox.read("root/runs"), "once\n");
}

#[test]
fn a_declined_question_runs_nothing_and_a_client_without_forms_is_not_asked() {
    let place = McpWorkspace::with_config(ASKS);
    let server = serve(&place);
    let asking = StatelessClient::new(&server, ONE, forms());
    let asked = asking.call("bash", json!({ "command": "touch marks" }));
    let decline = Some(json!({ "action": "decline" }));
    let denied = asking.result("tools/call", repeated("touch marks", &asked["requestState"], decline));
    assert!(denied["isError"] == true && text(&denied).contains("not approved: "), "{denied}");
    let silent = StatelessClient::new(&server, ONE, json!({}));
    let denied = silent.call("bash", json!({ "command": "touch marks" }));
    assert!(denied["isError"] == true && text(&denied).contains("no approver is connected"), "{denied}");
    assert!(!place.sandbox.path("root/marks").exists());
}

#[test]
fn an_answer_after_the_time_for_it_runs_nothing() {
    let place = McpWorkspace::with_config(&format!("{ASKS}\n[approvals]\ntimeout_ms = 20000\n"));
    let server = serve(&place);
    let one = StatelessClient::new(&server, ONE, forms());
    let asked = one.call("bash", json!({ "command": "touch marks" }));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let is_pending = || place.rex(&["approvals", "list", "--json"]).1.contains("touch marks");
    let mut tries = Tries::within(Duration::from_secs(60), "the approval request");
    while !is_pending() {
        tries.again();
    }
    let mut tries = Tries::within(Duration::from_secs(60), "the end of the approval request");
    while is_pending() {
        tries.again();
    }
    let accept = Some(json!({ "action": "accept", "content": {} }));
    let late = one.result("tools/call", repeated("touch marks", &asked["requestState"], accept));
    assert!(late["isError"] == true && text(&late).contains("approv"), "{late}");
    assert!(!place.sandbox.path("root/marks").exists());
}

#[test]
fn a_long_command_is_a_task_that_only_its_caller_sees() {
    let place = McpWorkspace::open();
    let server = serve_impatiently(&place);
    let one = StatelessClient::new(&server, ONE, tasks());
    assert!(place.command("mkfifo").arg("go").status().unwrap().success());
    let task = one.call("bash", json!({ "command": "echo begun; cat go" }));
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    let id = json!({ "taskId": task["taskId"] });
    assert_eq!(one.result("tasks/get", id.clone())["status"], "working");
    for (method, params) in [
        ("tasks/get", id.clone()),
        ("tasks/cancel", id.clone()),
        ("tasks/update", json!({ "taskId": task["taskId"], "inputResponses": {} })),
    ] {
        let (_, refused) = StatelessClient::new(&server, TWO, tasks()).ask(method, params);
        assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
    }
    let (_, refused) = StatelessClient::new(&server, ONE, json!({})).ask("tasks/get", id.clone());
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    std::fs::write(place.sandbox.path("root/go"), "ended\n").unwrap();
    let done = settled(&one, &id);
    assert_eq!(done["status"], "completed", "{done}");
    assert!(text(&done["result"]).contains("begun\nended"), "{done}");
    assert_eq!(done["result"]["structuredContent"]["exit_code"], 0, "{done}");
}

#[test]
fn a_cancelled_task_ends_its_command_and_a_client_without_tasks_gets_a_process() {
    let place = McpWorkspace::open();
    let server = serve_impatiently(&place);
    let one = StatelessClient::new(&server, ONE, tasks());
    let task = one.call("bash", json!({ "command": "echo $$ > pid.new; mv pid.new pid; sleep 1000" }));
    let id = json!({ "taskId": task["taskId"] });
    let pid = appears(&place, "pid");
    one.result("tasks/cancel", id.clone());
    assert_eq!(settled(&one, &id)["status"], "cancelled");
    ends(&pid);
    let other = StatelessClient::new(&server, ONE, json!({}));
    let running = other.call("bash", json!({ "command": "sleep 1000" }));
    assert_eq!(running["structuredContent"]["status"], "running", "{running}");
}

/// The last state of a task.
fn settled(client: &StatelessClient<'_>, id: &Value) -> Value {
    let mut tries = Tries::within(Duration::from_secs(60), "the end of the task");
    loop {
        let task = client.result("tasks/get", id.clone());
        if task["status"] != "working" {
            return task;
        }
        tries.again();
    }
}
