//! Rejections: why a request is not authenticated or authorized, for the response, the log and the metrics.

use http::StatusCode;
use link::listen::TooManyOfCaller;
use wire::rexd::v1::codes::{INVALID_REQUEST, RESOURCE_LIMIT, UNAUTHORIZED};

use super::caller::{Caller, Scope};

/// Why a request is rejected before it is executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AuthRejection {
    /// The status of the response.
    pub status: StatusCode,
    /// The code of the JSON-RPC error in its body.
    pub code: i64,
    /// The cause and the remedy. Never contains a secret.
    pub message: String,
    /// One of a few short words, for metrics and for the throttle of the log.
    pub reason: &'static str,
}

impl AuthRejection {
    /// The request has no valid credentials.
    pub(super) fn unauthenticated(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, code: UNAUTHORIZED, message: message.into(), reason }
    }

    /// The request is not allowed with any credentials, or not with these.
    pub(super) fn forbidden(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, code: UNAUTHORIZED, message: message.into(), reason }
    }

    /// The request cannot be checked.
    pub(super) fn malformed(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code: INVALID_REQUEST, message: message.into(), reason }
    }

    /// The peer of a unix socket is a user who may not connect.
    pub fn user(message: impl Into<String>) -> Self {
        Self::forbidden("foreign_user", message)
    }

    /// The peer of a unix socket is a process that a sandbox confines, or it cannot be checked.
    pub fn confined(message: impl Into<String>) -> Self {
        Self::forbidden("confined", message)
    }

    /// The caller has too many connections.
    pub fn too_many_connections(caller: &Caller, TooManyOfCaller { limit }: TooManyOfCaller) -> Self {
        let message = format!(
            "too many connections of {} (limit {limit}, half of server.max_connections); close some, or raise it",
            caller.name
        );
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self { status, code: RESOURCE_LIMIT, message, reason: "connections" }
    }

    /// The caller lacks a scope.
    pub fn scope(caller: &Caller, needed: Scope) -> Self {
        let message =
            format!("this needs the scope {:?}, which {} does not have", needed.name(), caller.name);
        Self::forbidden("scope", message)
    }
}
