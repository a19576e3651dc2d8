//! Approvals of what commands of documents do, what a command sees of the environment, the sandbox, and a required audit.

use std::time::Instant;

use serde_json::{Value, json};
use testkit::carrier::Carrier;
use testkit::client::Client;
use testkit::sandbox::Sandbox;
use testkit::serve::{Addresses, CarrierKind};

use crate::operator::beside;
use crate::queue::topic_status;
use crate::support::{PATIENCE, REXD, Served, spawn, start};

/// A client of REXD that answers questions.
struct Approver {
    client: Client<Box<dyn Carrier + Send>>,
    session: Value,
}

impl Approver {
    fn new(served: &Served, addresses: &Addresses) -> Approver {
        let mut client = Client::new(addresses.connect(CarrierKind::Unix).unwrap(), served.log.clone());
        let session = json!(client.open_as("approver"));
        Approver { client, session }
    }

    /// The next question.
    fn question(&mut self) -> Value {
        let event = self.client.take("a question", |message| message["method"] == "approval.requested");
        event["params"].clone()
    }

    fn answer(&mut self, question: &Value, decision: &str) {
        let id = &question["approval_id"];
        let answer = json!({ "session_id": self.session, "approval_id": id, "decision": decision });
        self.client.call("approval.answer", answer);
    }
}

#[test]
fn a_change_of_variables_that_waits_for_an_approval_holds_up_its_own_home_only() {
    let sandbox = Sandbox::with_config(
        "[stringd]\nqueue_wait_ms = 5000\ncommand_timeout_ms = 60000\n\n[[policy.rules]]\nname = \"stores\"\naction = \"ask\"\npaths = [\"asked/config.json\"]\naccess = \"write\"\n",
    );
    let (served, addresses) = beside(&sandbox);
    let mut approver = Approver::new(&served, &addresses);
    let mut asks = served.user(&sandbox.path("root/asked"));
    asks.begin("file:a", "/set $X = 1");
    let question = approver.question();
    let mut other = served.client_of("v");
    let (status, _) = other.json("POST", "/users", &json!({ "id": "v", "home": sandbox.path("root/free") }));
    assert_eq!(status, 200);
    assert_eq!(other.exec("file:a", "/set $Y = 2").body(), "$Y = \"2\" (global)");
    let mut waits = served.client_of("u");
    waits.begin("file:b", "/set $Z = 3");
    topic_status(&served, "file:b", |item| item["executing"] == true);
    let mut behind = served.client_of("u");
    behind.begin("file:b", "/info");
    topic_status(&served, "file:b", |item| item["queue_length"] == 1);
    // In another topic, a command that came later reaches the limit.
    let mut blocked = served.client_of("v");
    assert_eq!(blocked.exec("bash:b", "mkfifo gate").head["ok"], true);
    blocked.begin("bash:b", "cat gate");
    topic_status(&served, "bash:b", |item| item["executing"] == true);
    let mut late = served.client_of("v");
    late.begin("bash:b", "true");
    assert_eq!(late.answer().0.status, 504);
    approver.answer(&question, "approve");
    assert_eq!(asks.reply().head["ok"], true);
    let question = approver.question();
    approver.answer(&question, "approve");
    assert_eq!(waits.reply().head["ok"], true);
    assert_eq!(behind.reply().head["ok"], true, "its wait did not count");
    let stored: Value = serde_json::from_str(&sandbox.read("root/asked/config.json")).unwrap();
    assert_eq!(stored["env"], json!({ "X": "1", "Z": "3" }));
}

#[test]
fn files_packages_and_requests_of_documents_wait_for_approvals() {
    let sandbox = Sandbox::with_config(
        "[[policy.rules]]\nname = \"kept\"\naction = \"ask\"\npaths = [\"kept/a.md\", \"packages/**\"]\naccess = \"write\"\n\n[[policy.rules]]\nname = \"calls\"\naction = \"ask\"\nargv = [\"http-request\", \"*\"]\n",
    );
    let (served, addresses) = beside(&sandbox);
    let mut approver = Approver::new(&served, &addresses);
    let mut client = served.user(&sandbox.root());
    std::fs::create_dir(sandbox.path("root/kept")).unwrap();
    sandbox.write("root/kept/a.md", "old line\n");
    sandbox.write("root/app.md", "---\nname: app\ntype: app\n---\n# App\n");
    let web = crate::web::serve(vec![("/x".to_owned(), crate::web::response("text/plain", "reply"))]);
    sandbox.write("root/call.md", format!("# Call\n```act.x\nGET http://{web}/x\n```\n"));
    client.begin("file:a", "/write kept/a.md\nnew line");
    let question = approver.question();
    let shown = question.to_string();
    assert!(shown.contains("old line") && shown.contains("new line"), "the difference is shown: {shown}");
    approver.answer(&question, "deny");
    let denied = client.reply();
    assert_eq!(denied.code(), "POLICY_DENIED", "{denied:?}");
    assert_eq!(sandbox.read("root/kept/a.md"), "old line\n");
    client.begin("file:a", "/install app.md");
    let question = approver.question();
    approver.answer(&question, "deny");
    assert_eq!(client.reply().head["ok"], false);
    assert!(!sandbox.path("root/packages").exists());
    assert_eq!(client.exec("file:a", "/open call.md").head["ok"], true);
    for (decision, ok) in [("deny", false), ("approve", true)] {
        client.begin("file:a", "/act.x --");
        let question = approver.question();
        assert!(question.to_string().contains("http-request"), "{question}");
        approver.answer(&question, decision);
        let reply = client.reply();
        assert_eq!(reply.head["ok"], ok, "{reply:?}");
        assert!(ok || reply.code() == "POLICY_DENIED", "{reply:?}");
    }
}

const SECRETS: &str = "---\nrequires: [HIDDEN_TOKEN]\n---\n# Secrets\n```act.echo\nCLI echo \"[$HIDDEN_TOKEN]\" $SHOWN\n```\n```act.call\nGET http://127.0.0.1:9/ -H \"Authorization: $HIDDEN_TOKEN\"\n```\n";

#[test]
fn a_filtered_variable_does_not_exist_for_templates_commands_and_shells() {
    let sandbox = Sandbox::new();
    sandbox.write("root/s.md", SECRETS);
    let mut command = sandbox.command(REXD);
    command.args(["stringd", "0", "--config"]).arg(sandbox.config());
    command.env("HIDDEN_TOKEN", "the-secret").env("SHOWN", "shown");
    let served = spawn(command, "stringd listening on http://");
    let mut client = served.user(&sandbox.root());
    let opened = client.exec("file:a", "/open s.md");
    assert!(opened.content.contains("Missing required environment variable(s): $HIDDEN_TOKEN"), "{opened:?}");
    assert_eq!(client.exec("file:a", "/act.echo --").body(), "[] shown");
    let call = client.exec("file:a", "/act.call --");
    assert_eq!(call.code(), "INVALID_PAYLOAD", "{call:?}");
    assert!(call.content.contains("Unresolved environment variable(s):\n  $HIDDEN_TOKEN"), "{call:?}");
    for (topic, text) in
        [("file:a", "/exec echo \"[$HIDDEN_TOKEN]\""), ("bash:a", "echo \"[$HIDDEN_TOKEN]\"")]
    {
        let reply = client.exec(topic, text);
        assert!(reply.content.ends_with("\n[]"), "{reply:?}");
    }
}

#[test]
fn the_sandbox_of_the_operator_holds_for_every_program_and_for_pages() {
    let sandbox = Sandbox::with_config("[sandbox]\nprofile = \"workspace-write\"\n");
    let (inside, outside) = (sandbox.path("root/made"), sandbox.outside().join("made"));
    let action =
        |id: &str, path: &std::path::Path| format!("```act.{id}\nCLI echo x > {}\n```\n", path.display());
    let actions = action("in", &inside) + &action("out", &outside);
    sandbox.write("root/p.md", format!("# P\n{actions}"));
    std::fs::create_dir(sandbox.path("root/tools")).unwrap();
    sandbox.write("root/tools/t.md", format!("---\nname: t\n---\n{actions}"));
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    assert_eq!(client.exec("file:a", "/open p.md").head["ok"], true);
    for (id, path) in [("in", &inside), ("out", &outside)] {
        let write = format!("echo x > {}", path.display());
        for (topic, command) in [
            ("file:a", format!("/exec {write}")),
            ("file:a", format!("/act.{id} --")),
            ("file:a", format!("/tool:t.{id}")),
            ("bash:a", write),
        ] {
            let reply = client.exec(topic, &command);
            assert_eq!(reply.head["ok"], id == "in", "{command}: {reply:?}");
            assert_eq!(std::fs::remove_file(path).is_ok(), id == "in", "{command}");
        }
    }
    let web = crate::web::serve(vec![("/x".to_owned(), crate::web::response("text/plain", "reply"))]);
    let page = client.exec("file:a", &format!("/open http://{web}/x"));
    assert_eq!(page.code(), "LOAD_ERROR", "{page:?}");
    assert!(page.content.contains("the operator's sandbox profile has no network"), "{page:?}");
}

#[test]
fn a_required_audit_that_cannot_be_written_refuses_every_request_but_health() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    sandbox.gains("audit.log", "users.register", Instant::now() + PATIENCE);
    std::fs::rename(sandbox.path("audit.log"), sandbox.path("moved.log")).unwrap();
    std::fs::create_dir(sandbox.path("audit.log")).unwrap();
    // Long enough that few requests fill the queue.
    let path = format!("/{}", "x".repeat(16_000));
    let refused = (0..10_000).find(|_| client.request("GET", &path, b"").0 == 503);
    assert!(refused.is_some(), "nothing is refused");
    client.begin("file:a", "/exec touch started");
    let (head, body) = client.answer();
    assert_eq!(head.status, 503, "{body}");
    assert!(!sandbox.path("root/started").exists());
    assert_eq!(client.get("/health")["ok"], true);
}
