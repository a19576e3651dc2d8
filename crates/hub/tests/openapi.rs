//! The description of the API matches the hub: every operation exists, with the access and the shapes that it names.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use hub::auth::UserRole;
use hub::config::Limits;
use serde_json::{Value, json};
use support::Running;
use support::peers::ScriptedHost;

/// The status and the body of a request.
fn ask(hub: &Running, method: &str, path: &str, token: Option<&str>) -> (u16, String) {
    let mut stream = TcpStream::connect(hub.address).unwrap();
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let (method, address) = (method.to_uppercase(), hub.address);
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{authorization}Content-Type: application/json\r\n\
         Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[test]
fn every_described_operation_exists_and_checks_access() {
    let hub = Running::start(Limits::default());
    let viewer = hub.client("v", UserRole::Viewer);
    let described = hub::openapi();
    let mut operations = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        let concrete: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        let concrete = concrete.join("/");
        for (method, operation) in methods.as_object().unwrap() {
            operations += 1;
            let (status, body) = ask(&hub, method, &concrete, None);
            let is_websocket = operation["responses"].get("101").is_some();
            match operation["x-role"].as_str() {
                Some(_) => assert_eq!(status, 401, "{method} {path}: {body}"),
                None if is_websocket => assert_eq!(status, 401, "{method} {path}: {body}"),
                None => assert!(
                    operation["responses"].get(status.to_string()).is_some(),
                    "{method} {path}: {status}"
                ),
            }
            if operation["x-role"].as_str().is_some_and(|role| role != "viewer") && !is_websocket {
                let (status, _) = ask(&hub, method, &concrete, Some(&viewer));
                assert!(matches!(status, 403 | 422), "{method} {path}: {status}");
            }
        }
    }
    assert!(operations > 30, "{operations}");
}

#[test]
fn rows_have_the_described_members() {
    let hub = Running::start(Limits::default());
    let (admin, described) = (hub.client("a", UserRole::Admin), hub::openapi());
    hub.user("ann", UserRole::Viewer, "password");
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.event("r", 2, "run.permission_requested", json!({ "request_id": "q", "approve_text": "y" }));
    host.acked("r", 2);
    hub.post("/join-codes", &admin, &json!({}));
    for (path, schema) in [
        ("/runs", "Run"),
        ("/runs/r/messages", "Message"),
        ("/hosts", "Host"),
        ("/approvals", "Approval"),
        ("/users", "User"),
        ("/tokens", "Token"),
        ("/audit", "AuditEntry"),
    ] {
        let rows = hub.get_json(path, &admin);
        let row = rows[0].as_object().unwrap_or_else(|| panic!("{path}: {rows}"));
        let schema = &described["components"]["schemas"][schema];
        for name in schema["required"].as_array().unwrap() {
            assert!(row.contains_key(name.as_str().unwrap()), "{path}: {name} is missing in {row:?}");
        }
        for (name, value) in row {
            let kinds = &schema["properties"][name]["type"];
            let kind = match value {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "integer",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            };
            let is_described =
                kinds == kind || kinds.as_array().is_some_and(|kinds| kinds.iter().any(|one| one == kind));
            assert!(is_described, "{path}: {name} is {kind}, described as {kinds}");
        }
    }
}
