//! What the MCP tests share: a place to work in, the official clients, servers on stdio and HTTP.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod raw_http;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::sandbox::Sandbox;

/// The program under test.
pub(crate) const REX: &str = env!("CARGO_BIN_EXE_rex");

/// The variable with which a client starts `rex mcp --structured`, as a program does.
pub(crate) const STRUCTURED: (&str, &str) = ("ARGUMENTS", "--structured");

/// The variable with which a call waits for a command that a machine under load does not end in the usual time.
pub(crate) const PATIENT: (&str, &str) = ("REX_MCP_WAIT_MS", "300000");

/// The operator asks before anything is touched, and before one file is written.
pub(crate) const ASKS: &str = r#"
[[policy.rules]]
name = "touches"
action = "ask"
argv = ["touch", "*"]

[[policy.rules]]
name = "writes"
action = "ask"
paths = ["**/asked.txt"]
access = "write"
"#;

/// A sandbox whose root is worked in.
pub(crate) struct McpWorkspace {
    pub(crate) sandbox: Sandbox,
}

impl McpWorkspace {
    /// With no configuration but what `rex` does by itself: the working directory is served.
    pub(crate) fn open() -> McpWorkspace {
        rexd();
        McpWorkspace { sandbox: Sandbox::new() }
    }

    /// With a configuration of the operator.
    pub(crate) fn with_config(more: &str) -> McpWorkspace {
        rexd();
        let sandbox = Sandbox::with_config(more);
        let home = sandbox.read("config.toml");
        sandbox.write("home/config/rexd/config.toml", home);
        McpWorkspace { sandbox }
    }

    /// Any program, in the root.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.sandbox.command(program);
        command.current_dir(self.sandbox.root()).env("REX", REX).env("HERE", self.sandbox.root());
        command.env("CLIENTS", clients());
        command
    }

    /// `rex` with arguments: status, stdout, stderr.
    pub(crate) fn rex(&self, arguments: &[&str]) -> (i32, String, String) {
        let run = self.command(REX).args(arguments).output().expect("rex runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (run.status.code().expect("a status"), text(run.stdout), text(run.stderr))
    }

    /// A scenario of the official Python client.
    pub(crate) fn python(&self, scenario: &str, more: &[(&str, &str)]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/client.py");
        let mut command = self.command(clients().join("venv/bin/python"));
        scenario_ends_well(command.arg(script).arg(scenario).envs(more.iter().copied()), scenario);
    }

    /// A scenario of the official TypeScript client.
    pub(crate) fn typescript(&self, scenario: &str, more: &[(&str, &str)]) {
        self.javascript("client.mjs", scenario, more);
    }

    /// The scenarios of the official conformance suite for a revision.
    pub(crate) fn conformance(&self, revision: &str, more: &[(&str, &str)]) {
        self.javascript("conformance.mjs", revision, more);
    }

    fn javascript(&self, script: &str, scenario: &str, more: &[(&str, &str)]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp").join(script);
        let mut command = self.command(node());
        scenario_ends_well(command.arg(script).arg(scenario).envs(more.iter().copied()), scenario);
    }

    /// `rex mcp --structured --http` on a free port.
    pub(crate) fn serve_http(&self, token: Option<&str>) -> Http {
        self.serve_http_with(token, &[])
    }

    /// The same with more variables.
    pub(crate) fn serve_http_with(&self, token: Option<&str>, more: &[(&str, &str)]) -> Http {
        let mut command = self.command(REX);
        command.envs(more.iter().copied());
        command
            .args(["mcp", "--structured", "--http", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(token) = token {
            command.env("REX_MCP_TOKEN", token);
        }
        let mut child = command.spawn().expect("rex runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
        let url = line.trim().strip_prefix("listening mcp ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Http { child, url }
    }

    /// `rexd serve` on a unix socket below the sandbox, with a root of its own whose file `name` says which it is.
    pub(crate) fn serve_unix(&self, name: &str) -> Daemon {
        self.sandbox.write(&format!("root-{name}/name"), format!("{name}\n"));
        let (root, socket) =
            (self.sandbox.path(format!("root-{name}")), self.sandbox.path(format!("{name}.sock")));
        let mut command = self.command(rexd());
        command.arg("serve").arg("--root").arg(root).arg("--unix").arg(&socket);
        command.env("XDG_STATE_HOME", self.sandbox.path(format!("state-{name}")));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("rexd runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("listening"), "{line:?}");
        Daemon { child, socket }
    }
}

/// A server over HTTP; it ends with this.
pub(crate) struct Http {
    pub(crate) child: Child,
    pub(crate) url: String,
}

/// A daemon; it ends with this.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) socket: PathBuf,
}

impl Drop for Http {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    child.kill().ok();
    child.wait().ok();
}

fn scenario_ends_well(command: &mut Command, scenario: &str) {
    let run = command.output().expect("the client runs");
    let (out, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && out.contains(&format!("ok {scenario}")), "{scenario}\n{out}\n{errors}");
}

/// Where the clients are; `make setup` puts them there.
pub(crate) fn clients() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    let clients = target.join("mcp-clients");
    assert!(
        clients.join("python.done").exists() && clients.join("node.done").exists(),
        "the MCP clients are missing: run `make setup` (it calls crates/cli/tests/mcp/setup.sh)"
    );
    clients
}

/// Node: the machine's own.
pub(crate) fn node() -> PathBuf {
    clients().join("npm/node_modules/node/bin/node")
}

/// A program that npm installed.
pub(crate) fn npm_program(name: &str) -> PathBuf {
    clients().join("npm/node_modules/.bin").join(name)
}

/// The daemon beside `rex`.
pub(crate) fn rexd() -> PathBuf {
    let rexd = Path::new(REX).with_file_name("rexd");
    assert!(rexd.exists(), "rexd is not built: cargo build --bin rexd");
    rexd
}
