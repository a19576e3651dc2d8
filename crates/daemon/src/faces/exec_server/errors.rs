//! Engine errors in the codes and the words of exec-server. No wildcard arm over the engine's variants.
//!
//! Clients show these texts to models and users, so they are those of the released servers: the text of the system, without
//! the path, which clients add themselves.

use std::io::{self, ErrorKind};

use engine::Error;
use engine::files::Access;
use rustix::io::Errno;
use wire::exec_server::code;
use wire::jsonrpc::RpcError;

use super::sandbox::CLIENT_RULE;

/// The engine's error on the wire.
pub(super) fn rpc_error(error: Error) -> RpcError {
    let number = match &error {
        Error::Cancelled => return withdrawn(),
        Error::Guarded { access, rule, .. } if rule == CLIENT_RULE => return client_denial(*access),
        Error::File { source, .. } => match source.kind() {
            ErrorKind::NotFound => code::NOT_FOUND,
            ErrorKind::PermissionDenied | ErrorKind::InvalidInput => code::INVALID_REQUEST,
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
        Error::File { source, .. } | Error::Spawn { source, .. } => source.to_string(),
        Error::Exists { .. } => system_text(Errno::EXIST),
        Error::NotRegular { path } => format!("path `{}` is not a file", path.display()),
        Error::OutsideRoots { resolved: Some(to), .. } => format!("{error}: it leads to {}", to.display()),
        _ => error.to_string(),
    };
    RpcError::new(number, message)
}

/// The same for a request that reads a file: a directory is not one.
pub(super) fn read_error(error: Error) -> RpcError {
    match error {
        Error::File { source, path, .. } if source.kind() == ErrorKind::IsADirectory => {
            rpc_error(Error::NotRegular { path })
        }
        error => rpc_error(error),
    }
}

/// What the kernel says to a process in the client's own sandbox. Clients recognise it and ask their user.
fn client_denial(access: Access) -> RpcError {
    match access {
        Access::Read => RpcError::invalid_request(system_text(Errno::ACCESS)),
        Access::Write => RpcError::internal(system_text(Errno::ROFS)),
    }
}

/// The system's text for an error.
pub(super) fn system_text(errno: Errno) -> String {
    io::Error::from(errno).to_string()
}

/// The error of a start that was cancelled while its approval was pending.
pub(super) fn withdrawn() -> RpcError {
    RpcError::invalid_request("the start was withdrawn")
}
