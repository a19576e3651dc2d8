//! A hub and an executor that registered there, for the tests that reach it as harnesses do.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]
#![allow(dead_code, reason = "not every test needs everything")]

pub(crate) mod raw;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use exec_server::{
    ExecParams, ExecServerClient, ExecServerEvent, ExecServerProcess, RemoteExecServerConnectArgs,
};
use testkit::daemon::PATIENCE;
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use testkit::serve::Doors;
use testkit::tries::Tries;

/// A program that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Which executor registers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Executor {
    /// One made with this crate.
    Example,
    /// `rexd exec-server --remote`.
    Rexd,
}

/// A hub, an executor that registered there, and what a harness shows.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) doors: Doors,
    pub(crate) token: String,
    _running: [Running; 2],
}

impl World {
    pub(crate) fn new(executor: Executor) -> World {
        let sandbox = Sandbox::new();
        let mut hub = rexhub(&sandbox, &["serve", "--listen", "127.0.0.1:0"]);
        let mut hub = hub.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(hub.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening ").expect("the hub listens").to_owned();
        let token = |name: &str, kind: &str| {
            let output = rexhub(&sandbox, &["token", "add", name, "--kind", kind]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
        };
        let (bearer, harness) = (token("builder", "executor"), token("laptop", "harness"));
        let mut command = match executor {
            Executor::Example => {
                let mut command = sandbox.command(program("examples/run_remote_executor"));
                command.args([&url, "e-1", &bearer]);
                command
            }
            Executor::Rexd => {
                let mut command = sandbox.command(program("rexd"));
                command.args(["exec-server", "--remote", &url, "--executor-id", "e-1"]);
                command.env("CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN", &bearer);
                command
            }
        };
        let executor = command.current_dir(sandbox.root()).spawn().unwrap();
        let http = url.strip_prefix("http://").unwrap().parse().unwrap();
        let doors = Doors { unix: sandbox.path("none.sock"), http, token: None };
        World { sandbox, doors, token: harness, _running: [Running(hub), Running(executor)] }
    }

    pub(crate) fn rendezvous(&self, doors: &Doors) -> String {
        format!("ws://{}/cloud/executor/e-1/rendezvous", doors.http)
    }

    /// How a client reaches the executor.
    pub(crate) fn args(&self, doors: &Doors) -> RemoteExecServerConnectArgs {
        RemoteExecServerConnectArgs {
            bearer_token: Some(self.token.clone()),
            connect_timeout: PATIENCE,
            initialize_timeout: PATIENCE,
            ..RemoteExecServerConnectArgs::new(self.rendezvous(doors), "tests")
        }
    }

    /// A client; it tries until the executor is there.
    pub(crate) async fn connect(&self, doors: &Doors) -> ExecServerClient {
        let mut tries = Tries::within(PATIENCE, "the executor does not come to the rendezvous");
        loop {
            match ExecServerClient::connect_relay(self.args(doors)).await {
                Ok(client) => return client,
                Err(error) => must_pass(&error),
            }
            tries.again();
        }
    }

    /// A shell that runs a line; `more` are the line's arguments from `$1` on.
    pub(crate) fn shell(&self, name: &str, line: &str, more: &[&str]) -> ExecParams {
        let argv = ["sh", "-c", line, "sh"].into_iter().chain(more.iter().copied());
        ExecParams {
            process_id: name.to_owned(),
            argv: argv.map(str::to_owned).collect(),
            cwd: format!("file://{}", self.sandbox.root().display()),
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            pipe_stdin: true,
            ..ExecParams::default()
        }
    }
}

/// Only what may pass is waited for.
fn must_pass(error: &exec_server::ExecServerError) {
    assert!(!error.to_string().contains("token"), "{error}");
}

fn rexhub(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(program("rexhub"));
    command.args(arguments).arg("--data").arg(sandbox.path("hub"));
    command
}

/// All that a process says, and how it ends.
pub(crate) async fn gather(process: &mut ExecServerProcess) -> (Vec<u8>, Option<i32>) {
    let (mut bytes, mut code) = (Vec::new(), None);
    while let Some(event) = process.next().await.unwrap() {
        match event {
            ExecServerEvent::Output { bytes: more, .. } => bytes.extend_from_slice(&more),
            ExecServerEvent::Exited { exit_code, .. } => code = Some(exit_code),
            ExecServerEvent::Closed => break,
            other => panic!("{other:?}"),
        }
    }
    (bytes, code)
}
