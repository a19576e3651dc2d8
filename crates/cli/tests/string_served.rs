//! stringd beside REXD over one engine: `rex` lists, kills and approves what String agents run, and the audit has it all.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{rex, run, text};
use testkit::proc::watch;
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use testkit::screen::Screen;
use testkit::tries::Tries;

/// The deadline of every wait; not reached unless a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "a-token-of-this-test";

/// `rexd serve` with REXD on a unix socket and over HTTP, and stringd.
struct Served {
    child: Child,
    sandbox: Sandbox,
    unix: String,
    http: String,
    port: String,
    home: String,
}

impl Served {
    fn start(config: &str) -> Served {
        let sandbox = Sandbox::with_config(config);
        let socket = sandbox.path("rexd.sock");
        let mut command = sandbox.command(program("rexd"));
        command.arg("serve").arg("--config").arg(sandbox.config()).env("REXD_TOKEN", TOKEN);
        command.args(["--http", "127.0.0.1:0", "--stringd", "0", "--unix"]).arg(&socket);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let (mut http, mut port) = (None, None);
        while http.is_none() || port.is_none() {
            let line = lines.next().expect("both listen");
            http = http.or(line.strip_prefix("listening rexd http://").map(|at| format!("http://{at}")));
            let stringd = line.strip_prefix("listening stringd http://127.0.0.1:");
            port = port.or(stringd.map(str::to_owned));
        }
        let (http, port) = (http.unwrap(), port.unwrap());
        let (unix, home) = (format!("unix:{}", socket.display()), sandbox.root().display().to_string());
        Served { child, sandbox, unix, http, port, home }
    }

    /// `rex string` with the home of the sandbox.
    fn string(&self, topic: &str, command: &str) -> Output {
        run(&self.sandbox, &self.string_arguments(topic, command))
    }

    fn string_arguments<'a>(&'a self, topic: &'a str, command: &'a str) -> Vec<&'a str> {
        vec!["string", "--port", &self.port, "--home", &self.home, "--json", topic, command]
    }

    /// `rex` on the unix socket; it must succeed.
    fn rex(&self, arguments: &[&str]) -> String {
        text(&self.sandbox, &[&["-t", &self.unix], arguments].concat())
    }

    /// The processes of stringd that `rex ps` lists.
    fn processes(&self) -> Vec<Value> {
        let listed: Value = serde_json::from_str(&self.rex(&["ps", "--json"])).unwrap();
        let of_stringd = |process: &&Value| process["face"] == "stringd" && process["status"] == "running";
        listed["processes"].as_array().unwrap().iter().filter(of_stringd).cloned().collect()
    }

    /// Waits for an audit record.
    fn audited(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut tries = Tries::within(PATIENCE, what);
        loop {
            let log = std::fs::read_to_string(self.sandbox.audit()).unwrap_or_default();
            // The last line may be incomplete.
            let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(record) = records.into_iter().find(|record| is_wanted(record)) {
                return record;
            }
            tries.again();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The daemon must not outlive a failed test.
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

fn reply(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn shells_and_actions_are_listed_audited_and_killed_with_proof() {
    // The action runs until it is killed, however slow this machine is.
    let served = Served::start("[stringd]\ncommand_timeout_ms = 600000\n");
    served
        .sandbox
        .write("root/page.md", "# Page\n```act.slow\nCLI echo $$ > action.pid; exec sleep 1000\n```\n");
    assert_eq!(reply(&served.string("bash:dev", "echo $$ > shell.pid; A=1"))["ok"], true);
    assert_eq!(reply(&served.string("file:main", "/open page.md"))["ok"], true);
    let action = rex(&served.sandbox, &served.string_arguments("file:main", "/act.slow --"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    served.sandbox.gains("root/action.pid", "\n", Instant::now() + PATIENCE);
    let pid = |name: &str| served.sandbox.read(name).trim().parse::<i32>().unwrap();
    let expected = [pid("root/shell.pid"), pid("root/action.pid")];
    let listed = served.processes();
    assert_eq!(listed.len(), 2, "{listed:?}");
    for pid in expected {
        let process = listed.iter().find(|process| process["pid"] == pid).expect("the process is listed");
        let id = process["process_id"].as_str().unwrap();
        let mut attach = rex(&served.sandbox, &["-t", &served.http, "attach", id]);
        let refused = attach.env("REX_TOKEN", TOKEN).output().unwrap();
        assert_eq!(refused.status.code(), Some(255), "attach over HTTP: {refused:?}");
        assert!(!watch(pid).has_ended());
        let killed = served.rex(&["kill", id]);
        assert!(killed.lines().any(|line| line.starts_with(&format!("killed {pid} "))), "{killed}");
        assert!(watch(pid).has_ended(), "the proof holds when `rex kill` returns");
        let end = served.audited("the end of the process", |record| {
            record["method"] == "process.exited" && record["params"]["process_id"] == id
        });
        assert_eq!((&end["face"], &end["client_name"]), (&json!("stringd"), &json!("default")), "{end}");
        assert!(end["signal"].is_number(), "{end}");
        served.audited("the kill", |record| {
            record["face"] == "rexd"
                && record["method"] == "exec.kill"
                && record["params"]["process_id"] == id
        });
    }
    let ended = reply(&action.wait_with_output().unwrap());
    assert!(ended["code"].as_str().unwrap().starts_with("EXIT_1"), "{ended}");
    let fresh = reply(&served.string("bash:dev", "echo \"[$A]\""));
    assert!(fresh["content"].as_str().unwrap().ends_with("[]"), "a new shell: {fresh}");
    for (session, method, name, value) in [
        ("default:bash:dev", "exec", "cmd", "echo $$ > shell.pid; A=1"),
        ("default:bash:dev", "shell.input", "command", "echo $$ > shell.pid; A=1"),
        ("default:file:main", "exec", "cmd", "/act.slow --"),
        ("default:file:main", "command.run", "command", "echo $$ > action.pid; exec sleep 1000"),
    ] {
        served.audited(method, |record| {
            record["session_id"] == session && record["method"] == method && record["params"][name] == value
        });
    }
    served.audited("the registration", |record| {
        record["method"] == "users.register" && record["params"]["user"] == "default"
    });
}

#[test]
fn a_rule_that_asks_is_answered_by_rex_approvals() {
    let ask = "[policy]\ndefault = \"allow\"\n[[policy.rules]]\nname = \"touching\"\naction = \"ask\"\nargv = [\"touch\", \"*\"]\n";
    let served = Served::start(ask);
    // Without a connected approver nothing could be asked.
    let watching = rex(&served.sandbox, &["-t", &served.unix, "approvals", "watch"]);
    let mut approver = Screen::start(&watching, 120, 40);
    approver.shows("waiting for approval requests");
    for (topic, command, decision, is_made) in
        [("bash:dev", "touch shell", "approve", true), ("file:main", "/exec touch exec", "deny", false)]
    {
        let asking = rex(&served.sandbox, &served.string_arguments(topic, command))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut tries = Tries::within(PATIENCE, "a pending approval");
        let id = loop {
            let listed: Value = serde_json::from_str(&served.rex(&["approvals", "list", "--json"])).unwrap();
            if let Some(pending) = listed["approvals"].as_array().and_then(|pending| pending.first()) {
                assert!(pending.to_string().contains("touch"), "{pending}");
                break pending["approval_id"].as_str().unwrap().to_owned();
            }
            tries.again();
        };
        served.rex(&["approvals", decision, &id]);
        let answered = reply(&asking.wait_with_output().unwrap());
        assert_eq!(answered["ok"], is_made, "{answered}");
        assert_eq!(answered["code"] == "POLICY_DENIED", !is_made, "{answered}");
        let name = command.rsplit(' ').next().unwrap();
        assert_eq!(served.sandbox.path(format!("root/{name}")).exists(), is_made);
        let record = served.audited("the decision", |record| record["approval_id"] == id.as_str());
        assert_eq!((&record["face"], &record["rule"]), (&json!("stringd"), &json!("touching")), "{record}");
    }
}
