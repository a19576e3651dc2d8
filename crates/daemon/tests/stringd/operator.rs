//! The operator's configuration: roots, rules, approvals, and what other faces see of the processes.

use std::time::Instant;

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::http::Http;
use testkit::proc::watch;
use testkit::sandbox::Sandbox;
use testkit::serve::{Addresses, CarrierKind, TOKEN};

use crate::support::{PATIENCE, REXD, Served, spawn, start};

#[test]
fn rules_and_roots_hold_for_shells() {
    let rule = "[[policy.rules]]\nname = \"no-rm\"\naction = \"deny\"\nargv = [\"rm\", \"*\"]\nreason = \"nothing is removed\"\n";
    let sandbox = Sandbox::with_config(rule);
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    sandbox.write("root/kept", "x");
    let denied = client.exec("bash:a", "rm -f kept");
    assert_eq!(denied.code(), "POLICY_DENIED");
    assert!(denied.content.contains("no-rm"), "{denied:?}");
    assert_eq!(sandbox.read("root/kept"), "x");
    assert_eq!(client.exec("bash:a", "cat kept").head["ok"], true);
    let mut outside = served.user(&sandbox.outside());
    let refused = outside.exec("bash:a", "true");
    assert_eq!(refused.code(), "FILE_NOT_ALLOWED", "{refused:?}");
}

#[test]
fn rules_timeouts_and_roots_hold_for_commands_of_documents() {
    let rule = "[stringd]\ncommand_timeout_ms = 5000\n\n[[policy.rules]]\nname = \"no-rm\"\naction = \"deny\"\nargv = [\"rm\", \"*\"]\n";
    let sandbox = Sandbox::with_config(rule);
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    let denied = client.exec("file:a", "/exec rm -f kept");
    assert_eq!(denied.code(), "POLICY_DENIED", "{denied:?}");
    assert!(denied.content.contains("no-rm"), "{denied:?}");
    let late = client.exec("file:a", "/exec sleep 1000 & echo $! > pid; wait");
    assert_eq!(late.code(), "EXIT_124", "{late:?}");
    let pid = sandbox.read("root/pid").trim().parse().unwrap();
    assert!(watch(pid).ends_before(Instant::now() + PATIENCE), "the whole tree ends");
    let secret = sandbox.outside().join("secret.txt");
    let outside = client.exec("file:a", &format!("/open {}", secret.display()));
    assert_eq!(outside.code(), "FILE_NOT_ALLOWED", "{outside:?}");
}

#[test]
fn a_workspace_confines_commands_to_the_home_also_through_links() {
    let sandbox = Sandbox::with_config("[stringd]\naccess = \"workspace\"\n");
    let served = start(&sandbox);
    let (inside, other) =
        (sandbox.write("root/home/in.md", "# In\n"), sandbox.write("root/other.md", "# Other\n"));
    sandbox.link("root/home/link.md", &other);
    let mut client = served.user(&sandbox.path("root/home"));
    assert_eq!(client.exec("file:a", &format!("/open {}", inside.display())).head["ok"], true);
    for path in [other.to_str().unwrap(), "../other.md", "link.md"] {
        let refused = client.exec("file:b", &format!("/open {path}"));
        assert_eq!(refused.code(), "FILE_NOT_ALLOWED", "{path}: {refused:?}");
    }
}

/// A daemon with every face, and the addresses of REXD.
pub(crate) fn beside(sandbox: &Sandbox) -> (Served, Addresses) {
    let mut command = sandbox.command(REXD);
    command.arg("serve").arg("--config").arg(sandbox.config());
    command.args(["--http", "127.0.0.1:0", "--stringd", "0", "--unix"]).arg(sandbox.path("rexd.sock"));
    command.env("REXD_TOKEN", TOKEN);
    let served = spawn(command, "listening stringd http://");
    let http = served.printed.iter().find_map(|line| line.strip_prefix("listening rexd http://")).unwrap();
    let (unix, token) = (sandbox.path("rexd.sock"), Some(TOKEN.to_owned()));
    let addresses = Addresses { unix, http: http.parse().unwrap(), token };
    (served, addresses)
}

#[test]
fn a_command_waits_for_an_approval_and_the_queue_does_not_time_out_meanwhile() {
    let sandbox = Sandbox::with_config(
        "[stringd]\nqueue_wait_ms = 5000\ncommand_timeout_ms = 60000\n\n[[policy.rules]]\nname = \"touching\"\naction = \"ask\"\nargv = [\"touch\", \"*\"]\n",
    );
    let (served, addresses) = beside(&sandbox);
    let mut approver = Client::new(addresses.connect(CarrierKind::Unix).unwrap(), served.log.clone());
    let session = approver.open_as("approver");
    let mut asks = served.user(&sandbox.root());
    asks.begin("bash:a", "touch made");
    let event = approver.take("a question", |message| message["method"] == "approval.requested");
    let mut waits = served.client_of("u");
    waits.begin("bash:a", "echo behind");
    // In another topic, a command that came later reaches the limit.
    let mut blocked = served.client_of("u");
    assert_eq!(blocked.exec("bash:b", "mkfifo gate").head["ok"], true);
    blocked.begin("bash:b", "cat gate");
    assert_eq!(blocked.http.head().unwrap().status, 200, "its stream has begun, so it runs");
    let mut late = served.client_of("u");
    late.begin("bash:b", "true");
    assert_eq!(late.answer().0.status, 504);
    let id = &event["params"]["approval_id"];
    approver
        .call("approval.answer", json!({ "session_id": session, "approval_id": id, "decision": "approve" }));
    assert_eq!(asks.reply().head["ok"], true);
    assert_eq!(waits.reply().head["ok"], true, "its wait did not count");
    assert!(sandbox.path("root/made").exists());
    asks.begin("bash:a", "touch denied");
    let event = approver.take("a question", |message| message["method"] == "approval.requested");
    let id = &event["params"]["approval_id"];
    approver.call("approval.answer", json!({ "session_id": session, "approval_id": id, "decision": "deny" }));
    let denied = asks.reply();
    assert_eq!(denied.code(), "POLICY_DENIED");
    assert!(denied.content.contains("touching"), "{denied:?}");
    assert!(!sandbox.path("root/denied").exists());
}

#[test]
fn other_faces_list_and_kill_a_shell_and_only_its_user_attaches() {
    let sandbox = Sandbox::new();
    let (served, addresses) = beside(&sandbox);
    let mut client = served.user(&sandbox.root());
    assert_eq!(client.exec("bash:a", "A=1").head["ok"], true);
    for (way, may_attach) in [(CarrierKind::WebSocket, false), (CarrierKind::Unix, true)] {
        let mut rexd = Client::new(addresses.connect(way).unwrap(), served.log.clone());
        let session = rexd.open();
        let listed: Value = rexd.call("exec.list", json!({ "session_id": session }));
        let shell = listed["processes"].as_array().unwrap().iter().find(|item| item["face"] == "stringd");
        let id = shell.unwrap()["process_id"].clone();
        let asked = rexd.request("exec.attach", json!({ "session_id": session, "process_id": id }));
        let attached = rexd.response(asked);
        assert_eq!(attached["error"].is_null(), may_attach, "{way:?}: {attached}");
        if may_attach {
            let killed: Value = rexd.call("exec.kill", json!({ "session_id": session, "process_id": id }));
            assert!(!killed["killed"].as_array().unwrap().is_empty(), "{killed}");
        }
    }
    let after = client.exec("bash:a", "echo \"new$A\"");
    assert!(after.body().ends_with("---\nnew"), "{after:?}");
    let shell: i32 = client.exec("bash:a", "echo $$").body().lines().last().unwrap().parse().unwrap();
    let (_, body) = client.request("POST", "/shutdown", b"");
    assert_eq!(body["ok"], true);
    assert!(watch(shell).ends_before(Instant::now() + PATIENCE), "the shells of the face end");
    for way in [CarrierKind::Unix, CarrierKind::WebSocket] {
        let mut rexd = Client::new(addresses.connect(way).unwrap(), served.log.clone());
        rexd.open();
    }
}

#[test]
fn every_request_is_counted_by_its_route() {
    let sandbox = Sandbox::new();
    let (served, addresses) = beside(&sandbox);
    let mut client = served.user(&sandbox.root());
    assert_eq!(client.exec("bash:a", "true").head["ok"], true);
    assert_eq!(client.exec("bash:a", "false").head["ok"], false);
    assert_eq!(client.request("GET", "/nope", b"").0, 404);
    assert_eq!(client.request("DELETE", "/sessions/u/bash:a", b"").0, 200);
    let bearer = [format!("Authorization: Bearer {TOKEN}")];
    let mut http = Http::connect(addresses.http).unwrap();
    let metrics = http.ask("/metrics", &bearer, None).unwrap().body;
    for (method, outcome, count) in [
        ("users.register", "ok", 1),
        ("exec", "ok", 1),
        ("exec", "error", 1),
        ("shell.input", "ok", 2),
        ("sessions.delete", "ok", 1),
        ("other", "error", 1),
    ] {
        let row = format!(
            "rexd_requests_total{{face=\"stringd\",method=\"{method}\",outcome=\"{outcome}\"}} {count}\n"
        );
        assert!(metrics.contains(&row), "{row}{metrics}");
    }
    assert!(metrics.contains("rexd_processes_started_total 1\n"), "{metrics}");
}
