//! Engine errors in the codes of REXD. No wildcard arm: a new engine error needs a decision here.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::Error;
use engine::error::{EditError, errno_text};
use serde_json::{Value, json};
use wire::rexd::v1::{RpcError, codes};

/// The engine's error on the wire; `data` is always filled.
#[expect(clippy::too_many_lines, reason = "one arm per engine error, and no other logic")]
pub(super) fn rpc_error(error: Error) -> RpcError {
    let message = error.to_string();
    let error_with = |code: i64, message: String, data: Value| RpcError::new(code, message).with_data(data);
    match error {
        Error::NoSuchProcess(id) => process_not_found(&id.0),
        Error::Gone => gone(&message),
        Error::InputClosed => error_with(codes::INVALID_PARAMS, message, json!({ "reason": "stdin_closed" })),
        Error::Spawn { program, source } => error_with(
            codes::INVALID_PARAMS,
            message,
            json!({ "program": program, "errno": source.raw_os_error() }),
        ),
        Error::OutsideRoots { path, resolved, roots } => outside_roots(&path, resolved.as_deref(), &roots),
        Error::BadPath { path, .. } => {
            error_with(codes::INVALID_PARAMS, message, json!({ "field": "path", "path": text(&path) }))
        }
        Error::File { path, source, .. } => not_done(&message, &path, &source),
        Error::NotRegular { path } => {
            error_with(codes::INVALID_PARAMS, message, json!({ "path": text(&path) }))
        }
        Error::Exists { path } => exists(&path),
        Error::Conflict { path, expected_ms, found_ms } => changed(&path, expected_ms, found_ms),
        Error::Edit(edit) => edit_error(&edit),
        Error::Patch(_) => error_with(codes::INVALID_PARAMS, message, json!({ "field": "patch_text" })),
        Error::Pattern { pattern, reason } => error_with(
            codes::INVALID_PARAMS,
            message,
            json!({ "field": "pattern", "pattern": pattern, "reason": reason }),
        ),
        Error::Denied { rule, reason } | Error::NoApprover { rule, reason } => {
            error_with(codes::UNAUTHORIZED, message, json!({ "rule": rule, "reason": reason }))
        }
        Error::Refused { rule, approval, by } => error_with(
            codes::UNAUTHORIZED,
            message,
            json!({ "rule": rule, "approval_id": approval.as_deref(), "by": &*by }),
        ),
        Error::Unanswered { rule, approval, after } => {
            let data = json!({ "rule": rule, "approval_id": &*approval, "deadline_ms": millis(after) });
            error_with(codes::TIMEOUT, message, data)
        }
        Error::NoSuchApproval(id) => approval_not_found(&id),
        Error::AlreadySettled { id, outcome } => already_settled(&message, &id, &outcome.to_string()),
        Error::Sandbox { profile, reason } => not_confined(&message, &profile, &reason),
        Error::SandboxDenied { path } => error_with(
            codes::UNAUTHORIZED,
            message,
            json!({ "reason": "sandbox_denied", "path": text(&path) }),
        ),
        Error::Guarded { path, access, rule, reason } => {
            error_with(codes::UNAUTHORIZED, message, refusal(&rule, &reason, &path, access.as_str()))
        }
        Error::Unsupported { what, reason } => error_with(
            codes::UNSUPPORTED_CAPABILITY,
            message,
            json!({ "capability": what, "reason": reason }),
        ),
        Error::LimitReached { what, limit } => {
            error_with(codes::RESOURCE_LIMIT, message, json!({ "resource": what, "limit": limit }))
        }
        Error::Deadline { what, after } => {
            error_with(codes::TIMEOUT, message, json!({ "operation": what, "deadline_ms": millis(after) }))
        }
        Error::Cancelled => RpcError::cancelled(),
    }
}

fn outside_roots(path: &Path, resolved: Option<&Path>, roots: &[PathBuf]) -> RpcError {
    let roots: Vec<String> = roots.iter().map(|root| text(root)).collect();
    let resolved = resolved.map(text);
    RpcError::new(codes::FORBIDDEN_PATH, "Path is outside allowed roots")
        .with_data(json!({ "path": text(path), "allowed_roots": roots, "resolved_path": resolved }))
}

/// The operating system refused a file operation.
fn not_done(message: &str, path: &Path, source: &std::io::Error) -> RpcError {
    let (errno, reason) = (source.raw_os_error(), errno_text(source));
    RpcError::invalid_params(message)
        .with_data(json!({ "path": text(path), "errno": errno, "reason": reason }))
}

fn exists(path: &Path) -> RpcError {
    RpcError::new(codes::CONCURRENCY_CONFLICT, format!("{}: file exists", path.display()))
        .with_data(json!({ "path": text(path), "reason": "exists" }))
}

fn changed(path: &Path, expected_ms: i64, found_ms: Option<i64>) -> RpcError {
    RpcError::new(codes::CONCURRENCY_CONFLICT, "expected mtime does not match")
        .with_data(json!({ "path": text(path), "expected_mtime": expected_ms, "mtime": found_ms }))
}

fn approval_not_found(id: &str) -> RpcError {
    RpcError::invalid_params("approval not found")
        .with_data(json!({ "field": "approval_id", "approval_id": id }))
}

fn already_settled(message: &str, id: &str, outcome: &str) -> RpcError {
    RpcError::new(codes::CONCURRENCY_CONFLICT, message)
        .with_data(json!({ "approval_id": id, "outcome": outcome }))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn not_confined(message: &str, profile: &str, reason: &str) -> RpcError {
    RpcError::new(codes::UNSUPPORTED_CAPABILITY, message)
        .with_data(json!({ "capability": "sandbox", "profile": profile, "reason": reason }))
}

/// The data of a denial by a rule on files.
fn refusal(rule: &str, reason: &str, path: &Path, access: &str) -> Value {
    json!({ "rule": rule, "reason": reason, "path": text(path), "access": access })
}

/// Clients show these messages to a model, so they use the names of the parameters.
fn edit_error(error: &EditError) -> RpcError {
    let (message, data) = match error {
        EditError::Identical => ("old_string and new_string are identical", json!({ "field": "new_string" })),
        EditError::NotFound => ("old_string not found", json!({ "field": "old_string" })),
        EditError::Ambiguous { count } => (
            "old_string matched multiple locations; set replace_all=true",
            json!({ "field": "old_string", "count": count }),
        ),
        EditError::NoFile => {
            ("file does not exist; old_string cannot be matched", json!({ "field": "path" }))
        }
        EditError::NotText => ("file is not UTF-8 text", json!({ "field": "path" })),
    };
    RpcError::invalid_params(message).with_data(data)
}

/// The change is no longer the one that its approver saw.
pub(super) fn changed_since_shown(path: &Path) -> RpcError {
    let message =
        "the files changed while the approval was pending: nothing was done; send the request again";
    RpcError::new(codes::CONCURRENCY_CONFLICT, message)
        .with_data(json!({ "path": text(path), "reason": "changed_since_shown" }))
}

/// The process has ended.
fn gone(reason: &str) -> RpcError {
    RpcError::new(codes::PROCESS_NOT_FOUND, "process not found").with_data(json!({ "reason": reason }))
}

/// No such process in this session.
pub(super) fn process_not_found(id: &str) -> RpcError {
    RpcError::new(codes::PROCESS_NOT_FOUND, "process not found").with_data(json!({ "process_id": id }))
}

/// No such terminal in this session.
pub(super) fn pty_not_found(id: &str) -> RpcError {
    RpcError::invalid_params("pty not found").with_data(json!({ "field": "pty_id", "pty_id": id }))
}

/// No such session on this connection.
pub(super) fn session_not_found(id: &str) -> RpcError {
    RpcError::invalid_params("session not found")
        .with_data(json!({ "field": "session_id", "session_id": id }))
}

/// No session to resume: it is unknown, belongs to another caller, or has expired.
pub(super) fn unknown_session(id: &str) -> RpcError {
    RpcError::new(codes::UNAUTHORIZED, "the session is unknown or has expired: open a new one")
        .with_data(json!({ "session_id": id }))
}

/// Another connection has the session.
pub(super) fn still_attached(id: &str) -> RpcError {
    RpcError::new(codes::CONCURRENCY_CONFLICT, "the session is still attached elsewhere: try again")
        .with_data(json!({ "session_id": id, "retry": true }))
}

/// A parameter whose value cannot be used.
pub(super) fn invalid(field: &str, reason: &str) -> RpcError {
    RpcError::invalid_params(format!("invalid params: {field}: {reason}"))
        .with_data(json!({ "field": field, "reason": reason }))
}

/// A capability that is not available here.
pub(super) fn unsupported(capability: &str, reason: &str) -> RpcError {
    let message = format!("{capability} is not available: {reason}");
    RpcError::new(codes::UNSUPPORTED_CAPABILITY, message)
        .with_data(json!({ "capability": capability, "reason": reason }))
}

/// Replaces the error for a path outside the roots while no root is configured: names the setting to add.
pub(super) fn with_hint(mut error: RpcError, no_roots: Option<&str>) -> RpcError {
    if let (codes::FORBIDDEN_PATH, Some(hint)) = (error.code, no_roots) {
        error.message = hint.to_owned();
    }
    error
}

/// A path as text; bytes that are not UTF-8 are replaced.
pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
