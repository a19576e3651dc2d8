//! Engine errors as the codes of this protocol, and the refusals of HTTP requests. No wildcard arm: a new engine error
//! needs a decision here.

use std::io::ErrorKind;

use engine::Error;
use engine::error::errno_text;
use http::StatusCode;
use serde_json::json;
use wire::jsonrpc::{RpcError, code};

use crate::core::dispatch::UNAUTHORIZED;

/// Why an operation of a command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// There is no such file.
    #[error("{0}")]
    NotFound(String),
    /// The path is outside the roots, or outside the workspace.
    #[error("{0}")]
    OutsideRoots(String),
    /// The operator's policy forbids it; the message names the rule.
    #[error("{0}")]
    Denied(String),
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
}

impl OperationError {
    /// The code for `head.code`; `failed` is the command's own code for other failures.
    pub fn code(&self, failed: &'static str) -> &'static str {
        match self {
            OperationError::NotFound(_) => "NOT_FOUND",
            OperationError::OutsideRoots(_) => "FILE_NOT_ALLOWED",
            OperationError::Denied(_) => "POLICY_DENIED",
            OperationError::Failed(_) => failed,
        }
    }
}

/// The code of an internal request for a file that does not exist.
const NOT_FOUND: i64 = -32004;
/// The code of an internal request for a path outside the roots.
const OUTSIDE_ROOTS: i64 = -32003;

/// The engine's error as the response to an internal request.
pub(super) fn rpc_error(error: Error) -> RpcError {
    let text = error.to_string();
    match error {
        Error::OutsideRoots { .. } => RpcError::new(OUTSIDE_ROOTS, text),
        Error::File { source, .. } if source.kind() == ErrorKind::NotFound => RpcError::new(NOT_FOUND, text),
        // The command names the file; the reason is what it lacks.
        Error::File { source, .. } => RpcError::invalid_request(errno_text(&source)),
        Error::Denied { rule, .. }
        | Error::NoApprover { rule, .. }
        | Error::Refused { rule, .. }
        | Error::Unanswered { rule, .. }
        | Error::Guarded { rule, .. } => {
            RpcError::new(UNAUTHORIZED, format!("{text} (rule {rule})")).with_data(json!({ "rule": rule }))
        }
        Error::SandboxDenied { .. } => RpcError::new(UNAUTHORIZED, text),
        Error::Cancelled => RpcError::cancelled(),
        Error::LimitReached { .. } => RpcError::new(code::RESOURCE_LIMIT, text),
        Error::BadPath { .. }
        | Error::NoSuchProcess(_)
        | Error::Gone
        | Error::InputClosed
        | Error::Spawn { .. }
        | Error::NotRegular { .. }
        | Error::Exists { .. }
        | Error::Conflict { .. }
        | Error::Edit(_)
        | Error::Patch(_)
        | Error::Pattern { .. }
        | Error::Sandbox { .. }
        | Error::NoSuchApproval(_)
        | Error::AlreadySettled { .. }
        | Error::Unsupported { .. }
        | Error::Deadline { .. } => RpcError::invalid_request(text),
    }
}

/// The response to an internal request as a command sees it.
pub(super) fn operation_error(error: RpcError) -> OperationError {
    match error.code {
        NOT_FOUND => OperationError::NotFound(error.message),
        OUTSIDE_ROOTS => OperationError::OutsideRoots(error.message),
        UNAUTHORIZED => OperationError::Denied(error.message),
        _ => OperationError::Failed(error.message),
    }
}

/// Why an HTTP request is refused, with the status and the body of its response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub(super) struct RequestError {
    /// The status of the response.
    pub(super) status: StatusCode,
    /// The reason, or a code if there is a message.
    pub(super) error: String,
    /// The reason behind a code.
    pub(super) message: Option<String>,
    /// Whether the connection is closed, because a part of the request was not read.
    pub(super) closes: bool,
}

impl RequestError {
    /// A refusal with its reason.
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> RequestError {
        RequestError { status, error: error.into(), message: None, closes: false }
    }

    /// A request that has something wrong.
    pub(super) fn bad(error: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::BAD_REQUEST, error)
    }

    /// A refusal with a code for programs.
    pub(super) fn coded(status: StatusCode, code: &str, message: impl Into<String>) -> RequestError {
        RequestError { message: Some(message.into()), ..RequestError::new(status, code) }
    }

    /// The refusal as the audit, metrics and traces record it.
    pub(super) fn record(&self) -> RpcError {
        let code = match self.status {
            StatusCode::TOO_MANY_REQUESTS => code::RESOURCE_LIMIT,
            status => i64::from(status.as_u16()),
        };
        RpcError::new(code, self.error.clone())
    }
}
