//! Error: what can go wrong between here and a target, each with what is known about it.

use std::fmt;

use wire::rexd::v1::{RpcError, codes};

/// Why something did not happen, or may not have.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The target could not be reached.
    #[error(transparent)]
    Connect(Box<ConnectError>),
    /// The server refused.
    #[error("{}", .0.message)]
    Refused(Box<RpcError>),
    /// The link was cut before the answer came, and asking again could do it twice.
    #[error("the link was cut while `{method}` was under way ({cut}); it may or may not have been done")]
    Ambiguous {
        /// What was asked.
        method: &'static str,
        /// Why the link was cut.
        cut: String,
    },
    /// It was not sent: no server takes a message of that length.
    #[error("`{method}` needs a message of {bytes} bytes and {most} is the most that is taken")]
    TooLong {
        /// What was asked.
        method: &'static str,
        /// How long the message would be.
        bytes: usize,
        /// How long one may be.
        most: usize,
    },
    /// The session is gone with everything attached to it.
    #[error("the session is lost: {0}")]
    Lost(String),
    /// The server says what makes no sense.
    #[error("the server does not keep to the protocol: {0}")]
    Protocol(String),
    /// The session was closed here.
    #[error("the session is closed")]
    Closed,
}

impl Error {
    /// The server's answer, if it gave one.
    pub fn rpc(&self) -> Option<&RpcError> {
        match self {
            Error::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// The server's code, if it gave one; see [`codes`].
    pub fn code(&self) -> Option<i64> {
        self.rpc().map(|error| error.code)
    }

    /// Whether the server says that there is no such process.
    pub fn is_unknown_process(&self) -> bool {
        self.code() == Some(codes::PROCESS_NOT_FOUND)
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

/// A target that could not be reached: which step failed, why, and what to do about it.
#[derive(Debug, Clone)]
pub struct ConnectError {
    /// The target, as people write it.
    pub target: String,
    /// How far it went.
    pub step: ConnectStep,
    /// What happened.
    pub cause: String,
    /// What to do next.
    pub hint: Option<String>,
    /// Whether the same could succeed a little later.
    pub is_transient: bool,
}

/// The steps to a session, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectStep {
    /// Finding the program or the address.
    Find,
    /// Reaching the machine.
    Connect,
    /// Being let in.
    Authenticate,
    /// Starting the daemon there.
    Start,
    /// Agreeing on protocol and version.
    OpenSession,
}

impl ConnectStep {
    /// What was being done.
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
    /// A failed step.
    pub fn new(target: impl fmt::Display, step: ConnectStep, cause: impl fmt::Display) -> ConnectError {
        ConnectError {
            target: target.to_string(),
            step,
            cause: cause.to_string(),
            hint: None,
            is_transient: false,
        }
    }

    /// The same, with what to do next.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> ConnectError {
        ConnectError { hint: Some(hint.into()), ..self }
    }

    /// What went wrong and what to do next, in one line.
    pub(crate) fn in_full(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{self} ({hint})"),
            None => self.to_string(),
        }
    }

    /// The same, of a kind that passes.
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
