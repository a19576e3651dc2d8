//! Engine errors in the codes of exec-server. No wildcard arm over the engine's variants.

use std::io::ErrorKind;

use engine::Error;
use wire::exec_server::code;
use wire::jsonrpc::RpcError;

/// The engine's error on the wire.
pub(super) fn rpc_error(error: Error) -> RpcError {
    if matches!(error, Error::Cancelled) {
        return withdrawn();
    }
    let number = match &error {
        Error::File { source, .. } => match source.kind() {
            ErrorKind::NotFound => code::NOT_FOUND,
            ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::IsADirectory => {
                code::INVALID_REQUEST
            }
            _ => code::INTERNAL_ERROR,
        },
        Error::OutsideRoots { .. } | Error::BadPath { .. } | Error::NotRegular { .. } => {
            code::INVALID_REQUEST
        }
        Error::Denied { .. }
        | Error::NoApprover { .. }
        | Error::Refused { .. }
        | Error::Unanswered { .. }
        | Error::LimitReached { .. }
        | Error::NoSuchProcess(_) => code::INVALID_REQUEST,
        Error::Gone
        | Error::InputClosed
        | Error::Spawn { .. }
        | Error::Exists { .. }
        | Error::Conflict { .. }
        | Error::Edit(_)
        | Error::Patch(_)
        | Error::Pattern { .. }
        | Error::Sandbox { .. }
        | Error::SandboxDenied { .. }
        | Error::NoSuchApproval(_)
        | Error::AlreadySettled { .. }
        | Error::Guarded { .. }
        | Error::Unsupported { .. }
        | Error::Deadline { .. }
        | Error::Cancelled => code::INTERNAL_ERROR,
    };
    RpcError::new(number, text(&error))
}

/// The error of a failed start: a missing directory is a failure of the start, not a missing file.
pub(super) fn start_error(error: Error) -> RpcError {
    let error = rpc_error(error);
    match error.code {
        code::NOT_FOUND => RpcError::internal(error.message),
        _ => error,
    }
}

/// The error of a start that was cancelled while its approval was pending.
pub(super) fn withdrawn() -> RpcError {
    RpcError::invalid_request("the start was withdrawn")
}

/// The message, with the target of a path that leads outside the roots.
fn text(error: &Error) -> String {
    match error {
        Error::OutsideRoots { resolved: Some(resolved), .. } => {
            format!("{error}: it leads to {}", resolved.display())
        }
        _ => error.to_string(),
    }
}
