//! `http/request`: what a client has the server fetch for it.

use serde::{Deserialize, Serialize};

use super::ByteChunk;

/// The method.
pub const HTTP_REQUEST: &str = "http/request";
/// A piece of an answer that is streamed.
pub const HTTP_BODY_DELTA: &str = "http/request/bodyDelta";
/// The most that one piece holds before it is base64.
pub const MAX_DELTA_BYTES: usize = 1024 * 1024;

/// What is to be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequest {
    /// GET, POST and so on.
    pub method: String,
    /// `http://` or `https://`.
    pub url: String,
    /// Sent along.
    #[serde(default)]
    pub headers: Vec<HttpRequestHeader>,
    /// What is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<ByteChunk>,
    /// How long all of it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What to do when the answer is elsewhere; it is followed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_policy: Option<RedirectPolicy>,
    /// Names the request in its body deltas; chosen by the client.
    pub request_id: String,
    /// Whether the body comes in pieces, as notifications.
    #[serde(default)]
    pub stream_response: bool,
}

/// A header of a request: a value, a variable of the server that holds it, or both, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequestHeader {
    /// Its name.
    pub name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The variable of the server that holds its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_env_var: Option<String>,
}

/// What to do when the answer is elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RedirectPolicy {
    /// Go there.
    Follow,
    /// That is the answer.
    Stop,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpResponse {
    /// How it went.
    pub status: u16,
    /// What is said about the body.
    pub headers: Vec<HttpHeader>,
    /// The body; empty when it is streamed.
    pub body_base64: ByteChunk,
}

/// A header of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpHeader {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A piece of an answer that is streamed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpBodyDelta {
    /// Which request it belongs to.
    pub request_id: String,
    /// Counts from 1.
    pub seq: u64,
    /// The bytes; empty at the end.
    pub delta_base64: ByteChunk,
    /// Whether nothing follows.
    pub done: bool,
    /// Why it broke off, if it did.
    pub error: Option<String>,
}
