//! ExecServer: an exec-server under test, `rexd`'s own or a released one.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};

use crate::log::Log;
use crate::programs::program;
use crate::sandbox::Sandbox;
use crate::serve::Addresses;

/// The environment variable with another exec-server, such as a released `codex`, to run the tests against.
const OTHER: &str = "REXD_TEST_EXEC_SERVER";

/// A listening exec-server.
#[derive(Debug)]
pub struct ExecServer {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    /// The log of the server.
    pub log: Log,
    /// The URL that it printed.
    pub url: String,
    /// The same address for a [`Proxy`](crate::proxy::Proxy).
    pub addresses: Addresses,
}

/// The program that the tests start: `rexd`, or the value of `REXD_TEST_EXEC_SERVER`.
pub fn exec_server() -> PathBuf {
    std::env::var_os(OTHER).map_or_else(|| program("rexd").into(), PathBuf::from)
}

impl ExecServer {
    /// Starts it in the sandbox, on a free port.
    pub fn start(sandbox: &Sandbox) -> ExecServer {
        ExecServer::start_with(sandbox, &[])
    }

    /// The same with further arguments.
    pub fn start_with(sandbox: &Sandbox, arguments: &[&str]) -> ExecServer {
        ExecServer::start_program(&exec_server(), sandbox, arguments)
    }

    /// The same, with another program.
    pub fn start_program(program: &Path, sandbox: &Sandbox, arguments: &[&str]) -> ExecServer {
        let log = Log::new();
        let mut command = sandbox.command(program);
        command.args(["exec-server", "--listen", "ws://127.0.0.1:0"]).args(arguments);
        command.stdout(Stdio::piped()).stderr(log.stdio()).current_dir(sandbox.root());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
        let mut url = String::new();
        stdout.by_ref().take(4096).read_line(&mut url).expect("its standard output");
        let url = url.trim_end().to_owned();
        let address: Option<SocketAddr> = url.strip_prefix("ws://").and_then(|rest| rest.parse().ok());
        let http = address.unwrap_or_else(|| panic!("printed {url:?}; log: {}", log.text()));
        let addresses = Addresses { unix: sandbox.path("none.sock"), http, token: None };
        ExecServer { child, _stdout: stdout, log, url, addresses }
    }

    /// The process id of the server.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }
}

impl Drop for ExecServer {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }
}
