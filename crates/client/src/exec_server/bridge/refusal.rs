//! What an exec-server does not do, or refuses, in REXD's codes and words.

use serde_json::json;
use wire::exec_server::code;
use wire::rexd::v1::{self, RpcError, codes};

use crate::exec_server::error::ExecServerError;

/// The errno of a file that is not there.
const NOT_THERE: i32 = 2;

/// An error of the exec-server.
pub(super) fn of(error: ExecServerError) -> RpcError {
    let text = error.to_string();
    match error.code() {
        Some(code::NOT_FOUND | code::INVALID_REQUEST | code::INVALID_PARAMS) => {
            RpcError::invalid_params(text)
        }
        Some(code::METHOD_NOT_FOUND) => {
            unsupported("this", &format!("the exec-server is too old for it: {text}"))
        }
        _ => RpcError::internal(text),
    }
}

/// The same, about a file.
pub(super) fn of_file(error: ExecServerError, path: &str) -> RpcError {
    let is_missing = error.code() == Some(code::NOT_FOUND);
    let refused = of(error);
    match is_missing {
        true => missing(path),
        false => {
            let data = json!({ "path": path });
            RpcError { message: format!("{path}: {}", refused.message), ..refused }.with_data(data)
        }
    }
}

/// A file that is not there.
pub(super) fn missing(path: &str) -> RpcError {
    let reason = "no such file or directory";
    RpcError::invalid_params(format!("{path}: {reason}"))
        .with_data(json!({ "path": path, "errno": NOT_THERE, "reason": reason }))
}

/// A start that failed; a program that is not there is told as such.
pub(super) fn of_start(error: ExecServerError, program: &str) -> RpcError {
    let refused = of(error);
    let said = refused.message.to_lowercase();
    let errno = (said.contains("no such file") || said.contains("not found")).then_some(NOT_THERE);
    RpcError::invalid_params(refused.message).with_data(json!({ "program": program, "errno": errno }))
}

/// What no exec-server can do.
pub(super) fn unsupported(what: &str, reason: &str) -> RpcError {
    RpcError::new(codes::UNSUPPORTED_CAPABILITY, format!("{what} is not available: {reason}"))
        .with_data(json!({ "capability": what, "reason": reason }))
}

/// A method that the bridge does not have.
pub(super) fn unknown(method: &str) -> RpcError {
    if v1::method(method).is_none() {
        return RpcError::method_not_found(method);
    }
    let reason = match method {
        "exec.attach" => "an exec-server tells a process's output only to the session that started it",
        "fs.grep" | "fs.glob" => "an exec-server does not search: run grep or find as a command",
        "fs.patch" => "an exec-server applies no patches: edit or write the files",
        "fs.watch" | "fs.unwatch" => "an exec-server does not report changes",
        "session.resume" => "cuts are hidden by the client itself",
        _ => "an exec-server has nothing like it",
    };
    unsupported(method, reason)
}

/// Nothing runs by this name.
pub(super) fn no_process(id: &str) -> RpcError {
    RpcError::new(codes::PROCESS_NOT_FOUND, "process not found").with_data(json!({ "process_id": id }))
}

/// Something is in the way.
pub(super) fn exists(path: &str) -> RpcError {
    RpcError::new(codes::CONCURRENCY_CONFLICT, format!("{path}: file exists"))
        .with_data(json!({ "path": path, "reason": "exists" }))
}

/// A member whose value cannot be used.
pub(super) fn invalid(field: &str, reason: &str) -> RpcError {
    RpcError::invalid_params(format!("invalid params: {field}: {reason}"))
        .with_data(json!({ "field": field, "reason": reason }))
}
