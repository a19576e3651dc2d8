//! `[exec_server]`: the exec-server face of `rexd serve`; flags take precedence.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::section::{ConfigError, Section};
use crate::cli::args::{RegistrationArgs, WsAuthFlags};
use crate::faces::exec_server::listen::ExecServerTransport;

/// The listener and the registration of the exec-server face.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecServerConfig {
    /// The address of its WebSocket listener.
    pub listen: Option<SocketAddr>,
    /// The authentication of the listener's clients.
    pub ws_auth: WsAuthFlags,
    /// The hub with which it registers as an executor.
    pub remote: Option<RegistrationArgs>,
    /// The file with the executor's token; otherwise the token is in the environment.
    pub remote_token_file: Option<PathBuf>,
}

/// The only value of `ws_auth`.
const TOKEN: &str = "capability-token";

pub(super) fn read(section: Section<'_, '_>) -> Result<ExecServerConfig, ConfigError> {
    let config = ExecServerConfig {
        listen: listen(&section)?,
        ws_auth: ws_auth(&section)?,
        remote: remote(&section)?,
        remote_token_file: section.file("remote_token_file")?,
    };
    match config.remote_token_file.is_some() && config.remote.is_none() {
        true => Err(section.requires("remote_token_file", "remote")),
        false => Ok(config),
    }
}

fn listen(section: &Section<'_, '_>) -> Result<Option<SocketAddr>, ConfigError> {
    let Some(url) = section.filled_text("listen")? else { return Ok(None) };
    match url.parse() {
        Ok(ExecServerTransport::WebSocket { bind_address }) => Ok(Some(bind_address)),
        Ok(ExecServerTransport::Stdio) | Err(_) => {
            Err(section.error("listen", format_args!("must be ws://IP:PORT, not {url:?}")))
        }
    }
}

fn ws_auth(section: &Section<'_, '_>) -> Result<WsAuthFlags, ConfigError> {
    let (file, sha256) = (section.file("ws_token_file")?, section.filled_text("ws_token_sha256")?);
    if file.is_some() && sha256.is_some() {
        let other = section.path_of("ws_token_file");
        return Err(section.error("ws_token_sha256", format_args!("conflicts with {other}; use one of them")));
    }
    let mode = (file.is_some() || sha256.is_some()).then(|| TOKEN.to_owned());
    Ok(WsAuthFlags { mode, file, sha256 })
}

fn remote(section: &Section<'_, '_>) -> Result<Option<RegistrationArgs>, ConfigError> {
    let (url, id) = (section.filled_text("remote")?, section.filled_text("executor_id")?);
    let name = section.filled_text("executor_name")?;
    match (url, id) {
        (Some(url), Some(executor_id)) => Ok(Some(RegistrationArgs { url, executor_id, name })),
        (Some(_), None) => Err(section.requires("remote", "executor_id")),
        (None, Some(_)) => Err(section.requires("executor_id", "remote")),
        (None, None) if name.is_some() => Err(section.requires("executor_name", "remote")),
        (None, None) => Ok(None),
    }
}
