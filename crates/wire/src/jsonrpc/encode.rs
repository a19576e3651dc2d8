//! Encodes requests, responses and notifications as JSON text, in one pass into one buffer.

use serde::Serialize;

use super::{Id, RpcError};
use crate::text::push_json_string;

/// Initial capacity for the envelope and a small result.
const INITIAL_CAPACITY: usize = 256;

/// Encodes a response. Without an id it is `null`: the request could not be parsed.
pub fn response(id: Option<&Id>, result: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(INITIAL_CAPACITY);
    push_head(&mut out, id);
    out.extend_from_slice(b",\"result\":");
    match serde_json::to_writer(&mut out, result) {
        Ok(()) => {
            out.push(b'}');
            out
        }
        // The caller gets a response even if the result cannot be encoded.
        Err(error) => error_response(id, &RpcError::internal(format!("cannot encode the result: {error}"))),
    }
}

/// Encodes an error response; see [`response`] for the id.
pub fn error_response(id: Option<&Id>, error: &RpcError) -> Vec<u8> {
    let mut out = Vec::with_capacity(INITIAL_CAPACITY);
    push_head(&mut out, id);
    out.extend_from_slice(b",\"error\":{\"code\":");
    out.extend_from_slice(error.code.to_string().as_bytes());
    out.extend_from_slice(b",\"message\":");
    push_json_string(&mut out, &error.message);
    out.extend_from_slice(b",\"data\":");
    if serde_json::to_writer(&mut out, &error.data).is_err() {
        out.extend_from_slice(b"{}");
    }
    out.extend_from_slice(b"}}");
    out
}

/// Encodes a request; fails if the params cannot be encoded.
pub fn request(id: u64, method: &str, params: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(INITIAL_CAPACITY);
    push_head(&mut out, Some(&Id::from(id)));
    out.extend_from_slice(b",\"method\":");
    push_json_string(&mut out, method);
    out.extend_from_slice(b",\"params\":");
    serde_json::to_writer(&mut out, params)?;
    out.push(b'}');
    Ok(out)
}

/// Encodes a notification; params that cannot be encoded become an empty object.
pub fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(INITIAL_CAPACITY);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
    push_json_string(&mut out, method);
    out.extend_from_slice(b",\"params\":");
    let start = out.len();
    if serde_json::to_writer(&mut out, params).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"{}");
    }
    out.push(b'}');
    out
}

/// Joins the responses of a batch into one array.
pub fn array<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut out = vec![b'['];
    for part in parts {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(part.as_ref());
    }
    out.push(b']');
    out
}

fn push_head(out: &mut Vec<u8>, id: Option<&Id>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    match id {
        Some(id) => id.push_json(out),
        None => out.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(bytes: Vec<u8>) -> Value {
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn a_response_has_its_id_and_an_error_always_has_data() {
        let id = Id::from(7);
        assert_eq!(
            response(Some(&id), &json!({"ok": true})),
            br#"{"jsonrpc":"2.0","id":7,"result":{"ok":true}}"#
        );
        assert_eq!(
            read(error_response(None, &RpcError::new(-32700, "say \"what\"\n"))),
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "say \"what\"\n", "data": {}}})
        );
        assert_eq!(
            read(notification("exec.exit", &json!({"seq": 1}))),
            json!({"jsonrpc": "2.0", "method": "exec.exit", "params": {"seq": 1}})
        );
        assert_eq!(array([b"1".as_slice(), b"2"]), b"[1,2]");
    }

    #[test]
    fn a_result_that_cannot_be_encoded_becomes_an_error_response() {
        let invalid: std::collections::HashMap<Vec<u8>, u8> = [(vec![1], 1)].into();
        assert_eq!(read(response(Some(&Id::from(1)), &invalid))["error"]["code"], json!(-32603));
        assert_eq!(read(notification("x", &invalid))["params"], json!({}));
    }
}
