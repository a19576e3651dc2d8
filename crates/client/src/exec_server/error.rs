//! The errors of the exec-server client: one variant per failed operation, with its source.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use wire::exec_server::ErrorObject;

use crate::error::ConnectError;

/// Why an operation failed, or may have failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExecServerError {
    /// The server's program could not be started.
    #[error("cannot start the exec-server {program}: {source}")]
    Spawn {
        /// The path of the program.
        program: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The server's program ended before it answered the handshake.
    #[error("cannot start the exec-server {program}: {}", exit_text(*status, stderr))]
    ExitedEarly {
        /// The path of the program.
        program: String,
        /// Its exit status, if it has ended.
        status: Option<ExitStatus>,
        /// The end of its standard error.
        stderr: String,
    },
    /// The server's program did not end although its input was closed.
    #[error("the exec-server does not exit although its input is closed")]
    StillRunning,
    /// The server could not be reached.
    #[error(transparent)]
    Connect(Box<ConnectError>),
    /// The server did not answer the handshake in time.
    #[error("the exec-server did not answer `initialize` within {0:?}")]
    InitializeTimedOut(Duration),
    /// The server answered with an error.
    #[error("{0}")]
    Refused(Box<ErrorObject>),
    /// The connection was lost before the response arrived, and a second request could perform the operation twice.
    #[error("connection lost during `{method}`; it may or may not have been executed")]
    Ambiguous {
        /// The method of the request.
        method: &'static str,
    },
    /// Some notifications were not received; those that follow are.
    #[error("notifications are missing: {0}")]
    Missed(MissedCause),
    /// The session and everything in it are gone.
    #[error("the session is lost: {0}")]
    Lost(Box<ExecServerLoss>),
    /// The params of a request could not be written as JSON.
    #[error("cannot encode the params of `{method}`: {source}")]
    Encode {
        /// The method of the request.
        method: &'static str,
        /// The encoder's error.
        source: Arc<serde_json::Error>,
    },
    /// A response or notification does not have the members that the protocol defines.
    #[error("protocol error: invalid message for `{method}`: {source}")]
    Decode {
        /// The method of the request or notification.
        method: &'static str,
        /// The decoder's error.
        source: Arc<serde_json::Error>,
    },
    /// The server sent a message above the limit, which may have been any response.
    #[error("protocol error: a response of {bytes} bytes is above the message limit")]
    ResponseTooLarge {
        /// The size of the message.
        bytes: u64,
    },
    /// The operating system provided no random bytes for names.
    #[error("cannot get random bytes: {0}")]
    Random(getrandom::Error),
    /// The connection was closed by this client.
    #[error("the connection is closed")]
    Closed,
}

/// Why notifications are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MissedCause {
    /// The connection was lost and replaced.
    #[error("the connection was lost")]
    Disconnected,
    /// They were not read in time.
    #[error("they were not read in time")]
    SlowReader,
}

/// Why a session is lost.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExecServerLoss {
    /// The connection was lost and cannot be established again.
    #[error("the connection was closed")]
    Disconnected,
    /// The server opened another session instead of resuming this one.
    #[error("the connection was lost, and the server opened another session")]
    OtherSession,
    /// A process of v0 ended with its connection.
    #[error("the connection was lost, and processes of v0 end with it")]
    V0Process,
    /// Reconnecting failed for a reason that a later attempt would not change.
    #[error("the connection was lost; cannot reconnect: {}", with_hint(.0))]
    Reconnect(ExecServerError),
    /// No attempt to reconnect succeeded in time.
    #[error("the connection was lost; not reconnected within {} s: {error}", timeout.as_secs())]
    ReconnectTimeout {
        /// The time limit.
        timeout: Duration,
        /// Why the last attempt failed.
        error: ExecServerError,
    },
}

impl ExecServerError {
    /// The code of the server's error response; see [`code`](wire::exec_server::code).
    pub fn code(&self) -> Option<i64> {
        match self {
            ExecServerError::Refused(error) => Some(error.code),
            _ => None,
        }
    }

    /// Creates the error for params that cannot be encoded.
    pub(crate) fn encode(method: &'static str, source: serde_json::Error) -> ExecServerError {
        ExecServerError::Encode { method, source: Arc::new(source) }
    }

    /// Creates the error for a message that cannot be decoded.
    pub(crate) fn decode(method: &'static str, source: serde_json::Error) -> ExecServerError {
        ExecServerError::Decode { method, source: Arc::new(source) }
    }
}

impl From<ConnectError> for ExecServerError {
    fn from(error: ConnectError) -> ExecServerError {
        ExecServerError::Connect(Box::new(error))
    }
}

impl From<ErrorObject> for ExecServerError {
    fn from(error: ErrorObject) -> ExecServerError {
        ExecServerError::Refused(Box::new(error))
    }
}

impl From<ExecServerLoss> for ExecServerError {
    fn from(loss: ExecServerLoss) -> ExecServerError {
        ExecServerError::Lost(Box::new(loss))
    }
}

fn with_hint(error: &ExecServerError) -> String {
    match error {
        ExecServerError::Connect(error) => error.with_hint(),
        error => error.to_string(),
    }
}

fn exit_text(status: Option<ExitStatus>, stderr: &str) -> String {
    let status = status.map_or_else(|| "it closed its output".to_owned(), |status| status.to_string());
    match stderr.is_empty() {
        true => status,
        false => format!("{status}: {stderr}"),
    }
}
