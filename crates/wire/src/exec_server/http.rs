//! `http/request`: HTTP requests that the server sends for a client.

use serde::{Deserialize, Serialize};

use super::ByteChunk;

/// The method name.
pub const HTTP_REQUEST: &str = "http/request";
/// A chunk of a streamed response body.
pub const HTTP_BODY_DELTA: &str = "http/request/bodyDelta";
/// Bytes of one chunk before base64.
pub const MAX_DELTA_BYTES: usize = 1024 * 1024;

/// An HTTP request that the server sends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequest {
    /// GET, POST and so on.
    pub method: String,
    /// `http://` or `https://`.
    pub url: String,
    /// The headers of the request.
    #[serde(default)]
    pub headers: Vec<HttpRequestHeader>,
    /// The body of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<ByteChunk>,
    /// The time limit for the whole request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What to do with redirects; they are followed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_policy: Option<RedirectPolicy>,
    /// The id of the request in its body deltas, chosen by the client.
    pub request_id: String,
    /// Whether the body is streamed as notifications.
    #[serde(default)]
    pub stream_response: bool,
}

/// A header of a request: a value, followed by that of a variable of the server if one is named.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequestHeader {
    /// Its name.
    pub name: String,
    /// Its value, or what precedes the value of the variable.
    pub value: String,
    /// The variable of the server that holds its value, or the rest of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_env_var: Option<String>,
}

/// What to do with redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RedirectPolicy {
    /// Follow the redirect.
    Follow,
    /// Return the redirect.
    Stop,
}

/// The response to an HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The headers of the response.
    pub headers: Vec<HttpHeader>,
    /// The body; empty when it is streamed.
    pub body_base64: ByteChunk,
}

/// A header of a response.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpHeader {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A chunk of a streamed response body.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpBodyDelta {
    /// The id of the request.
    pub request_id: String,
    /// Counts from 1.
    pub seq: u64,
    /// The bytes; empty at the end.
    pub delta_base64: ByteChunk,
    /// Whether this is the end.
    pub done: bool,
    /// Why the body is incomplete, if it is.
    pub error: Option<String>,
}
