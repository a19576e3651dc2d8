//! The command line of exec-server.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::{ParsedFlags, UsageError, none_left};
use crate::config::ConfigArgs;
use crate::faces::exec_server::listen::{DEFAULT_LISTEN_URL, ExecServerTransport};

/// What `rexd exec-server` is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecServerArgs {
    /// Where the configuration comes from.
    pub config: ConfigArgs,
    /// What it serves on, unless it is remote.
    pub transport: ExecServerTransport,
    /// What clients have to show.
    pub ws_auth: WsAuthFlags,
    /// Where it registers instead of listening.
    pub remote: Option<RegistrationArgs>,
}

/// What clients of a listener have to show, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WsAuthFlags {
    /// The way.
    pub mode: Option<String>,
    /// The file with the token.
    pub file: Option<PathBuf>,
    /// The token's digest.
    pub sha256: Option<String>,
}

/// Where an executor registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationArgs {
    /// The registry.
    pub url: String,
    /// What the executor is called there.
    pub executor_id: String,
    /// What people call it.
    pub name: Option<String>,
}

impl ParsedFlags {
    pub(super) fn exec_server(&self, operands: &[OsString]) -> Result<ExecServerArgs, UsageError> {
        none_left(operands)?;
        let listen = self.text("listen")?;
        let remote = self.remote()?;
        if let (Some(_), Some(_)) = (&listen, &remote) {
            let hint = "an executor that registers does not listen: leave one of them out";
            return Err(UsageError::new("--listen and --remote exclude each other", hint));
        }
        let transport = listen.as_deref().unwrap_or(DEFAULT_LISTEN_URL).parse();
        let transport = transport.map_err(
            |error: crate::faces::exec_server::listen::ExecServerListenUrlParseError| {
                UsageError::new(error.to_string(), "host names are not looked up")
            },
        )?;
        Ok(ExecServerArgs { config: self.config(&[])?, transport, ws_auth: self.ws_auth()?, remote })
    }

    /// The address of `--exec-server`.
    pub(super) fn exec_server_address(&self) -> Result<Option<SocketAddr>, UsageError> {
        let Some(url) = self.text("exec-server")? else { return Ok(None) };
        match url.parse() {
            Ok(ExecServerTransport::WebSocket { bind_address }) => Ok(Some(bind_address)),
            _ => Err(UsageError::new(
                format!("--exec-server cannot listen on {url:?}"),
                "expected ws://IP:PORT, such as ws://127.0.0.1:0",
            )),
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
            (Some(_), _) => {
                Err(UsageError::new("--remote needs --executor-id", "name what the executor is called"))
            }
            (None, None) if name.is_none() => Ok(None),
            (None, _) => Err(UsageError::new(
                "--executor-id and --name need --remote",
                "name the registry: --remote https://HUB",
            )),
        }
    }
}
