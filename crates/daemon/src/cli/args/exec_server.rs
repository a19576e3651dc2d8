//! The command line of exec-server.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::{ParsedFlags, UsageError, none_left};
use crate::config::ConfigArgs;
use crate::faces::exec_server::listen::{
    DEFAULT_LISTEN_URL, ExecServerListenUrlParseError, ExecServerTransport,
};

/// The flags of `rexd exec-server`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecServerArgs {
    /// The flags that select the configuration.
    pub config: ConfigArgs,
    /// The transport, unless it registers with a hub.
    pub transport: ExecServerTransport,
    /// The authentication of clients.
    pub ws_auth: WsAuthFlags,
    /// The hub with which it registers instead of listening.
    pub remote: Option<RegistrationArgs>,
}

/// The flags for the authentication of clients, not checked yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WsAuthFlags {
    /// The value of `--ws-auth`.
    pub mode: Option<String>,
    /// The file with the token.
    pub file: Option<PathBuf>,
    /// The SHA-256 digest of the token.
    pub sha256: Option<String>,
}

/// The registration of an executor with a hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationArgs {
    /// The URL of the hub.
    pub url: String,
    /// The id of the executor.
    pub executor_id: String,
    /// The display name of the executor.
    pub name: Option<String>,
}

impl ParsedFlags {
    pub(super) fn exec_server(&self, operands: &[OsString]) -> Result<ExecServerArgs, UsageError> {
        none_left(operands)?;
        let listen = self.text("listen")?;
        let remote = self.remote()?;
        if let (Some(_), Some(_)) = (&listen, &remote) {
            let hint = "use one of them; an executor that registers does not listen";
            return Err(UsageError::new("conflicting flags: --listen and --remote", hint));
        }
        let unusable = |error: ExecServerListenUrlParseError| {
            UsageError::new(error.to_string(), "use an IP address; host names are not resolved")
        };
        let transport = listen.as_deref().unwrap_or(DEFAULT_LISTEN_URL).parse().map_err(unusable)?;
        Ok(ExecServerArgs { config: self.config(&[])?, transport, ws_auth: self.ws_auth()?, remote })
    }

    /// The address in `--exec-server`.
    pub(super) fn exec_server_address(&self) -> Result<Option<SocketAddr>, UsageError> {
        let Some(url) = self.text("exec-server")? else { return Ok(None) };
        match url.parse() {
            Ok(ExecServerTransport::WebSocket { bind_address }) => Ok(Some(bind_address)),
            _ => {
                let message = format!("invalid --exec-server URL {url:?}");
                Err(UsageError::new(message, "use ws://IP:PORT, such as ws://127.0.0.1:0"))
            }
        }
    }

    pub(super) fn ws_auth(&self) -> Result<WsAuthFlags, UsageError> {
        Ok(WsAuthFlags {
            mode: self.text("ws-auth")?,
            file: self.last("ws-token-file").map(PathBuf::from),
            sha256: self.text("ws-token-sha256")?,
        })
    }

    fn remote(&self) -> Result<Option<RegistrationArgs>, UsageError> {
        let (url, id, name) = (self.text("remote")?, self.text("executor-id")?, self.text("name")?);
        match (url, id) {
            (Some(url), Some(id)) if !id.trim().is_empty() => {
                Ok(Some(RegistrationArgs { url, executor_id: id.trim().to_owned(), name }))
            }
            (Some(_), _) => Err(UsageError::new("--remote requires --executor-id", "pass --executor-id ID")),
            (None, None) if name.is_none() => Ok(None),
            (None, _) => {
                Err(UsageError::new("--executor-id and --name require --remote", "pass --remote https://HUB"))
            }
        }
    }
}
