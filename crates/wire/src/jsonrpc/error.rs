//! RpcError: what a request is answered with when it cannot be done.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The codes that JSON-RPC itself defines, and the one for withdrawn requests.
pub mod code {
    /// The line is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The line is JSON but no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Nothing is called by this name.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are not what the method takes.
    pub const INVALID_PARAMS: i64 = -32602;
    /// A fault of the server.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// A bound of the server was reached.
    pub const RESOURCE_LIMIT: i64 = -32008;
    /// The caller withdrew the request.
    pub const CANCELLED: i64 = -32800;
}

/// An error answer. `data` is always on the wire, at least as an empty object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// What kind of failure, for programs.
    pub code: i64,
    /// What happened, for people.
    pub message: String,
    /// What it happened to.
    #[serde(default = "empty")]
    pub data: Value,
}

impl RpcError {
    /// An error without further data.
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: empty() }
    }

    /// The same error with data.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> RpcError {
        self.data = data;
        self
    }

    /// The parameters are well formed but mean nothing: `-32602`.
    pub fn invalid_params(message: impl Into<String>) -> RpcError {
        RpcError::new(code::INVALID_PARAMS, message)
    }

    /// The request makes no sense here: `-32600`.
    pub fn invalid_request(message: impl Into<String>) -> RpcError {
        RpcError::new(code::INVALID_REQUEST, message)
    }

    /// Nothing is called by this name: `-32601`, with the name.
    pub fn method_not_found(method: &str) -> RpcError {
        RpcError::new(code::METHOD_NOT_FOUND, "method not found").with_data(json!({ "method": method }))
    }

    /// The caller withdrew the request: `-32800`.
    pub fn cancelled() -> RpcError {
        RpcError::new(code::CANCELLED, "cancelled")
    }

    /// A fault of the server: `-32603`.
    pub fn internal(message: impl Into<String>) -> RpcError {
        RpcError::new(code::INTERNAL_ERROR, message)
    }

    /// A bound was reached: `-32008`, with the bound.
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
