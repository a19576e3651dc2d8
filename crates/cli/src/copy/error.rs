//! CopyError: an error of a copy, and how much of the copy it ends.

use std::io;

use client::Error;

use crate::failure::Failure;

/// An error of a copy.
#[derive(Debug, Clone)]
pub(super) struct CopyError {
    pub(super) failure: Failure,
    pub(super) scope: ErrorScope,
}

/// How much of the copy an error ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorScope {
    /// One attempt: the connection broke.
    Connection,
    /// One attempt: the received data is not what was sent.
    Attempt,
    /// One file.
    File,
    /// The whole copy: the session is gone.
    Copy,
}

impl CopyError {
    /// An error of one file.
    pub(super) fn file(message: impl Into<String>) -> CopyError {
        CopyError { failure: Failure::new(message), scope: ErrorScope::File }
    }

    /// The same error with a hint.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> CopyError {
        self.failure = self.failure.hint(hint);
        self
    }

    /// The same error, worth another attempt.
    pub(super) fn passing(self) -> CopyError {
        CopyError { scope: ErrorScope::Attempt, ..self }
    }

    /// Adds the action and the path, unless the message contains the path.
    pub(super) fn about(mut self, action: &str, path: &str) -> CopyError {
        if !self.failure.message.contains(path) {
            self.failure.message = format!("cannot {action} {path}: {}", self.failure.message);
        }
        self
    }

    /// Converts an I/O error of a local file.
    pub(super) fn local(action: &str, path: &str) -> impl FnOnce(io::Error) -> CopyError {
        let start = format!("cannot {action} {path}");
        move |error| CopyError::file(format!("{start}: {error}"))
    }
}

impl ErrorScope {
    /// Whether another attempt may succeed.
    pub(super) fn is_passing(self) -> bool {
        matches!(self, ErrorScope::Connection | ErrorScope::Attempt)
    }
}

impl From<Error> for CopyError {
    fn from(error: Error) -> CopyError {
        let scope = match error {
            Error::Lost(_) | Error::Ambiguous { .. } => ErrorScope::Connection,
            Error::Closed
            | Error::Connect(_)
            | Error::Decode { .. }
            | Error::DecodeContent { .. }
            | Error::ResponseTooLarge { .. }
            | Error::InvalidName { .. }
            | Error::MissingExit { .. }
            | Error::Encode { .. }
            | Error::Random(_)
            | Error::ReadInput(_) => ErrorScope::Copy,
            Error::Refused(_) | Error::TooLarge { .. } => ErrorScope::File,
        };
        CopyError { failure: error.into(), scope }
    }
}

impl From<tokio::task::JoinError> for CopyError {
    fn from(error: tokio::task::JoinError) -> CopyError {
        CopyError {
            failure: Failure::new(format!("copy failed: a task ended early: {error}")),
            scope: ErrorScope::Copy,
        }
    }
}
