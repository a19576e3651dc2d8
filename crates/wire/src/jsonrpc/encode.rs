//! Requests, answers and notifications as JSON text, written in one pass into one buffer.

use serde::Serialize;

use super::{Id, RpcError};
use crate::text::push_json_string;

/// Room for the envelope and a small result, so that the usual answer is one allocation.
const SMALL: usize = 256;

/// The answer to `id`. Nothing is `null`: an answer to what could not be read.
pub fn response(id: Option<&Id>, result: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(SMALL);
    push_head(&mut out, id);
    out.extend_from_slice(b",\"result\":");
    match serde_json::to_writer(&mut out, result) {
        Ok(()) => {
            out.push(b'}');
            out
        }
        // Only a type that refuses to be JSON gets here; its caller still gets an answer.
        Err(error) => error_response(id, &RpcError::internal(format!("the result is not JSON: {error}"))),
    }
}

/// The error answer to `id`.
pub fn error_response(id: Option<&Id>, error: &RpcError) -> Vec<u8> {
    let mut out = Vec::with_capacity(SMALL);
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

/// A request. Params that refuse to be JSON are the caller's fault and come back as the error.
pub fn request(id: u64, method: &str, params: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(SMALL);
    push_head(&mut out, Some(&Id::from(id)));
    out.extend_from_slice(b",\"method\":");
    push_json_string(&mut out, method);
    out.extend_from_slice(b",\"params\":");
    serde_json::to_writer(&mut out, params)?;
    out.push(b'}');
    Ok(out)
}

/// A notification. Params that refuse to be JSON are sent as an empty object.
pub fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(SMALL);
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

/// The answers of a batch as the one line they are sent in.
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
    fn an_answer_carries_its_id_and_an_error_always_has_data() {
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
    fn a_result_that_is_not_json_still_gets_an_answer() {
        let odd: std::collections::HashMap<Vec<u8>, u8> = [(vec![1], 1)].into();
        assert_eq!(read(response(Some(&Id::from(1)), &odd))["error"]["code"], json!(-32603));
        assert_eq!(read(notification("x", &odd))["params"], json!({}));
    }
}
