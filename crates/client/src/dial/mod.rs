//! Reaching a target: from its name to a link, and why that failed.

mod exec_server;
mod local;
mod ssh;
mod websocket;

use link::Link;
use link::child::Child;

use websocket::Content;

use crate::connection::Connection;
use crate::error::{ConnectError, ConnectStep};
use crate::exec_server::bridge::Fate;
use crate::options::SessionOptions;
use crate::target::{SshTarget, Target, UrlTarget};

/// Where a daemon has its WebSocket if the URL names no path.
const DAEMON_PATH: &str = "/ws";
/// The longest message of an exec-server that is taken.
const MOST_MESSAGE: usize = 192 * 1024 * 1024;
/// Where an exec-server has it.
const EXEC_SERVER_PATH: &str = "/";

/// A link to a target, and what has to live as long as it does.
#[derive(Debug)]
pub(crate) struct Dialed {
    pub(crate) link: Link,
    pub(crate) carrier: Carrier,
}

/// What carries a link.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// A daemon that we started.
    Local(Child),
    /// An ssh that we started.
    Ssh(Child, SshTarget),
    /// A socket; it lives with the link.
    Socket,
    /// A bridge to an exec-server; it lives with the link.
    Bridge(Fate),
}

/// Connects to the target. Nothing has been said on the link yet.
pub(crate) async fn dial(target: &Target, options: &SessionOptions) -> Result<Dialed, ConnectError> {
    match target {
        Target::Local(local) => local::dial(local),
        Target::Ssh(ssh) => ssh::dial(ssh, options),
        Target::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path).await.map_err(|error| {
                ConnectError::new(target, ConnectStep::Connect, &error)
                    .hint(format!("is `rexd serve --unix {}` running, as this user?", path.display()))
                    .transient()
            })?;
            let (input, output) = stream.into_split();
            let link = link::ndjson::link(input, output, &limits());
            Ok(Dialed { link, carrier: Carrier::Socket })
        }
        Target::Url(url) => {
            let (host, port) = url.address();
            let hint = format!("is `rexd serve --http {host}:{port}` running there?");
            let link = websocket::dial(url, (target, &hint), (DAEMON_PATH, Content::Json(limits()))).await?;
            Ok(Dialed { link, carrier: Carrier::Socket })
        }
        Target::ExecServer(url) => exec_server::dial(url, options).await,
    }
}

/// Connects to an exec-server. Nothing has been said on the link yet.
pub(crate) async fn exec_server(url: &UrlTarget) -> Result<Link, ConnectError> {
    let target = Target::ExecServer(url.clone());
    let hint = format!("is `rexd exec-server --listen ws://{}` running there?", url.authority);
    let limits = exec_server_limits();
    if !url.is_harness() {
        return websocket::dial(url, (&target, &hint), (EXEC_SERVER_PATH, Content::Json(limits))).await;
    }
    let link = websocket::dial(url, (&target, &hint), (EXEC_SERVER_PATH, Content::Frames(limits))).await?;
    let odd = |error: crate::error::Error| ConnectError::new(&target, ConnectStep::OpenSession, error);
    let stream_id = crate::session::random_text().map_err(odd)?;
    let limits = link::mux::Limits { message_bytes: MOST_MESSAGE, ..link::mux::Limits::default() };
    Ok(link::mux::harness(link, &stream_id, limits))
}

/// The bounds of a link to an exec-server, which may answer with a whole file in one message.
pub fn exec_server_limits() -> link::Limits {
    link::Limits { line_bytes: MOST_MESSAGE, ..link::Limits::default() }
}

impl Dialed {
    /// What a task serves, and what it keeps beside it.
    pub(crate) fn into_connection(self) -> (Connection, Carrier) {
        let can_resume = matches!(self.carrier, Carrier::Socket);
        (Connection::new(self.link, can_resume), self.carrier)
    }
}

impl Carrier {
    /// Why the link ended before a session was open, as far as the carrier knows.
    pub(crate) async fn explain(&mut self, target: &Target) -> ConnectError {
        match self {
            Carrier::Local(child) => local::explain(child).await,
            Carrier::Ssh(child, ssh) => ssh::explain(child, ssh).await,
            Carrier::Socket => {
                ConnectError::new(target, ConnectStep::OpenSession, "the server closed the connection")
                    .transient()
            }
            Carrier::Bridge(fate) => {
                ConnectError::new(target, ConnectStep::OpenSession, fate.text()).transient()
            }
        }
    }

    /// Ends what was started to carry the link: nobody will use it.
    pub(crate) fn end(&mut self) {
        match self {
            Carrier::Local(child) | Carrier::Ssh(child, _) => child.ask_to_end(),
            Carrier::Socket | Carrier::Bridge(_) => {}
        }
    }

    /// What the carrier has said about its end, in one line.
    pub(crate) fn last_words(&self) -> String {
        let errors = match self {
            Carrier::Local(child) | Carrier::Ssh(child, _) => child.errors().text(),
            Carrier::Socket => String::new(),
            Carrier::Bridge(fate) => fate.text(),
        };
        match errors.lines().next_back() {
            Some(line) => line.to_owned(),
            None => "the connection was closed".to_owned(),
        }
    }
}

/// What to do about a target that says nothing.
pub(crate) fn silent(target: &Target) -> String {
    match target {
        Target::Local(_) => "`rexd doctor` says what is wrong on this machine".to_owned(),
        Target::Ssh(ssh) => ssh::silent(ssh),
        Target::Unix(path) => {
            format!("does a rexd listen there? `rexd serve --unix {}` does", path.display())
        }
        Target::Url(url) => format!("is it a rexd that listens at {}, and is its machine up?", url.authority),
        Target::ExecServer(url) => {
            format!("is it an exec-server that listens at {}, and is its machine up?", url.authority)
        }
    }
}

/// Our bounds for a link: answers to requests are few, so one lane serves all.
pub(crate) fn limits() -> link::Limits {
    link::Limits::default()
}

pub(crate) fn find_rexd() -> Option<std::path::PathBuf> {
    local::find_program()
}

pub(crate) fn ssh_command(ssh: &SshTarget, options: &SessionOptions) -> std::process::Command {
    let mut command = ssh::login(ssh, options);
    command.arg("--").arg(ssh::place(ssh));
    command
}

pub(crate) fn ssh_failure(ssh: &SshTarget, status: Option<i32>, said: &str) -> ConnectError {
    ssh::failure(ssh, status, said)
}
