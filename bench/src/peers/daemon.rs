//! `rexd serve`: one daemon, and clients of it over a unix socket, a WebSocket and HTTP.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;

use anyhow::{Context, Result};
use serde_json::json;

use super::peer::JsonPeer;
use super::rexd::{Encoding, Rexd, Setup};
use super::rexd_http::{ExitSource, RexdHttp};
use super::websocket::{WebSocket, WebSocketAddress};
use super::wire::Wire;
use crate::watchdog::{Server, tied};

/// The token of the clients; the daemon reads it from its environment.
const TOKEN: &str = "rexd-bench-token-0123456789abcdef";
/// The token as a header.
const CREDENTIALS: &str = "Authorization: Bearer rexd-bench-token-0123456789abcdef";

/// A daemon that listens.
#[derive(Debug)]
pub(crate) struct Daemon {
    /// The process.
    pub(crate) server: Rc<Server>,
    setup: Setup,
    unix: PathBuf,
    /// The HTTP address on loopback.
    pub(crate) port: u16,
}

impl Daemon {
    /// Starts a daemon and waits until it listens.
    pub(crate) fn start(setup: Setup) -> Result<Self> {
        let unix = setup.directory.join(format!("s{}", std::process::id()));
        let mut server = Server::start(
            tied(&setup.program)
                .args(["serve", "--http", "127.0.0.1:0", "--unix"])
                .arg(&unix)
                .arg("--config")
                .arg(setup.configured()?)
                .env("XDG_STATE_HOME", setup.directory.join("state"))
                .env("REXD_TOKEN", TOKEN)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(fs::File::create(setup.directory.join("rexd.stderr"))?),
        )?
        .ends_with_signal();
        let (mut port, mut has_unix) = (None, false);
        let mut lines = BufReader::new(server.stdout()?);
        while port.is_none() || !has_unix {
            let mut line = String::new();
            let read = lines.read_line(&mut line)?;
            let url = line.trim().strip_prefix("listening rexd ");
            let url = url.filter(|_| read > 0).with_context(|| setup.complaint())?;
            has_unix |= url.starts_with("unix://");
            port = port.or(url.strip_prefix("http://127.0.0.1:").and_then(|port| port.parse().ok()));
        }
        let port = port.context("no port")?;
        Ok(Self { server: Rc::new(server), setup, unix, port })
    }

    /// The path of its unix socket.
    pub(crate) fn socket_path(&self) -> &Path {
        &self.unix
    }

    /// A client on the unix socket, with a session.
    pub(crate) fn unix(&self) -> Result<JsonPeer<Rexd>> {
        self.opened("unix", Wire::unix(&self.unix)?)
    }

    /// A client on a WebSocket, with a session.
    pub(crate) fn websocket(&self) -> Result<JsonPeer<Rexd>> {
        self.opened("ws", self.socket(self.port)?)
    }

    /// A WebSocket client without a session, on the port of a proxy or of the daemon.
    pub(crate) fn through(&self, port: u16, label: &str, encoding: Encoding) -> Result<JsonPeer<Rexd>> {
        Ok(JsonPeer::new(Rexd::new(label, encoding), self.server.clone(), self.socket(port)?))
    }

    /// A client over HTTP, with a session.
    pub(crate) fn http(&self, ending: ExitSource) -> Result<RexdHttp> {
        RexdHttp::open(self.server.clone(), self.port, CREDENTIALS, ending)
    }

    fn socket(&self, port: u16) -> Result<Wire> {
        let address = format!("127.0.0.1:{port}");
        let address = WebSocketAddress { address, path: "/ws", token: Some(TOKEN), acknowledges: false };
        Ok(Wire::WebSocket(WebSocket::connect(&address)?))
    }

    fn opened(&self, label: &str, wire: Wire) -> Result<JsonPeer<Rexd>> {
        let label = match self.setup.encoding {
            Encoding::Base64 => label.to_owned(),
            Encoding::Utf8 => format!("{label} utf8"),
        };
        let mut peer = JsonPeer::new(Rexd::new(&label, self.setup.encoding), self.server.clone(), wire);
        peer.open(json!({})).with_context(|| self.setup.complaint())?;
        Ok(peer)
    }
}
