//! A hub with users and a host, behind a network that can be cut.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use testkit::daemon::PATIENCE;
use testkit::log::Log;
use testkit::programs::program;
use testkit::proxy::{CutKind, Proxy};
use testkit::sandbox::Sandbox;
use testkit::serve::Addresses;
use testkit::tries::Tries;

use super::{rex, run, text};

/// The id of the host.
pub(crate) const HOST: &str = "host-a";
/// The password of every user.
pub(crate) const PASSWORD: &str = "correct horse battery staple";

/// A hub, its host and the network between them and `rex`.
pub(crate) struct HubWorld {
    pub(crate) sandbox: Sandbox,
    pub(crate) proxy: Proxy,
    hub: Server,
    host: Option<Server>,
}

/// A server that ends with the test.
pub(crate) struct Server {
    child: Child,
    log: Log,
    _stdout: Option<BufReader<ChildStdout>>,
}

impl HubWorld {
    /// A hub with the users `ann` (admin), `olga` (operator) and `viktor` (viewer).
    pub(crate) fn without_host() -> HubWorld {
        HubWorld::with_config("")
    }

    /// The same with a host that serves the sandbox's root.
    pub(crate) fn start() -> HubWorld {
        let mut world = HubWorld::without_host();
        world.start_host();
        world
    }

    /// A hub without a host, and this configuration for the host.
    pub(crate) fn with_config(config: &str) -> HubWorld {
        let sandbox = Sandbox::with_config(config);
        for (name, role) in [("ann", "admin"), ("olga", "operator"), ("viktor", "viewer")] {
            let added =
                rexhub(&sandbox, &["user", "add", name, "--role", role, "--password-stdin"], PASSWORD);
            assert!(added.status.success(), "{added:?}");
        }
        let (hub, address) = serve(&sandbox);
        let addresses = Addresses { unix: sandbox.path("none"), http: address, token: None };
        let proxy = Proxy::start(&addresses, &sandbox.path(""));
        HubWorld { sandbox, proxy, hub, host: None }
    }

    /// Starts the host and waits until the hub lists it as online.
    pub(crate) fn start_host(&mut self) {
        let log = Log::new();
        let mut command = self.sandbox.command(program("rexd"));
        command.arg("host").arg("--config").arg(self.sandbox.config());
        command.args(["--host-id", HOST, "--hub", &self.url()]);
        let child = command.stdout(Stdio::null()).stderr(log.stdio()).spawn().expect("rexd host");
        self.host = Some(Server { child, log, _stdout: None });
        let before = self.logins();
        self.sign_in("ann");
        let mut tries = Tries::within(3 * PATIENCE, "the host is online");
        while !self.host_is_online() {
            tries.again();
        }
        std::fs::write(self.sandbox.path("home/config/rexd/hubs.json"), before).expect("the sign-ins");
    }

    fn host_is_online(&self) -> bool {
        let hosts: Value = serde_json::from_str(&text(&self.sandbox, &["hosts", "--json"])).expect("hosts");
        let mut hosts = hosts.as_array().expect("a list").iter();
        hosts.any(|host| host["id"] == HOST && host["online"] == true)
    }

    /// The stored sign-ins.
    pub(crate) fn logins(&self) -> String {
        let path = self.sandbox.path("home/config/rexd/hubs.json");
        std::fs::read_to_string(path).unwrap_or_else(|_| r#"{"version":1,"hubs":[]}"#.to_owned())
    }

    /// The address of the hub for its clients.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.proxy.addresses.http)
    }

    /// Signs in.
    pub(crate) fn sign_in(&self, user: &str) {
        let output = self.try_sign_in(user, PASSWORD);
        assert!(output.status.success(), "{output:?}; the hub: {}", self.hub.log.text());
    }

    pub(crate) fn try_sign_in(&self, user: &str, password: &str) -> Output {
        let url = self.url();
        let command = rex(&self.sandbox, &["login", &url, "--user", user, "--password-stdin"]);
        with_input(command, password)
    }

    /// Runs `rexhub` with the hub's data.
    pub(crate) fn manage(&self, arguments: &[&str]) -> String {
        let output = rexhub(&self.sandbox, arguments, "");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Kills the hub and starts it again; `between` runs while there is none.
    pub(crate) fn restart_hub(&mut self, between: impl FnOnce(&HubWorld)) {
        self.hub.child.kill().expect("the hub ends");
        self.hub.child.wait().expect("its status");
        between(self);
        let (hub, address) = serve(&self.sandbox);
        self.hub = hub;
        self.proxy.redirect(&Addresses { unix: self.sandbox.path("none"), http: address, token: None });
    }

    /// Reads lines to their end and cuts every connection, also those of the host, after each hundredth.
    pub(crate) fn cut_as_it_arrives(&self, from: impl Read) -> String {
        let mut from = BufReader::new(from);
        let mut seen = String::new();
        let mut lines = 0;
        while from.read_line(&mut seen).expect("output") > 0 {
            lines += 1;
            if lines % 100 == 0 {
                self.proxy.cut(CutKind::Reset);
            }
        }
        assert!(self.proxy.cuts() > 1, "{lines} lines");
        seen
    }

    /// Starts a run with `olga`'s sign-in, which must be the stored one, and returns its id.
    pub(crate) fn start_run(&self, command_line: &str) -> String {
        let target = format!("hub:{HOST}");
        let id = text(&self.sandbox, &["runs", "start", "-t", &target, "-c", command_line]);
        id.trim_end().to_owned()
    }

    /// The error of a command that fails by itself.
    pub(crate) fn failure(&self, arguments: &[&str]) -> String {
        let output = run(&self.sandbox, arguments);
        assert_eq!(output.status.code(), Some(255), "rex {arguments:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// The logs of the servers, for a failed test.
    pub(crate) fn logs(&self) -> String {
        let host = self.host.as_ref().map(|host| host.log.text()).unwrap_or_default();
        format!("hub:\n{}\nhost:\n{host}", self.hub.log.text())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for HubWorld {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::io::stderr().write_all(self.logs().as_bytes()).ok();
        }
    }
}

fn serve(sandbox: &Sandbox) -> (Server, SocketAddr) {
    let log = Log::new();
    let mut command = sandbox.command(program("rexhub"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(sandbox.path("hub"));
    let mut child = command.stdout(Stdio::piped()).stderr(log.stdio()).spawn().expect("rexhub");
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("its address");
    let address = line.trim_end().strip_prefix("listening http://").and_then(|text| text.parse().ok());
    let address = address.unwrap_or_else(|| panic!("{line:?}: {}", log.text()));
    (Server { child, log, _stdout: Some(stdout) }, address)
}

fn rexhub(sandbox: &Sandbox, arguments: &[&str], input: &str) -> Output {
    let mut command = sandbox.command(program("rexhub"));
    command.args(arguments).arg("--data").arg(sandbox.path("hub"));
    with_input(command, input)
}

/// Runs a command with this line on its stdin.
pub(crate) fn with_input(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a program");
    let mut stdin = child.stdin.take().expect("stdin");
    // A program that ends without reading it is judged by its status.
    writeln!(stdin, "{input}").ok();
    drop(stdin);
    child.wait_with_output().expect("its output")
}
