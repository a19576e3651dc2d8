//! Codex, Claude Code and OpenCode from npm as tools of a host: each asks a person on its own screen before it runs a
//! command, the host reports the question with the keys that answer it, and the approval makes the command run.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod host_support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon::core::terminal::TerminalModel;
use engine::process::TerminalSize;
use host_support::{HostProcess, HubConnection, ScriptedHub, Stored};
use serde_json::{Value, json};
use testkit::model::{Call, LAST_WORDS, Model};
use testkit::sandbox::Sandbox;
use testkit::tries::Tries;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long an agent has for each step. It starts in seconds; a machine that compiles beside it makes that minutes.
const PATIENCE: Duration = Duration::from_secs(300);
/// The command that the model calls. Its file shows that it ran.
const COMMAND: &str = "touch approved.txt";
/// The agents use much memory and processor time: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// An agent, and how its question looks.
struct Agent {
    tool: &'static str,
    call: Call,
    /// The question, of which other lines may be part too.
    question: &'static str,
    approve_text: &'static str,
    deny_text: &'static str,
    /// Writes the configuration and returns the command line, with the variables in front of it.
    prepare: fn(&Sandbox, &Model) -> String,
}

#[tokio::test]
async fn codex_runs_a_command_after_its_question_was_approved() {
    let arguments =
        json!({ "cmd": COMMAND, "sandbox_permissions": "require_escalated", "justification": "a test" });
    run_approved_command(Agent {
        tool: "codex",
        call: Call::new("call", "exec_command", arguments),
        question: "Would you like to run the following command?",
        approve_text: "y",
        deny_text: "\x1b",
        prepare: prepare_codex,
    })
    .await;
}

#[tokio::test]
async fn claude_code_runs_a_command_after_its_question_was_approved() {
    run_approved_command(Agent {
        tool: "claude",
        call: Call::new("call", "Bash", json!({ "command": COMMAND, "description": "Create a file" })),
        question: "Do you want to proceed?",
        approve_text: "1",
        deny_text: "4",
        prepare: prepare_claude,
    })
    .await;
}

#[tokio::test]
async fn opencode_runs_a_command_after_its_question_was_approved() {
    run_approved_command(Agent {
        tool: "opencode",
        call: Call::new("call", "bash", json!({ "command": COMMAND, "description": "Create a file" })),
        question: "Permission required",
        approve_text: "\r",
        deny_text: "\x1b[C\x1b[C\r",
        prepare: prepare_opencode,
    })
    .await;
}

fn prepare_codex(sandbox: &Sandbox, model: &Model) -> String {
    let config = format!(
        "model = 'scripted'\nmodel_provider = 'scripted'\napproval_policy = 'on-request'\nsandbox_mode = 'read-only'\n\
         check_for_update_on_startup = false\n\
         [model_providers.scripted]\nname = 'scripted'\nbase_url = '{}'\nwire_api = 'responses'\n\
         [projects.'{}']\ntrust_level = 'trusted'\n",
        model.url(),
        sandbox.root().display(),
    );
    sandbox.write("agent/config.toml", config);
    let (node, codex) = (package("node/bin/node"), package(".bin/codex"));
    format!("CODEX_HOME=\"$HOME\" exec '{}' '{}' 'create the file'", node.display(), codex.display())
}

fn prepare_claude(sandbox: &Sandbox, model: &Model) -> String {
    // A key is recognised by its last 20 characters.
    let key = "key-of-the-test-only";
    let config = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "projects": { sandbox.root().to_str().unwrap(): { "hasTrustDialogAccepted": true } },
        "customApiKeyResponses": { "approved": [key], "rejected": [] },
    });
    sandbox.write("agent/.claude.json", config.to_string());
    let url = model.url();
    let url = url.strip_suffix("/v1").unwrap();
    format!(
        "ANTHROPIC_API_KEY={key} ANTHROPIC_BASE_URL={url} CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
         DISABLE_AUTOUPDATER=1 exec '{}' --permission-mode default 'create the file'",
        package(".bin/claude").display()
    )
}

fn prepare_opencode(sandbox: &Sandbox, model: &Model) -> String {
    let config = json!({
        "autoupdate": false,
        "share": "disabled",
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "permission": { "bash": "ask" },
        "provider": { "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": { "baseURL": model.url(), "apiKey": "none" },
            "models": { "scripted": { "name": "scripted", "tool_call": true } },
        } },
    });
    sandbox.write("agent/config/opencode/opencode.json", config.to_string());
    // It installs the package for plugins unless this looks installed; that needs a network.
    let dependencies = json!({ "dependencies": { "@opencode-ai/plugin": "*" } });
    let lock = json!({ "lockfileVersion": 3, "packages": { "": dependencies } });
    sandbox.write("agent/config/opencode/package.json", dependencies.to_string());
    sandbox.write("agent/config/opencode/package-lock.json", lock.to_string());
    sandbox.write("agent/config/opencode/node_modules/.installed", "");
    format!(
        "XDG_CONFIG_HOME=\"$HOME/config\" OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 \
         exec '{}' --prompt 'create the file'",
        package(".bin/opencode").display()
    )
}

/// A file of the packages from npm; `make setup` puts them there.
fn package(path: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    let clients = target.join("mcp-clients");
    assert!(
        clients.join("node.done").exists(),
        "the agents are missing: run `make setup` (it calls crates/cli/tests/mcp/setup.sh)"
    );
    clients.join("npm/node_modules").join(path)
}

/// The program of a tool: the agent with its configuration, in a home of its own.
fn write_program(sandbox: &Sandbox, agent: &Agent, model: &Model) -> PathBuf {
    let home = sandbox.write("agent/.home", "");
    let command = (agent.prepare)(sandbox, model);
    let home = home.parent().unwrap().display().to_string();
    let script =
        format!("#!/bin/sh\nunset XDG_STATE_HOME XDG_CONFIG_HOME\nexport HOME='{home}'\n{command}\n");
    let program = sandbox.write("bin/agent", script);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

async fn run_approved_command(agent: Agent) {
    let _one = ONE_AT_A_TIME.lock().await;
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let model = Model::start(vec![vec![agent.call.clone()]]);
    let program = write_program(&sandbox, &agent, &model);
    let variable = format!("RELAY_{}_BIN", agent.tool.to_uppercase());
    let _host = HostProcess::start_with(&sandbox, &hub.url(), |command| {
        command.env(variable, program);
    });
    let (mut connection, _) = hub.greeted(&stored).await;
    let start = json!({ "request_id": "start", "tool": agent.tool, "cmd": "", "user": "ann" });
    let started = connection.request(&mut stored, "rpc.run.start", None, start).await;
    assert_eq!(started["ok"], true, "{started}");
    let run = started["result"]["run_id"].as_str().unwrap().to_owned();

    let requested = event(&mut connection, &mut stored, &run, "run.permission_requested").await;
    let prompt = requested["prompt"].as_str().unwrap();
    assert!(prompt.contains(agent.question) && prompt.contains(COMMAND), "{prompt}");
    assert_eq!(
        (&requested["approve_text"], &requested["deny_text"]),
        (&json!(agent.approve_text), &json!(agent.deny_text)),
        "{prompt}"
    );
    assert_eq!((&requested["reason"], &requested["requester"]), (&json!("permission"), &json!(agent.tool)));
    let id = requested["request_id"].clone();
    let kinds = |stored: &Stored| stored.kinds(&run);
    let awaiting = |event: &Value| event["type"] == "run.awaiting_input" && event["data"]["request_id"] == id;
    find(&mut connection, &mut stored, &run, awaiting).await;
    assert!(!sandbox.path("root/approved.txt").exists(), "the agent waits for the answer");

    let decision = json!({ "request_id": id, "user": "ann", "actor": "web" });
    connection.send("run.permission.approve", Some(&run), decision).await;
    let decided = event(&mut connection, &mut stored, &run, "run.permission_decided").await;
    assert_eq!((&decided["decision"], &decided["user"]), (&json!("approve"), &json!("ann")));
    let input = event(&mut connection, &mut stored, &run, "run.input").await;
    assert_eq!(
        (&input["input_id"], &input["text_redacted"]),
        (&id, &json!(agent.approve_text)),
        "{:?}",
        kinds(&stored)
    );
    // The command ran, its output reached the model, and the agent shows the model's last words.
    let is_shown = |screen: &str| screen.contains(LAST_WORDS);
    screen_until(&mut connection, &mut stored, &run, is_shown).await;
    let mut tries = Tries::within(PATIENCE, "the file of the command");
    while !sandbox.path("root/approved.txt").exists() {
        tries.again();
    }
    assert!(model.outputs().contains_key("call"), "{:?}", model.outputs());
    let count = |kind: &str| kinds(&stored).iter().filter(|found| *found == kind).count();
    assert_eq!((count("run.permission_requested"), count("run.permission_decided")), (1, 1));
    connection.send("run.stop", Some(&run), json!({ "signal": "kill" })).await;
    connection.exited(&mut stored, &run).await;
}

/// The data of the first event of this type.
async fn event(connection: &mut HubConnection, stored: &mut Stored, run: &str, kind: &str) -> Value {
    find(connection, stored, run, |event| event["type"] == kind).await["data"].clone()
}

/// The first event that satisfies a condition. Panics with the screen if there is none in time.
async fn find(
    connection: &mut HubConnection,
    stored: &mut Stored,
    run: &str,
    is_wanted: impl Fn(&Value) -> bool,
) -> Value {
    let is_found = |event: &Value| event["run_id"] == run && is_wanted(event);
    if let Some(found) = stored.of(run).into_iter().find(is_found) {
        return found;
    }
    let found = timeout(PATIENCE, connection.until(stored, is_found)).await;
    found.unwrap_or_else(|_| panic!("no such event; {:?}\n{}", stored.kinds(run), screen(stored, run)))
}

/// Waits until the screen satisfies a condition.
async fn screen_until(
    connection: &mut HubConnection,
    stored: &mut Stored,
    run: &str,
    is_wanted: impl Fn(&str) -> bool,
) {
    let wait = async {
        while !is_wanted(&screen(stored, run)) {
            connection.until(stored, |event| event["type"] == "run.output").await;
        }
    };
    let is_in_time = timeout(PATIENCE, wait).await.is_ok();
    assert!(is_in_time, "{:?}\n{}", stored.kinds(run), screen(stored, run));
}

/// The screen of a run, as a person sees it.
fn screen(stored: &Stored, run: &str) -> String {
    let mut model = TerminalModel::new(TerminalSize { cols: 80, rows: 24 });
    model.feed(stored.text(run).as_bytes());
    model.rows().join("\n")
}
