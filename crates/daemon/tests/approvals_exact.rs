//! The executed operation is exactly the approved one: in the same directory, once, completely, and only if no rule denies it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::os::unix::fs::symlink;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::client::AnyClient;
use testkit::daemon::Rexd;
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon};
use testkit::tries::Tries;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
const SOON: Duration = Duration::from_secs(60);

const ASKS: &str = r#"
[[policy.rules]]
name = "unread"
action = "deny"
paths = ["$ROOT/guarded/secret"]
access = "read"

[[policy.rules]]
name = "names"
action = "deny"
paths = ["**/.env"]

[[policy.rules]]
name = "touching"
action = "ask"
argv = ["touch", "*"]

[[policy.rules]]
name = "guarded"
action = "ask"
paths = ["$ROOT/guarded/**"]
access = "write"
"#;

struct Asking {
    sandbox: Sandbox,
    served: ServedDaemon,
    client: AnyClient,
    session: String,
}

impl Asking {
    fn new(config: &str) -> Asking {
        let sandbox = Sandbox::with_config(config);
        for name in ["root/guarded", "root/other"] {
            std::fs::create_dir_all(sandbox.path(name)).unwrap();
        }
        let served = ServedDaemon::start(REXD, &sandbox);
        let mut client = served.client(CarrierKind::Unix);
        let session = client.open();
        Asking { sandbox, served, client, session }
    }

    fn with_session(&self, mut params: Value) -> Value {
        params["session_id"] = json!(self.session);
        params
    }

    /// Sends a request that is asked about, and what its approver is told.
    fn ask(&mut self, method: &str, params: Value) -> (u64, Value) {
        let params = self.with_session(params);
        let request = self.client.request(method, params);
        let asked = self.client.take("a question", |message| message["method"] == "approval.requested");
        (request, asked["params"].clone())
    }

    fn approve(&mut self, (request, question): (u64, Value), scope: &str) -> Value {
        let answer = self.with_session(
            json!({ "approval_id": question["approval_id"], "decision": "approve", "scope": scope }),
        );
        self.client.call("approval.answer", answer);
        self.client.response(request)
    }

    /// The answer to a request that nobody is asked about.
    fn say(&mut self, method: &str, params: Value) -> Value {
        let params = self.with_session(params);
        self.client.ask(method, params).unwrap()
    }
}

#[test]
fn an_approved_operation_is_denied_if_the_policy_denies_it_by_then() {
    let mut asking = Asking::new(ASKS);
    let command = asking.ask("exec.start", json!({ "argv": ["touch", "made"] }));
    let write = asking.ask("fs.write", json!({ "path": "guarded/made", "content": "x" }));
    asking.sandbox.configure(&ASKS.replace("\"ask\"", "\"deny\""));
    asking.served.signal(Signal::HUP);
    let mut tries = Tries::within(SOON, "the policy is read again");
    while !asking.served.log.text().contains("reloaded the policy") {
        tries.again();
    }
    for (asked, rule) in [(command, "touching"), (write, "guarded")] {
        let refused = asking.approve(asked, "once");
        assert_eq!(refused["error"]["data"]["rule"], rule, "{refused}");
    }
    assert!(!asking.sandbox.path("root/made").exists() && !asking.sandbox.path("root/guarded/made").exists());
}

#[test]
fn an_approved_operation_runs_in_the_directory_of_the_request() {
    let mut asking = Asking::new(ASKS);
    std::fs::create_dir(asking.sandbox.path("root/other/guarded")).unwrap();
    let command = asking.ask("exec.start", json!({ "argv": ["touch", "made"] }));
    let write = asking.ask("fs.write", json!({ "path": "guarded/made", "content": "x" }));
    asking.say("session.set_cwd", json!({ "path": "other" }));
    assert_eq!(command.1["operation"]["cwd"], json!(asking.sandbox.root()));
    let started = asking.approve(command, "once");
    asking.say("exec.wait", json!({ "process_id": started["result"]["process_id"] }));
    asking.approve(write, "once");
    assert!(asking.sandbox.path("root/made").exists() && asking.sandbox.path("root/guarded/made").exists());
    assert_eq!(
        asking.say("session.info", json!({}))["result"]["cwd"],
        json!(asking.sandbox.path("root/other"))
    );
}

#[test]
fn a_repeated_key_needs_no_second_approval() {
    let mut asking = Asking::new(ASKS);
    asking.sandbox.write("root/guarded/note", "old\n");
    let edit =
        json!({ "path": "guarded/note", "old_string": "old", "new_string": "new", "idempotency_key": "k" });
    let asked = asking.ask("fs.edit", edit.clone());
    assert_eq!(asking.say("fs.edit", edit.clone())["error"]["code"], -32006);
    let done = asking.approve(asked, "once");
    assert_eq!(asking.say("fs.edit", edit)["result"], done["result"]);
}

#[test]
fn an_approval_by_the_default_applies_to_the_identical_operation_only() {
    let mut asking = Asking::new("[policy]\ndefault = \"ask\"\nfiles_default = \"ask\"\n");
    asking.sandbox.write("root/other/in/it", "x");
    let input = |text: &str| json!({ "argv": ["sh"], "stdin": text });
    let asked = asking.ask("exec.start", input("echo 1"));
    assert_eq!(asked.1["operation"]["stdin"], "echo 1");
    asking.approve(asked, "session");
    assert!(asking.say("exec.start", input("echo 1"))["result"].is_object(), "the same is not asked about");
    asking.ask("exec.start", input("echo 2"));
    let asked = asking.ask("fs.remove", json!({ "path": "other" }));
    assert_eq!(asked.1["operation"]["recursive"], false);
    asking.approve(asked, "session");
    let (_, whole) = asking.ask("fs.remove", json!({ "path": "other", "recursive": true }));
    assert!(whole["summary"].as_str().unwrap().ends_with("with all below"), "{whole}");
    // The difference lies beyond what is shown.
    let long = |end: &str| json!({ "path": "long", "content": "a\n".repeat(70_000) + end });
    let asked = asking.ask("fs.write", long("good"));
    asking.approve(asked, "session");
    std::fs::remove_file(asking.sandbox.path("root/long")).unwrap();
    asking.ask("fs.write", long("evil"));
}

#[test]
fn an_approval_request_does_not_show_files_that_the_requester_may_not_read() {
    let mut asking = Asking::new(ASKS);
    asking.sandbox.write("root/guarded/secret", "hidden\n");
    let refused = asking.say("fs.write", json!({ "path": "guarded/secret", "content": "x" }));
    assert_eq!(refused["error"]["data"]["rule"], "unread", "{refused}");
    assert!(!refused.to_string().contains("hidden"));
}

#[test]
fn a_name_is_guarded_also_if_it_is_a_link_and_a_file_is_no_tree() {
    let mut asking = Asking::new(ASKS);
    asking.sandbox.write("root/plain", "x\n");
    symlink(asking.sandbox.path("root/plain"), asking.sandbox.path("root/.env")).unwrap();
    for (method, params) in [
        ("fs.read", json!({ "path": ".env" })),
        ("fs.remove", json!({ "path": ".env" })),
        ("fs.rename", json!({ "from": ".env", "to": "env" })),
    ] {
        assert_eq!(asking.say(method, params)["error"]["data"]["rule"], "names", "{method}");
    }
    let moved = asking.say("fs.rename", json!({ "from": "plain", "to": "moved" }));
    assert_eq!(moved["result"]["ok"], true, "{moved}");
}

#[test]
fn an_approved_write_may_make_the_directories_on_its_way() {
    let mut asking = Asking::new(ASKS);
    let params = json!({ "path": "guarded/a/b/c", "content": "x", "mkdir_parents": true });
    let asked = asking.ask("fs.write", params);
    let written = asking.approve(asked, "once");
    assert_eq!(written["result"]["created"], true, "{written}");
    let refused =
        asking.say("fs.write", json!({ "path": "guarded/q", "content": "?", "encoding": "base64" }));
    assert_eq!(refused["error"]["code"], -32602, "nobody is asked about what cannot be done: {refused}");
}

#[test]
fn a_tree_is_decided_by_its_entries() {
    let sandbox =
        Sandbox::with_config("[[policy.rules]]\nname = \"env\"\naction = \"deny\"\npaths = [\"**/.env\"]\n");
    for name in ["plain/a/b", "plain/c", "holding/deep/.env", "holding/d"] {
        sandbox.write(&format!("root/{name}"), "x");
    }
    let mut client = Rexd::start(REXD, &sandbox);
    let session = client.open();
    let copy =
        |from: &str, to: &str| json!({ "session_id": session, "from": from, "to": to, "recursive": true });
    client.call("fs.copy", copy("plain", "copied"));
    client.call("fs.rename", json!({ "session_id": session, "from": "copied", "to": "moved" }));
    client.call("fs.remove", json!({ "session_id": session, "path": "moved", "recursive": true }));
    let remove = json!({ "session_id": session, "path": "holding", "recursive": true });
    let rename = json!({ "session_id": session, "from": "holding", "to": "elsewhere" });
    for (method, params) in
        [("fs.copy", copy("holding", "copied")), ("fs.rename", rename), ("fs.remove", remove)]
    {
        let refused = client.refused(method, params);
        assert_eq!((&refused["code"], &refused["data"]["rule"]), (&json!(-32001), &json!("env")), "{method}");
    }
    assert!(sandbox.path("root/holding/deep/.env").exists() && !sandbox.path("root/copied").exists());
}

#[test]
fn a_large_file_is_shown_by_its_size_and_its_change_is_detected() {
    let sandbox = Sandbox::with_config(
        "[[policy.rules]]\nname = \"big\"\naction = \"ask\"\npaths = [\"**/big\"]\naccess = \"write\"\n",
    );
    sandbox.write("root/big", vec![b'x'; 5 << 20]);
    let mut client = Rexd::start(REXD, &sandbox);
    let session = client.open();
    let params = json!({ "session_id": session, "path": "big", "content": "y", "mode": "append" });
    let request = client.request("fs.write", params);
    let question = client.take("a question", |message| message["method"] == "approval.requested");
    let question = &question["params"];
    let diff = question["operation"]["diff"].as_str().unwrap();
    assert!(diff.contains("5242880 bytes become 5242881 bytes"), "{diff}");
    sandbox.write("root/big", vec![b'z'; (5 << 20) + 1]);
    client.call(
        "approval.answer",
        json!({ "session_id": session, "approval_id": question["approval_id"], "decision": "approve" }),
    );
    assert_eq!(client.response(request)["error"]["data"]["reason"], "changed_since_shown");
}

#[test]
fn a_rule_on_a_directory_holds_for_where_it_really_is() {
    let config = "[[policy.rules]]\nname = \"there\"\naction = \"deny\"\nargv = [\"pwd\", \"*\"]\ncwd = [\"$ROOT/there/**\", \"$ROOT/there\"]\n";
    let sandbox = Sandbox::with_config(config);
    std::fs::create_dir_all(sandbox.path("root/there/deep")).unwrap();
    sandbox.link("root/door", sandbox.path("root/there"));
    let mut client = Rexd::start(REXD, &sandbox);
    let session = client.open();
    let start = |cwd: &str| json!({ "session_id": session, "argv": ["pwd"], "cwd": cwd });
    for cwd in ["there", "door", "door/deep"] {
        assert_eq!(client.refused("exec.start", start(cwd))["data"]["rule"], "there", "{cwd}");
    }
    client.run(start("."));
}
