//! Connects to a target: from its address to a link, or to the reason why that failed.

mod exec_server;
mod hub;
mod local;
mod share;
mod shared_session;
mod ssh;
mod ssh_settings;
mod websocket;

use link::Link;
use link::child::Child;

use shared_session::SharedSession;
use websocket::WebSocketContent;

use crate::connection::Connection;
use crate::error::{ConnectError, ConnectStep, Disconnect};
use crate::exec_server::bridge::BridgeHandle;
use crate::options::{KeepAlive, SessionOptions};
use crate::target::{SshTarget, Target, UrlTarget};

/// The path of a daemon's WebSocket if the URL has none.
const DAEMON_PATH: &str = "/ws";
/// The path of an exec-server's WebSocket if the URL has none.
const EXEC_SERVER_PATH: &str = "/";
/// The largest message accepted from an exec-server, which may send a whole file in one.
const MAX_EXEC_SERVER_MESSAGE: usize = 192 * 1024 * 1024;

/// A link to a target and its carrier, which must live as long as the link.
#[derive(Debug)]
pub(crate) struct TargetLink {
    pub(crate) link: Link,
    pub(crate) carrier: Carrier,
}

/// What carries a link.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// A daemon that this program started.
    Local(Child),
    /// An ssh that this program started.
    Ssh(Child, SshTarget),
    /// A session on a shared ssh connection.
    SharedSsh(SharedSession, SshTarget),
    /// A socket, which lives with the link.
    Socket,
    /// A bridge to an exec-server, which ends after the link.
    Bridge(BridgeHandle),
}

/// Connects to the target. No message has been sent on the link yet.
pub(crate) async fn dial(target: &Target, options: &SessionOptions) -> Result<TargetLink, ConnectError> {
    match target {
        Target::Local(local) => local::dial(local),
        Target::Ssh(ssh) => ssh::dial(ssh, options).await,
        Target::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path).await.map_err(|error| {
                ConnectError::new(target, ConnectStep::Connect, &error)
                    .hint(format!("is `rexd serve --unix {}` running as this user?", path.display()))
                    .transient()
            })?;
            let (input, output) = stream.into_split();
            let link = link::ndjson::link(input, output, &limits());
            Ok(TargetLink { link, carrier: Carrier::Socket })
        }
        Target::Url(url) => {
            let (host, port) = url.address();
            let hint = format!("is `rexd serve --http {host}:{port}` running there?");
            let content = WebSocketContent::Json(limits());
            let link =
                websocket::dial(url, (target, &hint), (DAEMON_PATH, content), &options.keep_alive).await?;
            Ok(TargetLink { link, carrier: Carrier::Socket })
        }
        Target::ExecServer(url) => exec_server::dial(url, options).await,
        Target::Hub(hub) => {
            let link = hub::dial(hub, options).await?;
            Ok(TargetLink { link, carrier: Carrier::Socket })
        }
    }
}

/// Connects to an exec-server. No message has been sent on the link yet.
pub(crate) async fn exec_server(url: &UrlTarget, keep_alive: &KeepAlive) -> Result<Link, ConnectError> {
    let target = Target::ExecServer(url.clone());
    let hint = format!("is `rexd exec-server --listen ws://{}` running there?", url.authority);
    let limits = exec_server_limits();
    if !url.is_harness() {
        let content = WebSocketContent::Json(limits);
        return websocket::dial(url, (&target, &hint), (EXEC_SERVER_PATH, content), keep_alive).await;
    }
    let content = WebSocketContent::RelayFrames(limits);
    let link = websocket::dial(url, (&target, &hint), (EXEC_SERVER_PATH, content), keep_alive).await?;
    let limits = link::mux::Limits { message_bytes: MAX_EXEC_SERVER_MESSAGE, ..link::mux::Limits::default() };
    relay_stream(link, &target, limits)
}

/// One stream over relay frames, as a link of its own.
fn relay_stream(link: Link, target: &Target, limits: link::mux::Limits) -> Result<Link, ConnectError> {
    let no_random = |error: getrandom::Error| {
        ConnectError::new(target, ConnectStep::OpenSession, format!("cannot get random bytes: {error}"))
    };
    let stream_id = crate::session::random_hex().map_err(no_random)?;
    Ok(link::mux::harness(link, &stream_id, limits))
}

/// Opens a WebSocket at the path of a URL; the error is that of the connection.
pub(crate) async fn open_socket(url: &UrlTarget) -> Result<link::dial::Socket, link::dial::DialError> {
    websocket::open(url, "/").await
}

/// The headers of a request to a URL.
pub(crate) fn headers(url: &UrlTarget) -> Result<http::HeaderMap, String> {
    websocket::headers(url)
}

/// Explains a failed connection. `hint` is for one that is refused.
pub(crate) fn failure(error: link::dial::DialError, target: &Target, hint: &str) -> ConnectError {
    websocket::failure(error, target, hint)
}

pub use share::SharedConnection;
pub(crate) use websocket::error_message;

/// Stops the use of a shared connection that does not answer.
pub(crate) async fn abandon_shared(target: &Target) {
    if let Target::Ssh(ssh) = target {
        share::abandon(ssh).await;
    }
}

pub(crate) async fn close_shared(ssh: &SshTarget) -> std::io::Result<SharedConnection> {
    share::close(ssh).await
}

pub(crate) async fn close_all_shared() -> std::io::Result<usize> {
    share::close_all().await
}

/// The limits of a link to an exec-server, which may send a whole file in one message.
pub fn exec_server_limits() -> link::Limits {
    link::Limits { line_bytes: MAX_EXEC_SERVER_MESSAGE, ..link::Limits::default() }
}

impl TargetLink {
    /// Splits it into the connection that a task serves and its carrier.
    pub(crate) fn into_connection(self) -> (Connection, Carrier) {
        let can_resume = matches!(self.carrier, Carrier::Socket);
        (Connection::new(self.link, can_resume), self.carrier)
    }
}

impl Carrier {
    /// Why the link ended before a session was opened.
    pub(crate) async fn explain(&mut self, target: &Target) -> ConnectError {
        match self {
            Carrier::Local(child) => local::explain(child).await,
            Carrier::Ssh(child, ssh) => ssh::explain(child, ssh).await,
            Carrier::SharedSsh(session, ssh) => ssh::explain_shared(session, ssh).await,
            Carrier::Socket => {
                ConnectError::new(target, ConnectStep::OpenSession, "the server closed the connection")
                    .transient()
            }
            Carrier::Bridge(bridge) => {
                ConnectError::new(target, ConnectStep::OpenSession, bridge.disconnect()).transient()
            }
        }
    }

    /// Stops the program that carries the link, which no session uses.
    pub(crate) fn stop(&mut self) {
        match self {
            Carrier::Local(child) | Carrier::Ssh(child, _) => child.ask_to_end(),
            Carrier::SharedSsh(..) | Carrier::Socket | Carrier::Bridge(_) => {}
        }
    }

    /// Waits until a bridge has ended the processes of its session, or the daemon on a shared ssh connection has ended. The link
    /// must have been dropped.
    pub(crate) async fn finish(self) {
        match self {
            Carrier::Bridge(bridge) => bridge.finish().await,
            // The ssh that holds the connection drops what it has not sent when this program ends, also `session.close`: the
            // daemon would wait for its client to return.
            Carrier::SharedSsh(mut session, _) => {
                session.ended().await;
            }
            Carrier::Local(_) | Carrier::Ssh(..) | Carrier::Socket => {}
        }
    }

    /// Why the link ended.
    pub(crate) fn disconnect(&self) -> Disconnect {
        let errors = match self {
            Carrier::Local(child) | Carrier::Ssh(child, _) => child.errors(),
            Carrier::SharedSsh(session, _) => session.errors(),
            Carrier::Socket => return Disconnect::Closed,
            Carrier::Bridge(bridge) => return bridge.disconnect(),
        };
        match errors.text().lines().next_back() {
            Some(line) => Disconnect::Carrier(line.to_owned()),
            None => Disconnect::Closed,
        }
    }
}

/// The hint for a target that does not answer.
pub(crate) fn timeout_hint(target: &Target) -> String {
    match target {
        Target::Local(_) => "check this machine with `rexd doctor`".to_owned(),
        Target::Ssh(ssh) => ssh::timeout_hint(ssh),
        Target::Unix(path) => format!("is `rexd serve --unix {}` running?", path.display()),
        Target::Url(url) => format!("is a rexd listening at {}, and is its machine up?", url.authority),
        Target::ExecServer(url) => {
            format!("is an exec-server listening at {}, and is its machine up?", url.authority)
        }
        Target::Hub(_) => "`rex hosts` shows which hosts are online".to_owned(),
    }
}

/// The limits of a link to a daemon.
pub(crate) fn limits() -> link::Limits {
    link::Limits::default()
}

pub(crate) fn find_rexd() -> Option<std::path::PathBuf> {
    local::find_program()
}

pub(crate) fn find_rexhub() -> Option<std::path::PathBuf> {
    local::find_beside("rexhub")
}

pub(crate) fn ssh_command(ssh: &SshTarget, options: &SessionOptions) -> std::process::Command {
    let mut command = ssh::base_command(ssh, options);
    command.arg("--").arg(ssh::destination(ssh));
    command
}

pub(crate) fn ssh_failure(ssh: &SshTarget, status: Option<i32>, stderr: &str) -> ConnectError {
    ssh::failure(ssh, status, stderr)
}
