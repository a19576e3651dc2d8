//! A hub and an executor that registered there, for the tests that reach it as harnesses do.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]
#![allow(dead_code, reason = "not every test needs everything")]

pub(crate) mod raw;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use exec_server::{
    ExecParams, ExecServerClient, ExecServerEvent, ExecServerProcess, RemoteExecServerConnectArgs,
};
use testkit::daemon::PATIENCE;
use testkit::log::Log;
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use testkit::serve::Addresses;
use testkit::tries::Tries;

/// A program that ends with its test, and what it says.
struct Running(Child, Log);

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
pub(crate) struct HubWorld {
    pub(crate) sandbox: Sandbox,
    pub(crate) addresses: Addresses,
    pub(crate) token: String,
    /// Where the hub is, and what an executor shows there.
    url: String,
    bearer: String,
    running: Vec<Running>,
}

impl HubWorld {
    pub(crate) fn new(executor: Executor) -> HubWorld {
        HubWorld::with_hub(executor, &[])
    }

    /// The same, with more flags for the hub.
    pub(crate) fn with_hub(executor: Executor, flags: &[&str]) -> HubWorld {
        HubWorld::in_sandbox(Sandbox::new(), executor, flags)
    }

    /// A hub that speaks TLS with [`certify`]'s certificate, and `rexd`, which trusts only that.
    pub(crate) fn over_tls() -> HubWorld {
        let sandbox = Sandbox::new();
        certify(&sandbox);
        let (certificate, key) = (sandbox.path("cert.pem"), sandbox.path("key.pem"));
        let flags = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
        HubWorld::in_sandbox(sandbox, Executor::Rexd, &flags)
    }

    fn in_sandbox(sandbox: Sandbox, executor: Executor, flags: &[&str]) -> HubWorld {
        let mut hub = rexhub(&sandbox, &["serve", "--listen", "127.0.0.1:0"]);
        let mut hub = hub.args(flags).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(hub.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening ").expect("the hub listens").to_owned();
        let token = |name: &str, kind: &str| {
            let output = rexhub(&sandbox, &["token", "add", name, "--kind", kind]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
        };
        let (bearer, harness) = (token("builder", "executor"), token("laptop", "harness"));
        let http = url.split_once("://").unwrap().1.parse().unwrap();
        let addresses = Addresses { unix: sandbox.path("none.sock"), http, token: None };
        let mut world = HubWorld {
            sandbox,
            addresses,
            token: harness,
            url,
            bearer,
            running: vec![Running(hub, Log::new())],
        };
        world.join(executor);
        world
    }

    /// Has an executor register.
    pub(crate) fn join(&mut self, executor: Executor) {
        let HubWorld { sandbox, url, bearer, .. } = &*self;
        let mut command = match executor {
            Executor::Example => {
                let mut command = sandbox.command(program("examples/run_remote_executor"));
                command.args([url, "e-1", bearer]);
                command
            }
            Executor::Rexd => {
                let mut command = sandbox.command(program("rexd"));
                command.args(["exec-server", "--remote", url, "--executor-id", "e-1"]);
                command.env("CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN", bearer);
                command.env("SSL_CERT_FILE", sandbox.path("cert.pem"));
                command
            }
        };
        let log = Log::new();
        let child = command.current_dir(sandbox.root()).stderr(log.stdio()).spawn().unwrap();
        self.running.push(Running(child, log));
    }

    /// Ends an executor; the first is 1.
    pub(crate) fn end(&mut self, executor: usize) {
        let Running(child, _) = self.running.get_mut(executor).expect("that executor");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The hub's process.
    pub(crate) fn hub(&self) -> &Child {
        &self.running.first().expect("a hub").0
    }

    /// What an executor has said so far; the first is 1.
    pub(crate) fn log(&self, executor: usize) -> &Log {
        &self.running.get(executor).expect("that executor").1
    }

    pub(crate) fn rendezvous(&self, addresses: &Addresses) -> String {
        let scheme = if self.url.starts_with("https") { "wss" } else { "ws" };
        format!("{scheme}://{}/cloud/executor/e-1/rendezvous", addresses.http)
    }

    /// How a client reaches the executor.
    pub(crate) fn args(&self, addresses: &Addresses) -> RemoteExecServerConnectArgs {
        RemoteExecServerConnectArgs {
            bearer_token: Some(self.token.clone()),
            connect_timeout: PATIENCE,
            initialize_timeout: PATIENCE,
            ..RemoteExecServerConnectArgs::new(self.rendezvous(addresses), "tests")
        }
    }

    /// A client; it tries until the executor is there.
    pub(crate) async fn connect(&self, addresses: &Addresses) -> ExecServerClient {
        let mut tries = Tries::within(3 * PATIENCE, "the executor does not come to the rendezvous");
        loop {
            match ExecServerClient::connect_relay(self.args(addresses)).await {
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

/// Writes a certificate that nobody else has, for this machine.
pub(crate) fn certify(sandbox: &Sandbox) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    sandbox.write("cert.pem", made.cert.pem());
    sandbox.write("key.pem", made.signing_key.serialize_pem());
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
