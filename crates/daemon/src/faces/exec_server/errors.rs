//! What the engine could not do, in this protocol's codes. Every variant is decided here.

use std::io::ErrorKind;

use engine::Error;
use wire::exec_server::{ErrorObject, code};

/// The answer to a request on files that failed.
pub(super) fn failed(error: Error) -> ErrorObject {
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
    ErrorObject::new(number, text(&error))
}

/// The answer to a start that failed: a directory that is missing is a failure of the start, not a missing file.
pub(super) fn not_started(error: Error) -> ErrorObject {
    let answer = failed(error);
    match answer.code {
        code::NOT_FOUND => ErrorObject::internal(answer.message),
        _ => answer,
    }
}

/// What happened, and where a path leads that leaves the roots.
fn text(error: &Error) -> String {
    match error {
        Error::OutsideRoots { resolved: Some(resolved), .. } => {
            format!("{error}: it leads to {}", resolved.display())
        }
        _ => error.to_string(),
    }
}
