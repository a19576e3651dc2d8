//! The options of a session: what it requests from the server, and its timeouts.

use std::time::Duration;

pub use link::websocket::Settings as KeepAlive;
use wire::rexd::v1::SessionOpen;

use crate::target::Target;

/// What a session requests from the server, and the timeouts of its connection. Commands have their own timeouts.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The client's name in the server's audit.
    pub client_name: String,
    /// The client's version.
    pub client_version: String,
    /// Time limit for connecting to the target and opening the session.
    pub connect_timeout: Duration,
    /// Time limit for reconnecting after the connection was lost; zero switches reconnecting off.
    pub reconnect_timeout: Duration,
    /// How a WebSocket is kept alive, and how long a silent server is waited for.
    pub keep_alive: KeepAlive,
    /// Whether this client can answer approval requests.
    pub approvals: bool,
    /// How the server encodes output.
    pub output: OutputMode,
    /// Whether ssh may prompt at the terminal for passwords and unknown host keys.
    pub interactive: bool,
    /// The sandbox of every process of this session that does not request a stricter one.
    pub sandbox: Option<String>,
}

/// How the server encodes the output of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputMode {
    /// As raw bytes where the connection carries them, else as base64.
    #[default]
    Bytes,
    /// Text where the output is text; each event also keeps the line it was received as, for display.
    Verbatim,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            client_name: "rex".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            connect_timeout: Duration::from_secs(20),
            reconnect_timeout: Duration::from_secs(55),
            keep_alive: KeepAlive::default(),
            approvals: false,
            output: OutputMode::default(),
            interactive: false,
            sandbox: None,
        }
    }
}

impl SessionOptions {
    /// The params of `session.open`. A local daemon loses its connection only when this program ends, and then its
    /// processes must end; the bridge to an exec-server reconnects by itself. Neither session is resumed.
    pub(crate) fn open_params(&self, target: &Target) -> SessionOpen {
        let is_resumable = !matches!(target, Target::Local(_) | Target::ExecServer(_));
        SessionOpen {
            client_name: Some(self.client_name.clone()),
            client_version: Some(self.client_version.clone()),
            resume: is_resumable && !self.reconnect_timeout.is_zero(),
            output_encoding: match self.output {
                OutputMode::Bytes => Some("base64".to_owned()),
                OutputMode::Verbatim => None,
            },
            frames: (self.output == OutputMode::Bytes).then(|| wire::binary::ENCODING.to_owned()),
            approvals: Some(self.approvals),
            sandbox: self.sandbox.clone(),
            ..SessionOpen::default()
        }
    }
}
