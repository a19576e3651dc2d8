//! Encodes a request for `fs.write` directly into the line, as large content must not be copied.

use serde_json::Error;

use super::{Encoding, FsWrite, Method as _};
use crate::base64::push_base64;
use crate::jsonrpc;

/// The empty content among the encoded params. It cannot occur inside a string, where quotes are escaped.
const EMPTY_CONTENT: &[u8] = b"\"content\":\"\"";

/// Encodes a request that writes bytes as base64; content and encoding of `params` are ignored.
pub fn write_request(id: u64, params: &FsWrite, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let encoding = Some(Encoding::Base64.as_str().to_owned());
    let bare =
        jsonrpc::request(id, FsWrite::NAME, &FsWrite { content: String::new(), encoding, ..params.clone() })?;
    let at = memchr::memmem::find(&bare, EMPTY_CONTENT).map_or(bare.len(), |at| at + EMPTY_CONTENT.len() - 1);
    let (before, after) = bare.split_at(at);
    let mut out = Vec::with_capacity(bare.len() + bytes.len().div_ceil(3) * 4);
    out.extend_from_slice(before);
    push_base64(&mut out, bytes);
    out.extend_from_slice(after);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoded_request_decodes_to_its_params() {
        let params = FsWrite {
            session_id: "s_1".to_owned(),
            path: "/a \"content\":\"\" b".to_owned(),
            content: "left out".to_owned(),
            permissions: Some("0600".to_owned()),
            ..FsWrite::default()
        };
        let line = write_request(7, &params, b"\xff\x00").unwrap();
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&value["id"], &value["method"]), (&7.into(), &"fs.write".into()));
        let read: FsWrite = serde_json::from_value(value["params"].clone()).unwrap();
        let encoding = Some("base64".to_owned());
        assert_eq!(read, FsWrite { content: "/wA=".to_owned(), encoding, ..params });
    }
}
