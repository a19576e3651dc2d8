//! What a connection to an exec-server asks for, and how patient it is.

use std::fmt;
use std::time::Duration;

/// How long the handshake may take, unless somebody says otherwise; as long as Codex itself waits.
const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long reaching the server may take, unless somebody says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const CLIENT_NAME: &str = "rexd-exec-server-client";

/// What is said in the handshake, whatever carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecServerClientConnectOptions {
    /// What the client calls itself.
    pub client_name: String,
    /// How long the handshake may take.
    pub initialize_timeout: Duration,
    /// The session to go on with; a new one if absent.
    pub resume_session_id: Option<String>,
}

/// A server that is reached by WebSocket, and what is said in the handshake.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteExecServerConnectArgs {
    /// `ws://` or `wss://`; with `role=harness` in its query it is a rendezvous that speaks relay frames.
    pub websocket_url: String,
    /// What the client calls itself.
    pub client_name: String,
    /// How long reaching the server may take.
    pub connect_timeout: Duration,
    /// How long the handshake may take.
    pub initialize_timeout: Duration,
    /// The session to go on with; a new one if absent.
    pub resume_session_id: Option<String>,
    /// Sent as a bearer token, if the server wants one.
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
    /// A server at this address, with the usual patience.
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
        // The token, and a query that may hold one, are nobody's business.
        let url = self.websocket_url.split('?').next().unwrap_or_default();
        f.debug_struct("RemoteExecServerConnectArgs")
            .field("websocket_url", &url)
            .field("client_name", &self.client_name)
            .finish_non_exhaustive()
    }
}
