//! The error object of a response.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The codes of JSON-RPC, and those for limits and cancelled requests.
pub mod code {
    /// The line is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The line is JSON but not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params do not match the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server failed internally.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// A limit of the server was reached.
    pub const RESOURCE_LIMIT: i64 = -32008;
    /// The caller cancelled the request.
    pub const CANCELLED: i64 = -32800;
}

/// The error object of a response. `data` is always on the wire, at least as an empty object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// The kind of failure, for programs.
    pub code: i64,
    /// The message for the user.
    pub message: String,
    /// Details, such as the path or field.
    #[serde(default = "empty")]
    pub data: Value,
}

impl RpcError {
    /// Creates an error with empty data.
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: empty() }
    }

    /// Replaces the data of the error.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> RpcError {
        self.data = data;
        self
    }

    /// Creates the error for params that do not fit: `-32602`.
    pub fn invalid_params(message: impl Into<String>) -> RpcError {
        RpcError::new(code::INVALID_PARAMS, message)
    }

    /// Creates the error for an unknown method: `-32601`, with its name.
    pub fn method_not_found(method: &str) -> RpcError {
        RpcError::new(code::METHOD_NOT_FOUND, "method not found").with_data(json!({ "method": method }))
    }

    /// Creates the error for a cancelled request: `-32800`.
    pub fn cancelled() -> RpcError {
        RpcError::new(code::CANCELLED, "cancelled")
    }

    /// Creates the error for an internal failure: `-32603`.
    pub fn internal(message: impl Into<String>) -> RpcError {
        RpcError::new(code::INTERNAL_ERROR, message)
    }

    /// Creates the error for a limit that was reached: `-32008`, with its value.
    pub fn resource_limit(message: impl Into<String>, limit: u64) -> RpcError {
        RpcError::new(code::RESOURCE_LIMIT, message).with_data(json!({ "limit": limit }))
    }
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

fn empty() -> Value {
    Value::Object(serde_json::Map::new())
}
