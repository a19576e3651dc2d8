//! Options: what a session asks for when it is opened, and how patient it is with its link.

use std::time::Duration;

use wire::rexd::v1::SessionOpen;

use crate::target::Target;

/// What a session asks for, and how long it waits for its link. Commands have clocks of their own.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Who calls, as the server's audit names it.
    pub client_name: String,
    /// Its version.
    pub client_version: String,
    /// How long reaching the target and opening the session may take.
    pub connect_timeout: Duration,
    /// How long a session whose link was cut is tried to be taken up again. Nothing: not at all.
    pub reconnect_timeout: Duration,
    /// Whether whoever holds this session can decide what policy asks.
    pub approvals: bool,
    /// How output travels.
    pub output: OutputMode,
    /// Whether ssh may ask somebody at a terminal for passwords and unknown host keys.
    pub interactive: bool,
    /// The sandbox of every process of this session that asks for no stricter one.
    pub sandbox: Option<String>,
}

/// How output travels from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputMode {
    /// As base64, which costs both ends least.
    #[default]
    Base64,
    /// As the seed says, text where it is text; and every event is kept as it came, for showing.
    Verbatim,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            client_name: "rex".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            connect_timeout: Duration::from_secs(20),
            reconnect_timeout: Duration::from_secs(55),
            approvals: false,
            output: OutputMode::default(),
            interactive: false,
            sandbox: None,
        }
    }
}

impl SessionOptions {
    /// The first thing said on a new link. A daemon on this machine is cut off only by our own end, and then nothing of
    /// ours is to live on; in front of an exec-server there is a bridge that hides cuts itself.
    pub(crate) fn greeting(&self, target: &Target) -> SessionOpen {
        let may_be_cut = !matches!(target, Target::Local(_) | Target::ExecServer(_));
        SessionOpen {
            client_name: Some(self.client_name.clone()),
            client_version: Some(self.client_version.clone()),
            resume: may_be_cut && !self.reconnect_timeout.is_zero(),
            output_encoding: match self.output {
                OutputMode::Base64 => Some("base64".to_owned()),
                OutputMode::Verbatim => None,
            },
            approvals: Some(self.approvals),
            sandbox: self.sandbox.clone(),
            ..SessionOpen::default()
        }
    }
}
