//! Engine errors in the codes of REXD. No wildcard arm: a new engine error needs a decision here.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::Error;
use engine::error::{EditError, PatchError, errno_text};
use serde_json::json;
use wire::rexd::v1::{RpcError, codes};

/// The engine's error on the wire; `data` is always filled.
#[expect(clippy::too_many_lines, reason = "one arm per engine error, and no other logic")]
pub(super) fn rpc_error(error: Error) -> RpcError {
    let message = error.to_string();
    let (code, message, data) = match error {
        Error::NoSuchProcess(id) => return process_not_found(&id.0),
        Error::Edit(edit) => return edit_error(&edit),
        Error::Cancelled => return RpcError::cancelled(),
        Error::Gone => {
            (codes::PROCESS_NOT_FOUND, "process not found".to_owned(), json!({ "reason": message }))
        }
        Error::InputClosed => (codes::INVALID_PARAMS, message, json!({ "reason": "stdin_closed" })),
        Error::Spawn { program, source } => {
            let data = json!({ "program": program, "errno": source.raw_os_error() });
            (codes::INVALID_PARAMS, message, data)
        }
        Error::OutsideRoots { path, resolved, roots } => {
            let roots: Vec<String> = roots.iter().map(|root| text(root)).collect();
            let resolved = resolved.as_deref().map(text);
            let data = json!({ "path": text(&path), "allowed_roots": roots, "resolved_path": resolved });
            (codes::FORBIDDEN_PATH, "Path is outside allowed roots".to_owned(), data)
        }
        Error::BadPath { path, .. } => {
            (codes::INVALID_PARAMS, message, json!({ "field": "path", "path": text(&path) }))
        }
        Error::File { path, source, .. } => {
            let (errno, reason) = (source.raw_os_error(), errno_text(&source));
            let data = json!({ "path": text(&path), "errno": errno, "reason": reason });
            (codes::INVALID_PARAMS, message, data)
        }
        Error::NotRegular { path } => (codes::INVALID_PARAMS, message, json!({ "path": text(&path) })),
        Error::Exists { path } => {
            let data = json!({ "path": text(&path), "reason": "exists" });
            (codes::CONCURRENCY_CONFLICT, format!("{}: file exists", path.display()), data)
        }
        Error::Conflict { path, expected_ms, found_ms } => {
            let data = json!({ "path": text(&path), "expected_mtime": expected_ms, "mtime": found_ms });
            (codes::CONCURRENCY_CONFLICT, "expected mtime does not match".to_owned(), data)
        }
        Error::Patch(PatchError::Ambiguous { lines, .. }) => {
            let data = json!({ "field": "patch_text", "reason": "ambiguous", "lines": lines });
            (codes::INVALID_PARAMS, message, data)
        }
        Error::Patch(_) => (codes::INVALID_PARAMS, message, json!({ "field": "patch_text" })),
        Error::Pattern { pattern, reason } => {
            let data = json!({ "field": "pattern", "pattern": pattern, "reason": reason });
            (codes::INVALID_PARAMS, message, data)
        }
        Error::Denied { rule, reason } | Error::NoApprover { rule, reason } => {
            (codes::UNAUTHORIZED, message, json!({ "rule": rule, "reason": reason }))
        }
        Error::Refused { rule, approval, by, reason } => {
            let mut data = json!({ "rule": rule, "approval_id": approval.as_deref(), "by": &*by });
            if let Some(reason) = reason {
                data["reason"] = json!(&*reason);
            }
            (codes::UNAUTHORIZED, message, data)
        }
        Error::Unanswered { rule, approval, after } => {
            let data = json!({ "rule": rule, "approval_id": &*approval, "deadline_ms": millis(after) });
            (codes::TIMEOUT, message, data)
        }
        Error::NoSuchApproval(id) => {
            let data = json!({ "field": "approval_id", "approval_id": &*id });
            (codes::INVALID_PARAMS, "approval not found".to_owned(), data)
        }
        Error::AlreadySettled { id, outcome } => {
            let data = json!({ "approval_id": &*id, "outcome": outcome.to_string() });
            (codes::CONCURRENCY_CONFLICT, message, data)
        }
        Error::Sandbox { profile, reason } => {
            let data = json!({ "capability": "sandbox", "profile": profile, "reason": reason });
            (codes::UNSUPPORTED_CAPABILITY, message, data)
        }
        Error::SandboxDenied { path } => {
            (codes::UNAUTHORIZED, message, json!({ "reason": "sandbox_denied", "path": text(&path) }))
        }
        Error::Guarded { path, access, rule, reason } => {
            let (path, access) = (text(&path), access.as_str());
            let data = json!({ "rule": rule, "reason": reason, "path": path, "access": access });
            (codes::UNAUTHORIZED, message, data)
        }
        Error::Unsupported { what, reason } => {
            let data = json!({ "capability": what, "reason": reason });
            (codes::UNSUPPORTED_CAPABILITY, message, data)
        }
        Error::LimitReached { what, limit } => {
            (codes::RESOURCE_LIMIT, message, json!({ "resource": what, "limit": limit }))
        }
        Error::Deadline { what, after } => {
            (codes::TIMEOUT, message, json!({ "operation": what, "deadline_ms": millis(after) }))
        }
    };
    RpcError::new(code, message).with_data(data)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Clients show these messages to a model, so they use the names of the parameters.
fn edit_error(error: &EditError) -> RpcError {
    let (message, data) = match error {
        EditError::Identical => ("old_string and new_string are identical", json!({ "field": "new_string" })),
        EditError::NotFound => ("old_string not found", json!({ "field": "old_string" })),
        EditError::Ambiguous { count, lines } => (
            "old_string matched multiple locations; set replace_all=true",
            json!({ "field": "old_string", "count": count, "lines": lines }),
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

/// The text of a path that is not needed any more; copied only if it is not UTF-8.
pub(super) fn into_text(path: PathBuf) -> String {
    path.into_os_string().into_string().unwrap_or_else(|other| other.to_string_lossy().into_owned())
}
