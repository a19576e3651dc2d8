//! ServedDaemon: `rexd serve` under test with every listener, and clients of each kind.

use std::fmt::Debug;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::carrier::Carrier;
use crate::client::{AnyClient, Client};
use crate::daemon::PATIENCE;
use crate::http_carrier::HttpCarrier;
use crate::lines::Lines;
use crate::log::Log;
use crate::proc::watch;
use crate::sandbox::Sandbox;
use crate::websocket::Socket;

/// The token of the daemons under test.
pub const TOKEN: &str = "a-token-for-tests-0123456789abcdef0123456789abcdef";

/// The carrier of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarrierKind {
    /// Lines over a unix socket.
    Unix,
    /// Messages over a WebSocket.
    WebSocket,
    /// Requests over HTTP, events over a stream of their own.
    Http,
}

impl CarrierKind {
    /// All carriers of a served daemon.
    pub const ALL: [CarrierKind; 3] = [CarrierKind::Unix, CarrierKind::WebSocket, CarrierKind::Http];
}

/// The addresses of a daemon's listeners, or of a proxy's.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The unix socket.
    pub unix: PathBuf,
    /// The HTTP listener, which WebSockets share.
    pub http: SocketAddr,
    /// The bearer token.
    pub token: Option<String>,
}

impl Addresses {
    /// Opens a new connection.
    pub fn connect(&self, way: CarrierKind) -> io::Result<Box<dyn Carrier + Send>> {
        let token = self.token.as_deref();
        Ok(match way {
            CarrierKind::Unix => Box::new(Lines::connect(&self.unix)?),
            CarrierKind::WebSocket => Box::new(Socket::connect(self.http, token)?),
            CarrierKind::Http => Box::new(HttpCarrier::connect(self.http, token)?),
        })
    }

    /// Opens an HTTP connection that reads a session's events after this one, by `Last-Event-ID`.
    pub fn listen(&self, session: &str, last: u64) -> io::Result<Box<dyn Carrier + Send>> {
        let mut carrier = HttpCarrier::connect(self.http, self.token.as_deref())?;
        carrier.listen(session, Some(&last.to_string()))?;
        Ok(Box::new(carrier))
    }

    /// The same addresses with another token.
    pub fn with_token(&self, token: Option<&str>) -> Addresses {
        Addresses { token: token.map(str::to_owned), ..self.clone() }
    }
}

/// A daemon on sockets.
#[derive(Debug)]
pub struct ServedDaemon {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    /// The log of the server.
    pub log: Log,
    /// The addresses of its listeners.
    pub addresses: Addresses,
}

impl ServedDaemon {
    /// Starts `rexd serve` with the sandbox's configuration, on a unix socket and a free port.
    pub fn start(binary: &str, sandbox: &Sandbox) -> ServedDaemon {
        let mut command = sandbox.command(binary);
        command.arg("serve").arg("--config").arg(sandbox.config());
        ServedDaemon::spawn(command, sandbox)
    }

    /// The same with a prepared command; adds the listeners.
    pub fn spawn(mut command: Command, sandbox: &Sandbox) -> ServedDaemon {
        let log = Log::new();
        command.args(["--http", "127.0.0.1:0", "--unix"]).arg(sandbox.path("rexd.sock"));
        command.env("REXD_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(log.stdio());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
        let (mut unix, mut http) = (None, None);
        while unix.is_none() || http.is_none() {
            let mut line = String::new();
            let read = stdout.by_ref().take(4096).read_line(&mut line).expect("its standard output");
            assert!(read > 0, "the daemon does not listen: {}", log.text());
            let url = line.strip_prefix("listening rexd ").unwrap_or_else(|| panic!("on stdout: {line:?}"));
            match url.trim_end().split_once(':') {
                Some(("http", rest)) => {
                    let address = rest.trim_start_matches('/').trim_end_matches('/');
                    http = Some(address.parse().unwrap_or_else(|error| panic!("{line:?}: {error}")));
                }
                Some(("unix", path)) => {
                    let path = path.strip_prefix("//").unwrap_or(path);
                    unix = Some(PathBuf::from(path));
                }
                _ => panic!("on stdout: {line:?}"),
            }
        }
        let (unix, http) = (unix.expect("a unix socket"), http.expect("a port"));
        let addresses = Addresses { unix, http, token: Some(TOKEN.to_owned()) };
        ServedDaemon { child, _stdout: stdout, log, addresses }
    }

    /// A new client.
    pub fn client(&self, way: CarrierKind) -> AnyClient {
        self.client_at(&self.addresses, way)
    }

    /// A new client at other addresses.
    pub fn client_at(&self, addresses: &Addresses, way: CarrierKind) -> AnyClient {
        let carrier = addresses.connect(way);
        let carrier =
            carrier.unwrap_or_else(|error| panic!("{way:?}: {error}; the log: {}", self.log.text()));
        Client::new(carrier, self.log.clone())
    }

    /// The process id of the daemon.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Sends a signal to the daemon.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid()).expect("a process id");
        kill_process(pid, signal).expect("a signal to the daemon");
    }

    /// Sends SIGTERM and waits for the exit.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait(PATIENCE)
    }

    /// Waits for the daemon to exit.
    pub fn wait(&mut self, within: Duration) -> ExitStatus {
        let has_ended = watch(self.pid()).ends_before(Instant::now() + within);
        assert!(has_ended, "the daemon did not exit: {}", self.log.text());
        self.child.wait().expect("its status")
    }
}

impl Drop for ServedDaemon {
    fn drop(&mut self) {
        // The daemon must not outlive a failed test.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }
}
