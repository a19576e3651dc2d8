//! ExecServerError: what can go wrong between here and an exec-server.

use std::time::Duration;

use wire::exec_server::ErrorObject;

use crate::error::ConnectError;

/// Why something did not happen, or may not have.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExecServerError {
    /// The server's program could not be started.
    #[error("cannot start the exec-server: {0}")]
    Spawn(String),
    /// The server could not be reached.
    #[error(transparent)]
    Connect(Box<ConnectError>),
    /// The server did not answer the handshake in time.
    #[error("the exec-server did not answer `initialize` within {0:?}")]
    InitializeTimedOut(Duration),
    /// The server refused.
    #[error("{0}")]
    Refused(Box<ErrorObject>),
    /// The link was cut before the answer came, and asking again could do it twice.
    #[error("the link was cut while `{method}` was under way ({cut}); it may or may not have been done")]
    Ambiguous {
        /// What was asked.
        method: &'static str,
        /// Why the link was cut.
        cut: String,
    },
    /// The server said things that nobody heard; what is said from here on is heard.
    #[error("notifications are missing: {0}")]
    Missed(&'static str),
    /// The session is gone with everything in it.
    #[error("the session is lost: {0}")]
    Lost(String),
    /// The server says what makes no sense.
    #[error("the exec-server does not keep to the protocol: {0}")]
    Protocol(String),
    /// The connection was closed here.
    #[error("the connection is closed")]
    Closed,
}

impl ExecServerError {
    /// The server's code, if it gave an answer; see [`code`](wire::exec_server::code).
    pub fn code(&self) -> Option<i64> {
        match self {
            ExecServerError::Refused(error) => Some(error.code),
            _ => None,
        }
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
