//! CopyError: what went error with a file, and whether trying again may help.

use std::io;

use client::Error;

use crate::failure::Failure;

/// What went error.
#[derive(Debug, Clone)]
pub(super) struct CopyError {
    pub(super) failure: Failure,
    pub(super) scope: ErrorScope,
}

/// How much is lost by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorScope {
    /// This file, for now: the link was cut, or what arrived is not what was sent.
    Attempt,
    /// This file.
    File,
    /// Everything: there is nobody left to ask.
    Copy,
}

impl CopyError {
    /// Something about a file.
    pub(super) fn file(message: impl Into<String>) -> CopyError {
        CopyError { failure: Failure::new(message), scope: ErrorScope::File }
    }

    /// The same, with what to do next.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> CopyError {
        self.failure = self.failure.hint(hint);
        self
    }

    /// The same, worth another try.
    pub(super) fn passing(self) -> CopyError {
        CopyError { scope: ErrorScope::Attempt, ..self }
    }

    /// Names what was to be done with which path, unless the message does so already.
    pub(super) fn about(mut self, action: &str, path: &str) -> CopyError {
        if !self.failure.message.contains(path) {
            self.failure.message = format!("cannot {action} {path}: {}", self.failure.message);
        }
        self
    }

    /// What this machine says about one of its files.
    pub(super) fn local(action: &str, path: &str) -> impl FnOnce(io::Error) -> CopyError {
        let start = format!("cannot {action} {path}");
        move |error| CopyError::file(format!("{start}: {error}"))
    }
}

impl From<Error> for CopyError {
    fn from(error: Error) -> CopyError {
        let scope = match error {
            Error::Lost(_) | Error::Ambiguous { .. } => ErrorScope::Attempt,
            Error::Closed
            | Error::Connect(_)
            | Error::Decode { .. }
            | Error::DecodeContent { .. }
            | Error::ResponseTooLarge { .. }
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
            failure: Failure::new(format!("a part of the copy ended early: {error}")),
            scope: ErrorScope::Copy,
        }
    }
}
