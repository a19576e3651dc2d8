//! Wrong: what went wrong with a file, and whether trying again may help.

use std::io;

use client::Error;

use crate::failure::Failure;

/// What went wrong.
#[derive(Debug, Clone)]
pub(super) struct Wrong {
    pub(super) failure: Failure,
    pub(super) weight: Weight,
}

/// How much is lost by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// This file, for now: the link was cut, or what arrived is not what was sent.
    Try,
    /// This file.
    File,
    /// Everything: there is nobody left to ask.
    All,
}

impl Wrong {
    /// Something about a file.
    pub(super) fn file(message: impl Into<String>) -> Wrong {
        Wrong { failure: Failure::new(message), weight: Weight::File }
    }

    /// The same, with what to do next.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Wrong {
        self.failure = self.failure.hint(hint);
        self
    }

    /// The same, worth another try.
    pub(super) fn passing(self) -> Wrong {
        Wrong { weight: Weight::Try, ..self }
    }

    /// Names what was to be done with which path, unless the message does so already.
    pub(super) fn about(mut self, action: &str, path: &str) -> Wrong {
        if !self.failure.message.contains(path) {
            self.failure.message = format!("cannot {action} {path}: {}", self.failure.message);
        }
        self
    }

    /// What this machine says about one of its files.
    pub(super) fn here(action: &str, path: &str) -> impl FnOnce(io::Error) -> Wrong {
        let start = format!("cannot {action} {path}");
        move |error| Wrong::file(format!("{start}: {error}"))
    }
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        let weight = match error {
            Error::Lost(_) | Error::Ambiguous { .. } => Weight::Try,
            Error::Closed
            | Error::Connect(_)
            | Error::Decode { .. }
            | Error::DecodeContent { .. }
            | Error::ResponseTooLarge { .. }
            | Error::MissingExit { .. }
            | Error::Encode { .. }
            | Error::Random(_)
            | Error::ReadInput(_) => Weight::All,
            Error::Refused(_) | Error::TooLarge { .. } => Weight::File,
        };
        Wrong { failure: error.into(), weight }
    }
}

impl From<tokio::task::JoinError> for Wrong {
    fn from(error: tokio::task::JoinError) -> Wrong {
        Wrong {
            failure: Failure::new(format!("a part of the copy ended early: {error}")),
            weight: Weight::All,
        }
    }
}
