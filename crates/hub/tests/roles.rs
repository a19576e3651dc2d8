//! Roles: what a viewer, an operator and an administrator may send and request, for every message type and every route.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use hub::auth::UserRole;
use hub::config::Limits;
use serde_json::json;
use support::Running;
use support::peers::{ScriptedHost, app};

const ROLES: [UserRole; 3] = [UserRole::Viewer, UserRole::Operator, UserRole::Admin];

/// Every message type that the hub forwards, and the least role for it.
const FORWARDED: &[(&str, UserRole)] = &[
    ("run.send_input", UserRole::Operator),
    ("run.send_stdin", UserRole::Operator),
    ("run.resize", UserRole::Operator),
    ("run.stop", UserRole::Operator),
    ("rpc.fs.read", UserRole::Viewer),
    ("rpc.fs.search", UserRole::Viewer),
    ("rpc.fs.list", UserRole::Viewer),
    ("rpc.fs.write", UserRole::Operator),
    ("rpc.bash", UserRole::Operator),
    ("rpc.git.status", UserRole::Viewer),
    ("rpc.git.diff", UserRole::Viewer),
    ("rpc.run.start", UserRole::Operator),
    ("rpc.run.stop", UserRole::Operator),
    ("rpc.run.screen", UserRole::Viewer),
    ("rpc.runs.list", UserRole::Viewer),
    ("rpc.host.info", UserRole::Viewer),
    ("rpc.host.doctor", UserRole::Viewer),
    ("rpc.host.capabilities", UserRole::Viewer),
    ("rpc.host.logs.tail", UserRole::Operator),
    ("rpc.approval.show", UserRole::Operator),
    ("rpc.something.new", UserRole::Operator),
];

#[test]
fn a_message_needs_its_role() {
    let hub = Running::start(Limits::default());
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.acked("r", 1);
    for role in ROLES {
        let mut app = app(&hub, &hub.client(role.word(), role));
        for (kind, least) in FORWARDED {
            let id = format!("{role} {kind}");
            let data = json!({ "request_id": id, "input_id": id, "host_id": "h", "text": "x", "cols": 80, "rows": 24 });
            app.send(&json!({ "type": kind, "run_id": "r", "data": data }));
            if role >= *least {
                let received = host.socket.receive();
                assert_eq!(
                    (&received["type"], &received["data"]["user"]),
                    (&json!(kind), &json!(role.word()))
                );
                continue;
            }
            // The host receives nothing: its next message is the next one that is permitted.
            let error =
                app.find(|message| matches!(message["type"].as_str(), Some("app.error" | "rpc.response")));
            let text = error["data"]["message"].as_str().or(error["data"]["error"].as_str()).unwrap();
            assert!(text.starts_with("forbidden: operator role required"), "{role} {kind}: {error}");
        }
    }
}

#[test]
fn only_an_operator_decides() {
    let hub = Running::start(Limits::default());
    let mut host = ScriptedHost::connect(&hub, "h");
    let asked = json!({ "request_id": "q", "reason": "permission", "op_tool": "bash", "approve_text": "" });
    host.event("r", 1, "run.permission_requested", asked);
    host.acked("r", 1);
    let (viewer, operator) = (hub.client("v", UserRole::Viewer), hub.client("o", UserRole::Operator));
    let mut watching = app(&hub, &viewer);
    for kind in ["run.permission.approve", "run.permission.deny"] {
        watching.send(&json!({ "type": kind, "run_id": "r", "data": { "request_id": "q" } }));
        assert_eq!(watching.next("app.error")["data"]["code"], "forbidden");
    }
    assert_eq!(hub.get_json("/approvals", &viewer)[0]["status"], "pending");
    let mut deciding = app(&hub, &operator);
    // The words of a decision cannot contradict the type of its message.
    let data = json!({ "request_id": "q", "decision": "approve" });
    deciding.send(&json!({ "type": "run.permission.deny", "run_id": "r", "data": data }));
    assert_eq!(deciding.next("app.error")["data"]["code"], "bad_message");
    deciding.send(&json!({ "type": "run.permission.deny", "run_id": "r", "data": { "request_id": "q" } }));
    assert_eq!(host.socket.next("run.permission.deny")["data"]["user"], "o");
}

/// Every route that needs a token, and the least role for it.
const ROUTES: &[(&str, &str, UserRole)] = &[
    ("GET", "/me", UserRole::Viewer),
    ("GET", "/runs", UserRole::Viewer),
    ("GET", "/sessions", UserRole::Viewer),
    ("GET", "/sessions/recent", UserRole::Viewer),
    ("GET", "/sessions/r", UserRole::Viewer),
    ("GET", "/runs/r", UserRole::Viewer),
    ("GET", "/runs/r/messages", UserRole::Viewer),
    ("GET", "/sessions/r/messages", UserRole::Viewer),
    ("GET", "/hosts", UserRole::Viewer),
    ("GET", "/approvals", UserRole::Viewer),
    ("POST", "/runs/r/input", UserRole::Operator),
    ("GET", "/approvals/r/q", UserRole::Operator),
    ("POST", "/approvals/r/q", UserRole::Operator),
    ("DELETE", "/hosts/none", UserRole::Admin),
    ("POST", "/join-codes", UserRole::Admin),
    ("GET", "/server/logs/tail", UserRole::Admin),
    ("GET", "/users", UserRole::Admin),
    ("POST", "/users", UserRole::Admin),
    ("DELETE", "/users/none", UserRole::Admin),
    ("POST", "/users/none/link", UserRole::Admin),
    ("GET", "/tokens", UserRole::Admin),
    ("POST", "/tokens", UserRole::Admin),
    ("DELETE", "/tokens/none", UserRole::Admin),
    ("GET", "/audit", UserRole::Admin),
];

#[test]
fn a_route_needs_its_role() {
    let hub = Running::start(Limits::default());
    for role in ROLES {
        let token = hub.client(role.word(), role);
        for (method, path, least) in ROUTES {
            // Valid for every route that reads a body.
            let name = format!("{}-{}", role.word(), path.len());
            let body = json!({
                "input_id": "i", "text": "x", "decision": "deny", "name": name, "role": "viewer", "kind": "client",
            });
            let body = (*method == "POST").then(|| body.to_string());
            let (status, text) = hub.request(method, path, &token, body.as_deref());
            match role >= *least {
                true => {
                    assert!(!matches!(status, 401 | 403 | 405), "{role} {method} {path}: {status} {text}")
                }
                false => assert_eq!(status, 403, "{role} {method} {path}: {text}"),
            }
            let (status, _) = hub.request(method, path, "wrong", body.as_deref());
            assert_eq!(status, 401, "{method} {path}");
        }
    }
}
