//! The errors of the client: one variant per failed operation, with its source.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use wire::base64::InvalidBase64;
use wire::rexd::v1::{RpcError, codes};

use crate::exec_server::ExecServerError;

/// Why an operation failed, or may have failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The target could not be reached.
    #[error(transparent)]
    Connect(Box<ConnectError>),
    /// The server answered with an error.
    #[error("{}", .0.message)]
    Refused(Box<RpcError>),
    /// The connection was lost before the response arrived, and a second request could perform the operation twice.
    #[error("connection lost during `{method}` ({disconnect}); it may or may not have been executed")]
    Ambiguous {
        /// The method of the request.
        method: &'static str,
        /// Why the connection was lost.
        disconnect: Disconnect,
    },
    /// The request was not sent: it is above the message limit of every server.
    #[error("message too large: `{method}` needs {bytes} bytes (limit {limit})")]
    TooLarge {
        /// The method of the request.
        method: &'static str,
        /// The size of the message.
        bytes: usize,
        /// The largest message that is sent.
        limit: usize,
    },
    /// The session and everything attached to it are gone.
    #[error("the session is lost: {0}")]
    Lost(Box<SessionLoss>),
    /// The params of a request could not be written as JSON.
    #[error("cannot encode the params of `{method}`: {source}")]
    Encode {
        /// The method of the request.
        method: &'static str,
        /// The encoder's error.
        source: Arc<serde_json::Error>,
    },
    /// A response does not have the members that the protocol defines.
    #[error("protocol error: invalid response to `{method}`: {source}")]
    Decode {
        /// The method of the request.
        method: &'static str,
        /// The decoder's error.
        source: Arc<serde_json::Error>,
    },
    /// The content of a file is not valid base64.
    #[error("protocol error: invalid content in the response to `{method}`: {source}")]
    DecodeContent {
        /// The method of the request.
        method: &'static str,
        /// The decoder's error.
        source: InvalidBase64,
    },
    /// The server sent a message above the limit, which may have been any response.
    #[error("protocol error: a response of {bytes} bytes is above the message limit")]
    ResponseTooLarge {
        /// The size of the message.
        bytes: u64,
    },
    /// The events of a process ended before its exit.
    #[error("protocol error: the events of process {process_id} ended without its exit")]
    MissingExit {
        /// The process.
        process_id: String,
    },
    /// A listing contains a name that is not the name of one file.
    #[error("protocol error: the server listed the name {name:?} in {directory:?}, which is not a file name")]
    InvalidName {
        /// The name.
        name: String,
        /// The directory that was listed.
        directory: String,
    },
    /// The operating system provided no random bytes for request keys.
    #[error("cannot get random bytes: {0}")]
    Random(getrandom::Error),
    /// The input for a remote process could not be read.
    #[error("cannot read stdin: {0}")]
    ReadInput(Arc<io::Error>),
    /// The session was closed by this client.
    #[error("the session is closed")]
    Closed,
}

impl Error {
    /// The server's error response, if it sent one.
    pub fn rpc(&self) -> Option<&RpcError> {
        match self {
            Error::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// The code of the server's error response; see [`codes`].
    pub fn code(&self) -> Option<i64> {
        self.rpc().map(|error| error.code)
    }

    /// Whether the server reported that the process does not exist.
    pub fn is_unknown_process(&self) -> bool {
        self.code() == Some(codes::PROCESS_NOT_FOUND)
    }

    /// Creates the error for params that cannot be encoded.
    pub(crate) fn encode(method: &'static str, source: serde_json::Error) -> Error {
        Error::Encode { method, source: Arc::new(source) }
    }

    /// Creates the error for a response that cannot be decoded.
    pub(crate) fn decode(method: &'static str, source: serde_json::Error) -> Error {
        Error::Decode { method, source: Arc::new(source) }
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Error {
        Error::Connect(Box::new(error))
    }
}

impl From<RpcError> for Error {
    fn from(error: RpcError) -> Error {
        Error::Refused(Box::new(error))
    }
}

impl From<SessionLoss> for Error {
    fn from(loss: SessionLoss) -> Error {
        Error::Lost(Box::new(loss))
    }
}

/// Why a connection ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Disconnect {
    /// The server closed it, or the network failed.
    #[error("the connection was closed")]
    Closed,
    /// The program that carried it ended; this is the last line of its standard error.
    #[error("{0}")]
    Carrier(String),
    /// The client behind the bridge to an exec-server failed, after its own attempts to reconnect.
    #[error("{0}")]
    ExecServer(Arc<ExecServerError>),
}

/// Why a session is lost.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionLoss {
    /// The connection was lost, and reconnecting is switched off.
    #[error("{0}")]
    Disconnected(Disconnect),
    /// The server does not keep sessions without a connection.
    #[error("{0}; the server keeps no disconnected sessions")]
    NotResumable(Disconnect),
    /// The server no longer has the session.
    #[error("{disconnect}; the server no longer has the session ({})", error.message)]
    Expired {
        /// Why the connection was lost.
        disconnect: Disconnect,
        /// The server's response to the attempt to resume.
        error: RpcError,
    },
    /// Reconnecting failed for a reason that a later attempt would not change.
    #[error("{}", reconnect_failure(disconnect, error))]
    Reconnect {
        /// Why the connection was lost.
        disconnect: Disconnect,
        /// Why the attempt failed.
        error: Box<Error>,
    },
    /// No attempt to reconnect succeeded in time.
    #[error("{disconnect}; not reconnected within {} s: {error}", timeout.as_secs())]
    ReconnectTimeout {
        /// Why the connection was lost.
        disconnect: Disconnect,
        /// The time limit.
        timeout: Duration,
        /// Why the last attempt failed.
        error: Box<Error>,
    },
}

fn reconnect_failure(disconnect: &Disconnect, error: &Error) -> String {
    match (disconnect, error) {
        // It has tried to reconnect itself, and its text has the result.
        (Disconnect::ExecServer(_), _) => disconnect.to_string(),
        (Disconnect::Closed | Disconnect::Carrier(_), Error::Connect(error)) => {
            format!("{disconnect}; cannot reconnect: {}", error.with_hint())
        }
        (Disconnect::Closed | Disconnect::Carrier(_), error) => {
            format!("{disconnect}; cannot reconnect: {error}")
        }
    }
}

/// A target that could not be reached: the failed step, its cause and a hint for the user.
#[derive(Debug, Clone)]
pub struct ConnectError {
    /// The target as the user writes it.
    pub target: String,
    /// The step that failed.
    pub step: ConnectStep,
    /// Why it failed.
    pub cause: String,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// Whether another attempt could succeed a little later.
    pub is_transient: bool,
}

/// The steps of opening a session, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectStep {
    /// Find the program or the address.
    Find,
    /// Connect to the machine.
    Connect,
    /// Authenticate the user.
    Authenticate,
    /// Start the daemon on the machine.
    Start,
    /// Agree on protocol and version.
    OpenSession,
}

impl ConnectStep {
    /// The step as the verb of an error message.
    pub const fn as_str(self) -> &'static str {
        match self {
            ConnectStep::Find => "find",
            ConnectStep::Connect => "reach",
            ConnectStep::Authenticate => "log in to",
            ConnectStep::Start => "start rexd on",
            ConnectStep::OpenSession => "open a session on",
        }
    }
}

impl ConnectError {
    /// Creates the error of a failed step, without a hint.
    pub fn new(target: impl fmt::Display, step: ConnectStep, cause: impl fmt::Display) -> ConnectError {
        ConnectError {
            target: target.to_string(),
            step,
            cause: cause.to_string(),
            hint: None,
            is_transient: false,
        }
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> ConnectError {
        ConnectError { hint: Some(hint.into()), ..self }
    }

    /// The error and its hint in one line.
    pub(crate) fn with_hint(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{self} ({hint})"),
            None => self.to_string(),
        }
    }

    /// Whether the connection was made and ended before the session was open.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_transient && self.step == ConnectStep::OpenSession
    }

    /// Marks the error as one that a later attempt may not have.
    #[must_use]
    pub fn transient(self) -> ConnectError {
        ConnectError { is_transient: true, ..self }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.step.as_str(), self.target, self.cause)
    }
}

impl std::error::Error for ConnectError {}
