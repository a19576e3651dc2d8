//! Refusals: why somebody is not let in, for them, for the log and for the metrics.

use http::StatusCode;
use wire::rexd::v1::codes::{INVALID_REQUEST, UNAUTHORIZED};

use super::caller::{Caller, Scope};

/// Why a request is refused before anything is done for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// The code of the JSON-RPC error in its body.
    pub code: i64,
    /// What is wrong and what would be right. Never holds a secret.
    pub message: String,
    /// One of a few short words, for metrics and for the throttle of the log.
    pub reason: &'static str,
}

impl Refusal {
    /// They have not shown who they are.
    pub(super) fn unproven(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, code: UNAUTHORIZED, message: message.into(), reason }
    }

    /// Whoever they are, this is not for them.
    pub(super) fn forbidden(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, code: UNAUTHORIZED, message: message.into(), reason }
    }

    /// The request is not one that can be judged.
    pub(super) fn malformed(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code: INVALID_REQUEST, message: message.into(), reason }
    }

    /// The kernel says who they are, and they are not the one this is for.
    pub fn user(message: impl Into<String>) -> Self {
        Self::forbidden("foreign_user", message)
    }

    /// They may do something, but not this.
    pub fn scope(caller: &Caller, needed: Scope) -> Self {
        let message =
            format!("this needs the scope {:?}, which {} does not have", needed.name(), caller.name);
        Self::forbidden("scope", message)
    }
}
