//! Engine errors in the words of the host protocol: one line of text. No wildcard arm over the engine's variants.

use std::io::ErrorKind;

use engine::Error;
use serde_json::json;
use wire::jsonrpc::{RpcError, code};

use crate::core::dispatch::UNAUTHORIZED;

/// The engine's error on the wire.
pub(super) fn rpc_error(error: Error) -> RpcError {
    let text = error.to_string();
    match error {
        Error::OutsideRoots { resolved, .. } => match resolved {
            Some(to) => {
                RpcError::invalid_params(format!("path escapes run cwd: it leads to {}", to.display()))
            }
            None => RpcError::invalid_params(text),
        },
        Error::BadPath { reason, .. } => RpcError::invalid_params(format!("bad path: {reason}")),
        Error::File { source, .. } if source.kind() == ErrorKind::NotFound => {
            RpcError::invalid_params(format!("bad path: {}", engine::error::errno_text(&source)))
        }
        Error::Denied { ref rule, .. } => {
            let data = json!({ "rule": rule });
            RpcError::new(UNAUTHORIZED, text).with_data(data)
        }
        Error::Refused { .. } => RpcError::new(UNAUTHORIZED, "denied"),
        Error::Unanswered { .. } => RpcError::new(UNAUTHORIZED, "timeout"),
        Error::Cancelled => RpcError::cancelled(),
        Error::LimitReached { .. } => RpcError::new(code::RESOURCE_LIMIT, text),
        Error::NoSuchProcess(_)
        | Error::Gone
        | Error::InputClosed
        | Error::Spawn { .. }
        | Error::File { .. }
        | Error::NotRegular { .. }
        | Error::Exists { .. }
        | Error::Conflict { .. }
        | Error::Edit(_)
        | Error::Patch(_)
        | Error::Pattern { .. }
        | Error::Sandbox { .. }
        | Error::SandboxDenied { .. }
        | Error::NoApprover { .. }
        | Error::NoSuchApproval(_)
        | Error::AlreadySettled { .. }
        | Error::Guarded { .. }
        | Error::Unsupported { .. }
        | Error::Deadline { .. } => RpcError::invalid_request(text),
    }
}

/// The error for a run that this host does not have.
pub(super) fn unknown_run() -> RpcError {
    RpcError::invalid_request("unknown run_id")
}
