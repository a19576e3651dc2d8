//! Engine errors in the codes of exec-server. No wildcard arm over the engine's variants.

use std::io::ErrorKind;

use engine::Error;
use wire::exec_server::code;
use wire::jsonrpc::RpcError;

/// The engine's error on the wire.
pub(super) fn rpc_error(error: Error) -> RpcError {
    let number = match &error {
        Error::Cancelled => return withdrawn(),
        Error::File { source, .. } => match source.kind() {
            ErrorKind::NotFound => code::NOT_FOUND,
            ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::IsADirectory => {
                code::INVALID_REQUEST
            }
            _ => code::INTERNAL_ERROR,
        },
        Error::OutsideRoots { .. }
        | Error::BadPath { .. }
        | Error::NotRegular { .. }
        | Error::Denied { .. }
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
        | Error::Deadline { .. } => code::INTERNAL_ERROR,
    };
    let message = match &error {
        Error::OutsideRoots { resolved: Some(to), .. } => format!("{error}: it leads to {}", to.display()),
        _ => error.to_string(),
    };
    RpcError::new(number, message)
}

/// The error of a start that was cancelled while its approval was pending.
pub(super) fn withdrawn() -> RpcError {
    RpcError::invalid_request("the start was withdrawn")
}
