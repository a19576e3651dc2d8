//! The envelope: JSON-RPC without the version member. The members decide the kind of a message.
//!
//! A method with an id is a request, a method without one a notification, a result a response, and an error an error
//! response. The error response to an invalid message has the id -1.

use std::borrow::Cow;
use std::fmt;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::jsonrpc::Id;
use crate::limits::MAX_ID_BYTES;
use crate::text::push_json_string;

/// The codes on the wire.
pub mod code {
    /// The request is malformed, out of order or not permitted.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params do not match the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The operation failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The file or handle does not exist.
    pub const NOT_FOUND: i64 = -32004;
    /// The session is still attached to another connection; a later attempt may succeed.
    pub const SESSION_ATTACHED: i64 = -32010;
}

/// One message with undecoded values.
#[derive(Debug)]
pub enum Message<'a> {
    /// A request of the peer.
    Request {
        /// The id for the response.
        id: Id,
        /// The name of the method.
        method: Cow<'a, str>,
        /// The new text.
        params: Option<&'a RawValue>,
    },
    /// A notification of the peer.
    Notification {
        /// The bytes to write.
        method: Cow<'a, str>,
        /// About what.
        params: Option<&'a RawValue>,
    },
    /// A response of the peer.
    Response {
        /// The id of the request.
        id: Id,
        /// The result or the error.
        result: Result<&'a RawValue, ErrorObject>,
    },
}

/// The error object of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// The kind of failure, for programs.
    pub code: i64,
    /// The message for the user.
    pub message: String,
    /// Further details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl ErrorObject {
    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> ErrorObject {
        ErrorObject { code, message: message.into(), data: None }
    }

    /// Creates an error with code `-32600`.
    pub fn invalid_request(message: impl Into<String>) -> ErrorObject {
        ErrorObject::new(code::INVALID_REQUEST, message)
    }

    /// Creates an error with code `-32602`.
    pub fn invalid_params(message: impl Into<String>) -> ErrorObject {
        ErrorObject::new(code::INVALID_PARAMS, message)
    }

    /// Creates an error with code `-32603`.
    pub fn internal(message: impl Into<String>) -> ErrorObject {
        ErrorObject::new(code::INTERNAL_ERROR, message)
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ErrorObject {}

/// The members of the envelope, not decoded; a repeated name is an error.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<ErrorObject>,
}

/// Distinguishes a `null` member from an absent one.
fn present<'de, D: Deserializer<'de>>(input: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(input).map(Some)
}

/// Parses one message; the error is the text for the error response.
pub fn parse(bytes: &[u8]) -> Result<Message<'_>, String> {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(match serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
            Ok(_) => "expected a JSON-RPC object".to_owned(),
            Err(error) => error.to_string(),
        });
    }
    let fields: Fields<'_> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let id = fields.id.map(read_id).transpose()?;
    match (fields.method, id) {
        (Some(method), Some(id)) => Ok(Message::Request { id, method, params: fields.params }),
        (Some(method), None) => Ok(Message::Notification { method, params: fields.params }),
        (None, Some(id)) => match (fields.result, fields.error) {
            (Some(result), _) => Ok(Message::Response { id, result: Ok(result) }),
            (None, Some(error)) => Ok(Message::Response { id, result: Err(error) }),
            (None, None) => Err("a message must have a method, a result or an error".to_owned()),
        },
        (None, None) => Err("a message must have a method or an id".to_owned()),
    }
}

/// Parses an id: a string or a signed 64-bit integer.
fn read_id(raw: &RawValue) -> Result<Id, String> {
    let text = raw.get();
    let is_usable = text.len() <= MAX_ID_BYTES && (text.starts_with('"') || text.parse::<i64>().is_ok());
    let id = if is_usable { Id::from_json(text) } else { None };
    id.ok_or_else(|| "id must be a string or a 64-bit integer".to_owned())
}

/// Encodes the response to `id`.
pub fn response(id: &Id, result: &impl Serialize) -> Vec<u8> {
    let mut out = response_head(id, 256);
    match serde_json::to_writer(&mut out, result) {
        Ok(()) => {
            out.push(b'}');
            out
        }
        // The caller gets a response even if the result cannot be encoded.
        Err(error) => {
            error_response(id, &ErrorObject::internal(format!("cannot encode the result: {error}")))
        }
    }
}

/// Encodes the start of a response up to its result; append the result and a closing brace.
pub fn response_head(id: &Id, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity + 64);
    out.extend_from_slice(b"{\"id\":");
    id.push_json(&mut out);
    out.extend_from_slice(b",\"result\":");
    out
}

/// Encodes an error response to `id`.
pub fn error_response(id: &Id, error: &ErrorObject) -> Vec<u8> {
    let mut out = error_head(error);
    id.push_json(&mut out);
    out.push(b'}');
    out
}

/// Encodes the error response to an invalid message, with the id -1.
pub fn error_to_nobody(error: &ErrorObject) -> Vec<u8> {
    let mut out = error_head(error);
    out.extend_from_slice(b"-1}");
    out
}

fn error_head(error: &ErrorObject) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b"{\"error\":");
    if serde_json::to_writer(&mut out, error).is_err() {
        out.extend_from_slice(b"{\"code\":-32603,\"message\":\"cannot encode the error\"}");
    }
    out.extend_from_slice(b",\"id\":");
    out
}

/// Encodes a request; fails if the params cannot be encoded.
pub fn request(id: u64, method: &str, params: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b"{\"id\":");
    Id::from(id).push_json(&mut out);
    out.extend_from_slice(b",\"method\":");
    push_method(&mut out, method, params)?;
    Ok(out)
}

/// Encodes a notification; fails if the params cannot be encoded.
pub fn notification(method: &str, params: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b"{\"method\":");
    push_method(&mut out, method, params)?;
    Ok(out)
}

fn push_method(out: &mut Vec<u8>, method: &str, params: &impl Serialize) -> serde_json::Result<()> {
    push_json_string(out, method);
    out.extend_from_slice(b",\"params\":");
    serde_json::to_writer(&mut *out, params)?;
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_decide_what_a_message_is() {
        let kind = |text: &str| match parse(text.as_bytes()) {
            Ok(Message::Request { id, method, .. }) => format!("request {id} {method}"),
            Ok(Message::Notification { method, .. }) => format!("notification {method}"),
            Ok(Message::Response { id, result }) => format!("response {id} {}", result.is_ok()),
            Err(_) => "malformed".to_owned(),
        };
        for (text, expected) in [
            (r#"{"id":1,"method":"a","params":{}}"#, "request 1 a"),
            (r#"{"jsonrpc":"2.0","id":"x","method":"a","trace":{}}"#, "request \"x\" a"),
            (r#"{"id":-5,"method":"a"}"#, "request -5 a"),
            (r#"{"method":"a\u0062"}"#, "notification ab"),
            (r#"{"id":1,"result":null}"#, "response 1 true"),
            (r#"{"error":{"code":1,"message":"m"},"id":1}"#, "response 1 false"),
            (r#"{"id":null,"method":"a"}"#, "malformed"),
            (r#"{"id":1.5,"method":"a"}"#, "malformed"),
            (r#"{"id":1,"id":1,"method":"a"}"#, "malformed"),
            (r#"["id","method"]"#, "malformed"),
            (r#"{"id":1}"#, "malformed"),
            ("{}", "malformed"),
            ("", "malformed"),
            ("nonsense", "malformed"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn members_have_the_order_of_the_original_server() {
        let id = Id::from(3);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(text(response(&id, &1)), r#"{"id":3,"result":1}"#);
        let error = ErrorObject::invalid_request("no");
        assert_eq!(text(error_response(&id, &error)), r#"{"error":{"code":-32600,"message":"no"},"id":3}"#);
        assert_eq!(text(error_to_nobody(&error)), r#"{"error":{"code":-32600,"message":"no"},"id":-1}"#);
        assert_eq!(text(notification("m", &[1]).unwrap()), r#"{"method":"m","params":[1]}"#);
        assert_eq!(text(request(9, "m", &()).unwrap()), r#"{"id":9,"method":"m","params":null}"#);
    }
}
