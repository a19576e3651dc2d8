//! CopyError: an error of a copy, and how much of the copy it ends.

use std::io;

use client::Error;

use crate::failure::Failure;

/// An error of a copy.
#[derive(Debug, Clone)]
pub(super) struct CopyError {
    pub(super) failure: Failure,
    pub(super) scope: ErrorScope,
    /// Whether there is no space for the data.
    pub(super) is_disk_full: bool,
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
        CopyError { failure: Failure::new(message), scope: ErrorScope::File, is_disk_full: false }
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
        self.with_write_hint(action)
    }

    /// Adds a hint to an error of a write that has none.
    fn with_write_hint(mut self, action: &str) -> CopyError {
        let hint = match self.is_disk_full {
            true => "free some space and copy again",
            false => "check that its directory exists and can be written, then copy again",
        };
        if action == "write" && self.scope == ErrorScope::File {
            self.failure.hint.get_or_insert_with(|| hint.to_owned());
        }
        self
    }

    /// Converts an I/O error of a local file.
    pub(super) fn local(action: &str, path: &str) -> impl FnOnce(io::Error) -> CopyError {
        let start = format!("cannot {action} {path}");
        move |error| {
            let is_disk_full = error.raw_os_error().is_some_and(|errno| is_disk_full(errno.into()));
            let error = CopyError { is_disk_full, ..CopyError::file(format!("{start}: {error}")) };
            error.with_write_hint(action)
        }
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
        let errno = error.rpc().and_then(|error| error.data["errno"].as_i64());
        CopyError { failure: error.into(), scope, is_disk_full: errno.is_some_and(is_disk_full) }
    }
}

impl From<tokio::task::JoinError> for CopyError {
    fn from(error: tokio::task::JoinError) -> CopyError {
        CopyError {
            failure: Failure::new(format!("copy failed: a task ended early: {error}")),
            scope: ErrorScope::Copy,
            is_disk_full: false,
        }
    }
}

/// Whether an error number means that the disk or the quota of the user is full.
fn is_disk_full(errno: i64) -> bool {
    let full = [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT];
    full.iter().any(|full| i64::from(full.raw_os_error()) == errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_recognised_here_and_on_a_target() {
        for (errno, is_full) in [(28, true), (122, true), (2, false), (27, false)] {
            let here = CopyError::local("write", "file")(io::Error::from_raw_os_error(errno));
            assert_eq!(here.is_disk_full, is_full, "{errno}");
            let refused = client::v1::RpcError::invalid_params("write file")
                .with_data(serde_json::json!({ "errno": errno }));
            assert_eq!(CopyError::from(Error::from(refused)).is_disk_full, is_full, "{errno}");
        }
    }
}
