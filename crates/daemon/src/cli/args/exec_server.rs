//! The command line of exec-server.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
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
    /// The most requests of one connection that run at the same time, if it is limited further.
    pub concurrent_requests: Option<NonZeroUsize>,
}

/// The flags of `codex exec-server` that `rexd` does not have, and the hint for each.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (
        &["-c", "--enable", "--disable", "--strict-config"],
        "rexd reads no configuration of Codex; leave it out and use --config FILE",
    ),
    (
        &["--ws-shared-secret-file", "--ws-issuer", "--ws-audience", "--ws-max-clock-skew-seconds"],
        "signed tokens are not supported; use --ws-auth capability-token with --ws-token-file FILE",
    ),
    (&["--environment-id"], "the hub of rexd names executors; use --executor-id ID"),
    (
        &["--remote-transport"],
        "the encrypted relay is not supported; run `codex exec-server forward` in front of `rexd exec-server`",
    ),
    (
        &["--use-agent-identity-auth", "--executor-credential-stdin"],
        "the hub of rexd accepts a token; set CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN",
    ),
    (
        &["--aws-sigv4", "--aws-profile", "--aws-region", "--aws-service"],
        "AWS signatures are not supported; set CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN",
    ),
    (
        &["--exit-on-stdin-close"],
        "use --listen stdio, which ends with its input, or end the server with a signal",
    ),
    (&["--linux-sandbox-pid-namespace"], "sandboxed commands of rexd share the PID namespace; leave it out"),
    (&["--proxy-private-ips-via-upstream"], "rexd has no network proxy for commands; leave it out"),
];

/// The error for a flag that only `codex exec-server` has.
pub(super) fn unsupported_flag(flag: &str) -> Option<UsageError> {
    let (_, hint) = UNSUPPORTED.iter().find(|(flags, _)| flags.contains(&flag))?;
    Some(UsageError::new(format!("`rexd exec-server` does not support {flag}"), *hint))
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

/// The error for a subcommand of `codex exec-server` that this face does not have.
pub(super) fn unsupported_command(operands: &[OsString]) -> Option<UsageError> {
    let hint = "run `codex exec-server forward --connect ws://IP:PORT` in front of `rexd exec-server`";
    let is_forward = operands.first().is_some_and(|operand| operand == "forward");
    is_forward.then(|| UsageError::new("`rexd exec-server` does not support `forward`", hint))
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
        if let Some(error) = unsupported_command(operands) {
            return Err(error);
        }
        none_left(operands)?;
        let concurrent_requests = self.number("concurrent-requests", "number of requests", "1 or more")?;
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
        let (config, ws_auth) = (self.config(&[])?, self.ws_auth()?);
        Ok(ExecServerArgs { config, transport, ws_auth, remote, concurrent_requests })
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
