//! Converts errors of an exec-server, and unsupported requests, to REXD errors.

use serde_json::json;
use wire::exec_server::code;
use wire::rexd::v1::{self, RpcError, codes};

use crate::exec_server::error::ExecServerError;

/// The errno of a file that does not exist.
const ENOENT: i32 = 2;

/// An error of the exec-server as the response to a request.
pub(super) fn rpc_error(error: &ExecServerError) -> RpcError {
    let message = error.to_string();
    match error {
        ExecServerError::Refused(refused) => match refused.code {
            code::NOT_FOUND | code::INVALID_REQUEST | code::INVALID_PARAMS => {
                RpcError::invalid_params(message)
            }
            code::METHOD_NOT_FOUND => unsupported(
                "the method",
                &format!("this version of the exec-server does not have it: {message}"),
            ),
            // The code of another server may be any number.
            _ => RpcError::internal(message),
        },
        ExecServerError::Spawn { .. }
        | ExecServerError::ExitedEarly { .. }
        | ExecServerError::StillRunning
        | ExecServerError::Connect(_)
        | ExecServerError::InitializeTimedOut(_)
        | ExecServerError::Ambiguous { .. }
        | ExecServerError::Missed(_)
        | ExecServerError::Lost(_)
        | ExecServerError::Encode { .. }
        | ExecServerError::Decode { .. }
        | ExecServerError::ResponseTooLarge { .. }
        | ExecServerError::Random(_)
        | ExecServerError::Closed => RpcError::internal(message),
    }
}

/// An error of the exec-server about a file.
pub(super) fn file_error(error: &ExecServerError, path: &str) -> RpcError {
    if error.code() == Some(code::NOT_FOUND) {
        return not_found(path);
    }
    let error = rpc_error(error);
    let message = format!("{path}: {}", error.message);
    RpcError { message, ..error }.with_data(json!({ "path": path }))
}

/// A file that does not exist.
pub(super) fn not_found(path: &str) -> RpcError {
    let reason = "no such file or directory";
    RpcError::invalid_params(format!("{path}: {reason}"))
        .with_data(json!({ "path": path, "errno": ENOENT, "reason": reason }))
}

/// A program that could not be started; `is_missing` if it does not exist.
pub(super) fn start_error(error: &ExecServerError, program: &str, is_missing: bool) -> RpcError {
    let errno = is_missing.then_some(ENOENT);
    let message = rpc_error(error).message;
    // Servers give only the text of the system.
    let message = match message.contains(program) {
        true => message,
        false => format!("could not start {program}: {message}"),
    };
    RpcError::invalid_params(message).with_data(json!({ "program": program, "errno": errno }))
}

/// A feature that no exec-server has.
pub(super) fn unsupported(feature: &str, reason: &str) -> RpcError {
    RpcError::new(codes::UNSUPPORTED_CAPABILITY, format!("{feature} is not available: {reason}"))
        .with_data(json!({ "capability": feature, "reason": reason }))
}

/// A method that the bridge does not have.
pub(super) fn unsupported_method(method: &str) -> RpcError {
    if v1::method(method).is_none() {
        return RpcError::method_not_found(method);
    }
    let reason = match method {
        "exec.attach" => "an exec-server sends the output of a process only to the session that started it",
        "fs.grep" | "fs.glob" => "an exec-server has no search: run grep or find as a command",
        "fs.patch" => "an exec-server applies no patches: edit or write the files",
        "fs.watch" | "fs.unwatch" => "an exec-server does not report changes",
        "session.resume" => "the client reconnects by itself",
        _ => "an exec-server has no such method",
    };
    unsupported(method, reason)
}

/// A process id that the session does not have.
pub(super) fn process_not_found(id: &str) -> RpcError {
    RpcError::new(codes::PROCESS_NOT_FOUND, "process not found").with_data(json!({ "process_id": id }))
}

/// A file that exists and must not be replaced.
pub(super) fn already_exists(path: &str) -> RpcError {
    RpcError::new(codes::CONCURRENCY_CONFLICT, format!("{path}: file exists"))
        .with_data(json!({ "path": path, "reason": "exists" }))
}

/// A file whose modification time is not the expected one.
pub(super) fn mtime_conflict(path: &str, expected: Option<i64>, found: Option<i64>) -> RpcError {
    RpcError::new(codes::CONCURRENCY_CONFLICT, "expected mtime does not match")
        .with_data(json!({ "path": path, "expected_mtime": expected, "mtime": found }))
}

/// A param with an invalid value.
pub(super) fn invalid_field(field: &str, reason: &str) -> RpcError {
    RpcError::invalid_params(format!("invalid params: {field}: {reason}"))
        .with_data(json!({ "field": field, "reason": reason }))
}
