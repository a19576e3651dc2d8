//! The error codes of REXD v1.

pub use crate::jsonrpc::code::{
    CANCELLED, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, RESOURCE_LIMIT,
};

/// Refused by policy, by authentication, or because a session to resume is unknown.
pub const UNAUTHORIZED: i64 = -32001;
/// The path lies outside the allowed roots.
pub const FORBIDDEN_PATH: i64 = -32002;
/// A scan ran past its deadline, or an approval was not answered in time.
pub const TIMEOUT: i64 = -32003;
/// A process exceeded its output limit.
pub const OUTPUT_LIMIT_EXCEEDED: i64 = -32004;
/// The session has no such process.
pub const PROCESS_NOT_FOUND: i64 = -32005;
/// A conflict: the file has changed or exists, or the session is attached elsewhere.
pub const CONCURRENCY_CONFLICT: i64 = -32006;
/// Switched off by the operator, or absent on this machine.
pub const UNSUPPORTED_CAPABILITY: i64 = -32007;

/// The name of a code in the spec, for documents and logs.
pub fn name(code: i64) -> Option<&'static str> {
    Some(match code {
        PARSE_ERROR => "parse_error",
        INVALID_REQUEST => "invalid_request",
        METHOD_NOT_FOUND => "method_not_found",
        INVALID_PARAMS => "invalid_params",
        INTERNAL_ERROR => "internal_error",
        UNAUTHORIZED => "unauthorized",
        FORBIDDEN_PATH => "forbidden_path",
        TIMEOUT => "timeout",
        OUTPUT_LIMIT_EXCEEDED => "output_limit_exceeded",
        PROCESS_NOT_FOUND => "process_not_found",
        CONCURRENCY_CONFLICT => "concurrency_conflict",
        UNSUPPORTED_CAPABILITY => "unsupported_capability",
        RESOURCE_LIMIT => "resource_limit",
        CANCELLED => "cancelled",
        _ => return None,
    })
}

/// All codes, for documents.
pub const ALL: &[i64] = &[
    PARSE_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    INVALID_PARAMS,
    INTERNAL_ERROR,
    UNAUTHORIZED,
    FORBIDDEN_PATH,
    TIMEOUT,
    OUTPUT_LIMIT_EXCEEDED,
    PROCESS_NOT_FOUND,
    CONCURRENCY_CONFLICT,
    UNSUPPORTED_CAPABILITY,
    RESOURCE_LIMIT,
    CANCELLED,
];
