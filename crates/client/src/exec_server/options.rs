//! The options of a connection to an exec-server: handshake params and timeouts.

use std::fmt;
use std::time::Duration;

/// The default time limit for the handshake, which is also Codex's.
const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(10);
/// The default time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const CLIENT_NAME: &str = "rexd-exec-server-client";

/// The handshake params and its time limit, for any link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecServerClientConnectOptions {
    /// The client's name in the server's audit.
    pub client_name: String,
    /// Time limit for the handshake.
    pub initialize_timeout: Duration,
    /// The session to resume; a new one is opened if absent.
    pub resume_session_id: Option<String>,
}

/// The address of a server's WebSocket, the handshake params and the time limits.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteExecServerConnectArgs {
    /// A `ws://` or `wss://` URL; with `role=harness` in its query, that of a rendezvous with relay frames.
    pub websocket_url: String,
    /// The client's name in the server's audit.
    pub client_name: String,
    /// Time limit for connecting.
    pub connect_timeout: Duration,
    /// Time limit for the handshake.
    pub initialize_timeout: Duration,
    /// The session to resume; a new one is opened if absent.
    pub resume_session_id: Option<String>,
    /// The bearer token, if the server needs one.
    pub bearer_token: Option<String>,
}

impl Default for ExecServerClientConnectOptions {
    fn default() -> ExecServerClientConnectOptions {
        ExecServerClientConnectOptions {
            client_name: CLIENT_NAME.to_owned(),
            initialize_timeout: INITIALIZE_TIMEOUT,
            resume_session_id: None,
        }
    }
}

impl RemoteExecServerConnectArgs {
    /// A server at this address, with the default time limits.
    pub fn new(
        websocket_url: impl Into<String>,
        client_name: impl Into<String>,
    ) -> RemoteExecServerConnectArgs {
        RemoteExecServerConnectArgs {
            websocket_url: websocket_url.into(),
            client_name: client_name.into(),
            connect_timeout: CONNECT_TIMEOUT,
            initialize_timeout: INITIALIZE_TIMEOUT,
            resume_session_id: None,
            bearer_token: None,
        }
    }
}

impl From<RemoteExecServerConnectArgs> for ExecServerClientConnectOptions {
    fn from(args: RemoteExecServerConnectArgs) -> ExecServerClientConnectOptions {
        ExecServerClientConnectOptions {
            client_name: args.client_name,
            initialize_timeout: args.initialize_timeout,
            resume_session_id: args.resume_session_id,
        }
    }
}

impl fmt::Debug for RemoteExecServerConnectArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token, and the query that may contain one, are not printed.
        let url = self.websocket_url.split('?').next().unwrap_or_default();
        f.debug_struct("RemoteExecServerConnectArgs")
            .field("websocket_url", &url)
            .field("client_name", &self.client_name)
            .finish_non_exhaustive()
    }
}
