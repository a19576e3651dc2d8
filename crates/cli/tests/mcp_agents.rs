//! Claude Code, Codex and OpenCode from npm, each driven through all tools by a scripted model: what the model received is
//! compared with a stored text, so that a change of what models see is a difference in review. So are the tools and the
//! instructions of the server.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use mcp::raw_http::StatelessClient;
use mcp::{McpWorkspace, REX, npm_program};
use serde_json::{Value, json};
use similar::TextDiff;
use testkit::model::{Call, LAST_WORDS, Model};

/// How long an agent has for all calls; a machine that compiles beside it is slow.
const PATIENCE_SECONDS: &str = "420";
/// The agents use much memory and processor time: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// Writes the stored texts instead of comparing them.
const UPDATE: &str = "REX_UPDATE_TEXTS";

const DIFF: &str = "--- a/d/a.txt\n+++ b/d/a.txt\n@@ -1,3 +1,3 @@\n one\n zwei\n-three\n+drei\n--- /dev/null\n+++ b/d/b.txt\n@@ -0,0 +1 @@\n+new\n";

/// Every tool, and a mistake.
fn calls() -> Vec<(&'static str, &'static str, Value)> {
    let process = "$process:start";
    vec![
        ("write", "write", json!({ "path": "d/a.txt", "content": "one\ntwo\nthree\n" })),
        ("read", "read", json!({ "path": "d/a.txt" })),
        ("edit", "edit", json!({ "path": "d/a.txt", "old_string": "two", "new_string": "zwei" })),
        ("ambiguous", "edit", json!({ "path": "d/a.txt", "old_string": "e", "new_string": "E" })),
        ("patch", "patch", json!({ "patch_text": DIFF })),
        ("list", "list", json!({ "path": "d" })),
        ("glob", "glob", json!({ "pattern": "d/*.txt" })),
        ("grep", "grep", json!({ "pattern": "zwei", "path": "d", "context": 1 })),
        ("stat", "stat", json!({ "path": "d/a.txt" })),
        ("bash", "bash", json!({ "command": "echo out; echo err >&2; yes same | head -n 1000; exit 3" })),
        ("start", "bash", json!({ "command": "cat", "background": true })),
        ("input", "bash_input", json!({ "process_id": process, "data": "hello\n" })),
        ("wait", "bash_output", json!({ "process_id": process, "until": "hello" })),
        ("kill", "kill", json!({ "process_id": process })),
        ("end", "bash_output", json!({ "process_id": process, "until": "never" })),
    ]
}

/// An agent: how it names the tools of the server `rex`, and the command that runs a prompt.
struct Agent {
    name: &'static str,
    prefix: &'static str,
    /// Its own tools that `--only` turns off.
    own: &'static [&'static str],
    /// Writes the configuration of the model and returns the command.
    prepare: fn(&McpWorkspace, &Model) -> Command,
}

/// What a client receives before the first call.
#[test]
fn instructions_names_descriptions_and_schemas_are_stored() {
    let place = McpWorkspace::open();
    let token = "the-token-of-a-caller";
    let server = place.serve_http(Some(token));
    let client = StatelessClient::new(&server, token, json!({}));
    let discovered = client.result("server/discover", json!({}));
    let instructions = discovered["instructions"].as_str().unwrap();
    // The description of the target follows.
    let instructions = instructions.split(" Now it is: ").next().unwrap();
    let mut seen = format!("## instructions\n{instructions}\n");
    for mut tool in client.result("tools/list", json!({}))["tools"].as_array().unwrap().clone() {
        let fields = tool.as_object_mut().unwrap();
        let [name, description] = ["name", "description"].map(|field| fields.remove(field).unwrap());
        let (name, description) = (name.as_str().unwrap(), description.as_str().unwrap());
        seen.push_str(&format!("\n## {name}\n{description}\n{tool:#}\n"));
    }
    compare("tools", &seen);
}

#[test]
fn claude_code_shows_the_model_every_result() {
    run(&Agent { name: "claude", prefix: "mcp__rex__", own: &["Bash", "Read", "Edit"], prepare: claude });
}

#[test]
fn codex_shows_the_model_every_result() {
    run(&Agent { name: "codex", prefix: "mcp__rex/", own: &["exec_command", "shell"], prepare: codex });
}

#[test]
fn opencode_shows_the_model_every_result() {
    run(&Agent { name: "opencode", prefix: "rex_", own: &["bash", "read", "edit"], prepare: opencode });
}

fn claude(place: &McpWorkspace, model: &Model) -> Command {
    let key = "key-of-the-test-only";
    let config = json!({
        "hasCompletedOnboarding": true,
        "projects": { place.sandbox.root().to_str().unwrap(): { "hasTrustDialogAccepted": true } },
        "customApiKeyResponses": { "approved": [key], "rejected": [] },
    });
    place.sandbox.write("home/.claude.json", config.to_string());
    let mut command = agent(place, &npm_program("claude"));
    command.args(["-p", "go", "--allowedTools", "mcp__rex"]);
    command.env("ANTHROPIC_API_KEY", key).env("ANTHROPIC_BASE_URL", model.url().strip_suffix("/v1").unwrap());
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_AUTOUPDATER", "1");
    command.env("ENABLE_TOOL_SEARCH", "false");
    // Otherwise the first request waits 2 s for the server and then goes without its tools.
    command.env("CLAUDE_CODE_MCP_STARTUP_WAIT_MS", "300000").env("MCP_TIMEOUT", "300000");
    command
}

fn codex(place: &McpWorkspace, model: &Model) -> Command {
    // What Codex offers depends on the name: to a model that it does not know, no `apply_patch`.
    let config = format!(
        "model = 'gpt-5.5'\nmodel_provider = 'scripted'\ncheck_for_update_on_startup = false\n\
         [model_providers.scripted]\nname = 'scripted'\nbase_url = '{}'\nwire_api = 'responses'\n",
        model.url()
    );
    place.sandbox.write("home/.codex/config.toml", config);
    let mut command = agent(place, &npm_program("codex"));
    command.args(["exec", "-c", "mcp_servers.rex.startup_timeout_sec=300", "--skip-git-repo-check"]);
    command.args(["--dangerously-bypass-approvals-and-sandbox", "go"]);
    command
}

fn opencode(place: &McpWorkspace, model: &Model) -> Command {
    let config = json!({
        "autoupdate": false,
        "share": "disabled",
        "experimental": { "mcp_timeout": 300_000 },
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "provider": { "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": { "baseURL": model.url(), "apiKey": "none" },
            "models": { "scripted": { "name": "scripted", "tool_call": true } },
        } },
    });
    place.sandbox.write("home/.config/opencode/opencode.json", config.to_string());
    // It installs the package for plugins unless this looks installed; that needs a network.
    let dependencies = json!({ "dependencies": { "@opencode-ai/plugin": "*" } });
    let lock = json!({ "lockfileVersion": 3, "packages": { "": dependencies } });
    place.sandbox.write("home/.config/opencode/package.json", dependencies.to_string());
    place.sandbox.write("home/.config/opencode/package-lock.json", lock.to_string());
    place.sandbox.write("home/.config/opencode/node_modules/.installed", "");
    let mut command = agent(place, &npm_program("opencode"));
    command.args(["run", "go"]);
    command.env("OPENCODE_DISABLE_AUTOUPDATE", "1").env("OPENCODE_DISABLE_MODELS_FETCH", "1");
    command
}

/// The program of an agent, with the Node it needs, in the home directory of the sandbox. It is ended when it takes too long.
fn agent(place: &McpWorkspace, program: &Path) -> Command {
    let mut command = place.command("timeout");
    let node = mcp::node();
    command.env("PATH", format!("{}:/usr/bin:/bin", node.parent().expect("a directory").display()));
    command.env_remove("XDG_CONFIG_HOME").arg(PATIENCE_SECONDS).arg(program);
    command
}

fn run(agent: &Agent) {
    // Modes of files are part of the stored texts.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let place = McpWorkspace::open();
    let script = calls()
        .into_iter()
        .map(|(name, tool, arguments)| vec![Call::new(name, &format!("{}{tool}", agent.prefix), arguments)]);
    let model = Model::start(script.collect());
    let mut command = (agent.prepare)(&place, &model);
    let installed = place
        .command(REX)
        .env_remove("XDG_CONFIG_HOME")
        .args(["mcp", "install", agent.name, "--only", "--yes"])
        .output()
        .unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let ran = command.output().expect("the agent runs");
    let said = format!("{}\n{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(
        ran.status.success() && said.contains(LAST_WORDS),
        "{:?}\n{said}\n{:?}",
        ran.status,
        model.outputs()
    );
    let offered = offered_tools(&model);
    assert!(!offered.is_empty(), "{said}");
    for own in agent.own {
        assert!(!offered.iter().any(|tool| tool == own), "{own} is not turned off: {offered:?}");
    }
    let outputs = model.outputs();
    let mut seen = format!("## offered with --only\n{}\n\n", offered.join("\n"));
    for (name, tool, arguments) in calls() {
        let output = outputs.get(name).unwrap_or_else(|| panic!("no answer to {name}: {outputs:?}\n{said}"));
        seen.push_str(&format!("## {tool} {arguments}\n{}\n\n", normalized(output, &place)));
    }
    compare(agent.name, &seen);
}

/// The names of the tools that the model was offered, or the types of those without one.
fn offered_tools(model: &Model) -> Vec<String> {
    let requests = model.requests();
    let tools = requests.iter().filter_map(|request| request["tools"].as_array()).flatten();
    let name = |tool: &Value| {
        let names = [&tool["name"], &tool["function"]["name"], &tool["type"]];
        names.into_iter().find_map(Value::as_str).map(str::to_owned)
    };
    let mut names: Vec<String> = tools.filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

/// The output without what differs from run to run.
fn normalized(output: &str, place: &McpWorkspace) -> String {
    // A list of parts, in the form of the API, becomes its texts.
    let text = match serde_json::from_str::<Value>(output) {
        Ok(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => output.to_owned(),
    };
    let text = text.replace(place.sandbox.root().to_str().unwrap(), "$ROOT");
    let lines = text.lines().filter(|line| !line.starts_with("[target "));
    lines.map(normalized_line).collect::<Vec<_>>().join("\n")
}

fn normalized_line(line: &str) -> String {
    let is_id = |letter: char| letter.is_ascii_alphanumeric();
    let line = replaced_after(line, "p_", "ID", is_id);
    let line = replaced_after(&line, "cat (", "PID", |letter| letter.is_ascii_digit());
    let line = replaced_after(&line, "uid ", "N", |letter| letter.is_ascii_digit());
    let line = replaced_after(&line, "gid ", "N", |letter| letter.is_ascii_digit());
    let line = replaced_after(&line, "modified ", "TIME", |letter| letter != ',');
    let line =
        replaced_after(&line, "Wall time: ", "TIME", |letter| letter.is_ascii_digit() || letter == '.');
    // A program that gets no processor time after TERM is killed.
    line.replace("signal KILL, exit code 137", "signal TERM, exit code 143")
}

/// The text with the letters after each `start` replaced by `word`.
fn replaced_after(text: &str, start: &str, word: &str, is_part: impl Fn(char) -> bool) -> String {
    let mut parts = text.split(start);
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(&is_part);
        let shown = if rest.len() < part.len() { word } else { "" };
        replaced.push_str(&format!("{start}{shown}{rest}"));
    }
    replaced
}

/// Compares with the stored text.
fn compare(name: &str, seen: &str) {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/mcp/agents/{name}.txt"));
    if std::env::var_os(UPDATE).is_some() {
        std::fs::create_dir_all(stored.parent().unwrap()).unwrap();
        std::fs::write(&stored, seen).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&stored).unwrap_or_default();
    let difference =
        TextDiff::from_lines(expected.as_str(), seen).unified_diff().header("stored", "seen").to_string();
    assert!(
        difference.is_empty(),
        "{name} shows the model something else; {UPDATE}=1 stores it\n{difference}"
    );
}
