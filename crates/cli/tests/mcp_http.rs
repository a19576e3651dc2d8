//! `rex mcp --http`: who is let in, and what each client has for itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use mcp::McpWorkspace;
use mcp::raw_http::{post, request};
use serde_json::{Value, json};
use testkit::tries::Tries;

fn hello() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } })
}

#[test]
fn without_the_token_nothing_is_answered() {
    let place = McpWorkspace::open();
    let server = place.serve_http(Some("a-token-of-ours"));
    let (status, head, _) = post(&server, &[], &hello());
    assert_eq!(status, 401);
    assert!(head.contains("www-authenticate: bearer"), "{head}");
    assert_eq!(post(&server, &[("Authorization", "Bearer a-token-of-theirs")], &hello()).0, 401);
    let (status, _, body) = post(&server, &[("Authorization", "Bearer a-token-of-ours")], &hello());
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"name\":\"rex\""), "{body}");
}

#[test]
fn pages_from_elsewhere_are_refused_even_with_the_token() {
    let place = McpWorkspace::open();
    let server = place.serve_http(Some("a-token-of-ours"));
    let token = ("Authorization", "Bearer a-token-of-ours");
    assert_eq!(post(&server, &[token, ("Origin", "http://evil.example")], &hello()).0, 403);
    assert_eq!(post(&server, &[token, ("Host", "evil.example")], &hello()).0, 403);
    assert_eq!(post(&server, &[token, ("Origin", "http://localhost:3000")], &hello()).0, 200);
}

#[test]
fn a_token_is_made_for_its_owner_alone_where_none_is_given() {
    let place = McpWorkspace::open();
    let mut server = place.serve_http(None);
    let file = place.sandbox.path("home/state/rex/mcp-token");
    let token = std::fs::read_to_string(&file).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let bearer = format!("Bearer {}", token.trim());
    assert_eq!(post(&server, &[("Authorization", &bearer)], &hello()).0, 200);
    server.child.kill().unwrap();
    let mut errors = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(errors.contains(file.to_str().unwrap()), "{errors}");
    assert!(!errors.contains(token.trim()), "the token itself is not printed");
}

#[test]
fn clients_do_not_see_each_others_processes_end() {
    let place = McpWorkspace::open();
    let server = place.serve_http(Some("a-token-of-ours"));
    let ask = |session: Option<&str>, body: &Value| {
        let mut headers =
            vec![("Authorization", "Bearer a-token-of-ours"), ("MCP-Protocol-Version", "2025-11-25")];
        headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
        post(&server, &headers, body)
    };
    let open = || {
        let (_, head, _) = ask(None, &hello());
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
        ask(Some(&session), &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        session
    };
    let call = |session: &str, tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
        let (status, _, body) = ask(Some(session), &body);
        assert_eq!(status, 200, "{body}");
        let data =
            body.lines().filter_map(|line| line.strip_prefix("data:")).find(|data| data.contains("\"id\":2"));
        serde_json::from_str::<Value>(data.unwrap_or_else(|| panic!("{body}"))).unwrap()["result"].clone()
    };
    let (one, two) = (open(), open());
    assert_ne!(one, two);
    let started = call(&one, "bash", json!({ "command": "echo mine; sleep 1000", "background": true }));
    let id = started["structuredContent"]["process_id"].as_str().unwrap();
    let seen = call(&two, "bash_output", json!({ "process_id": id }));
    assert_eq!(seen["isError"], true, "{seen}");
    let seen = call(&one, "bash_output", json!({ "process_id": id, "cursor": 0, "until": "mine" }));
    assert_eq!(seen["structuredContent"]["output"], "mine\n", "{seen}");
}

#[test]
fn a_session_belongs_to_the_token_that_opened_it() {
    let place = McpWorkspace::open();
    let server = place.serve_http(Some("a-token-of-ours,a-token-of-theirs"));
    let ours = ("Authorization", "Bearer a-token-of-ours");
    let (_, head, _) = post(&server, &[ours], &hello());
    let id = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
    let call = |token| {
        let headers = [token, ("Mcp-Session-Id", id.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
        let params = json!({ "name": "bash", "arguments": { "command": "echo hello" } });
        post(
            &server,
            &headers,
            &json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }),
        )
        .2
    };
    let refused = call(("Authorization", "Bearer a-token-of-theirs"));
    assert!(refused.contains("the session belongs to another token"), "{refused}");
    assert!(call(ours).contains("hello"));
}

/// The Python SDK warns about any other status than 200 and 204.
#[test]
fn a_client_that_ends_its_session_gets_204_and_its_processes_end() {
    let place = McpWorkspace::open();
    let server = place.serve_http(Some("a-token-of-ours"));
    let token = ("Authorization", "Bearer a-token-of-ours");
    let (_, head, _) = post(&server, &[token], &hello());
    let id = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
    let headers = [token, ("Mcp-Session-Id", id.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    post(&server, &headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let arguments =
        json!({ "command": "echo $$ > pid.new; mv pid.new pid; exec sleep 1000", "background": true });
    let params = json!({ "name": "bash", "arguments": arguments });
    post(&server, &headers, &json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }));
    let mut tries = Tries::within(Duration::from_secs(60), "the process");
    while !place.sandbox.path("root/pid").exists() {
        tries.again();
    }
    let process = format!("/proc/{}", place.sandbox.read("root/pid").trim());
    assert!(Path::new(&process).exists());
    assert_eq!(request(&server, "DELETE", &headers, "").0, 204);
    assert_eq!(request(&server, "DELETE", &headers, "").0, 404);
    let ping = json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" });
    assert_eq!(post(&server, &headers, &ping).0, 404);
    assert_eq!(request(&server, "DELETE", &[token], "").0, 400);
    let mut tries = Tries::within(Duration::from_secs(60), "the end of the process");
    while Path::new(&process).exists() {
        tries.again();
    }
}
