//! A request for `fs.write`, written straight into the line: contents are large and must not be copied for encoding.

use serde_json::Error;

use super::{Encoding, FsWrite, Method as _};
use crate::base64::push_base64;
use crate::jsonrpc;

/// Where the content stands among the other params. It cannot stand inside a text: there its quotes are escaped.
const EMPTY_CONTENT: &[u8] = b"\"content\":\"\"";

/// The whole request for a write of bytes, as base64; what `params` has as content and encoding does not count.
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
    fn it_reads_back_as_the_request_it_stands_for() {
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
