//! Encodes the response to `fs.read` directly into the line, as large content must not be copied.

use crate::base64::push_base64;
use crate::binary;
use crate::jsonrpc::{Id, push_u64};
use crate::text::{push_json_fragment, push_json_string};

use super::Encoding;

/// Capacity for everything but path and content.
const ENVELOPE_BYTES: usize = 256;

/// The response to `fs.read`, to be encoded.
#[derive(Debug, Clone, Copy)]
pub struct ReadResponse<'a> {
    /// The path in the client's terms.
    pub path: &'a str,
    /// The size of the file.
    pub size: u64,
    /// The modification time in milliseconds.
    pub mtime: i64,
    /// Whether the file continues after the content.
    pub truncated: bool,
    /// The hash of the bytes and the file's mode, if they were requested.
    pub hash: Option<(&'a str, &'a str)>,
    /// The content as text or bytes.
    pub content: ReadContent<'a>,
}

/// The content and its encoding.
#[derive(Debug, Clone, Copy)]
pub enum ReadContent<'a> {
    /// As `utf8`.
    Text(&'a str),
    /// As `base64`.
    Bytes(&'a [u8]),
    /// As the payload of a binary message.
    Payload(&'a [u8]),
}

impl ReadResponse<'_> {
    /// Encodes the response to the request with this id.
    pub fn encode(&self, id: &Id) -> Vec<u8> {
        let (encoding, capacity) = match self.content {
            ReadContent::Text(text) => (Encoding::Utf8, text.len() + text.len() / 16),
            ReadContent::Bytes(bytes) => (Encoding::Base64, bytes.len().div_ceil(3) * 4),
            ReadContent::Payload(bytes) => (Encoding::Binary, bytes.len()),
        };
        let mut out = Vec::with_capacity(ENVELOPE_BYTES + self.path.len() * 2 + capacity);
        if let ReadContent::Payload(bytes) = self.content {
            binary::begin(&mut out, bytes);
        }
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        id.push_json(&mut out);
        out.extend_from_slice(b",\"result\":{\"path\":");
        push_json_string(&mut out, self.path);
        out.extend_from_slice(b",\"size\":");
        push_u64(&mut out, self.size);
        out.extend_from_slice(b",\"mtime\":");
        out.extend_from_slice(self.mtime.to_string().as_bytes());
        out.extend_from_slice(b",\"truncated\":");
        out.extend_from_slice(if self.truncated { b"true" } else { b"false" });
        if let Some((hash, mode)) = self.hash {
            out.extend_from_slice(b",\"hash\":");
            push_json_string(&mut out, hash);
            out.extend_from_slice(b",\"mode\":");
            push_json_string(&mut out, mode);
        }
        out.extend_from_slice(b",\"encoding\":");
        push_json_string(&mut out, encoding.as_str());
        out.extend_from_slice(b",\"content\":\"");
        match self.content {
            ReadContent::Text(text) => push_json_fragment(&mut out, text),
            ReadContent::Bytes(bytes) => push_base64(&mut out, bytes),
            ReadContent::Payload(_) => {}
        }
        out.extend_from_slice(b"\"}}");
        if let ReadContent::Payload(bytes) = self.content {
            binary::finish(&mut out, bytes);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rexd::v1::FsReadResult;

    #[test]
    fn the_encoded_response_decodes_to_its_result() {
        let id = Id::from_json("7").unwrap();
        for (content, encoding, text) in [
            (ReadContent::Text("a\"b\n"), "utf8", "a\"b\n"),
            (ReadContent::Bytes(b"\xff\x00"), "base64", "/wA="),
        ] {
            let line = ReadResponse {
                path: "/a \"b\"",
                size: 9,
                mtime: -5,
                truncated: true,
                hash: Some(("00", "-rw")),
                content,
            }
            .encode(&id);
            let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(value["id"], 7);
            let result: FsReadResult = serde_json::from_value(value["result"].clone()).unwrap();
            assert_eq!(
                (result.path.as_str(), result.size, result.mtime, result.truncated),
                ("/a \"b\"", 9, -5, true)
            );
            assert_eq!((result.hash.as_deref(), result.mode.as_deref()), (Some("00"), Some("-rw")));
            assert_eq!((result.encoding.as_str(), result.content.as_str()), (encoding, text));
        }
    }

    #[test]
    fn a_payload_follows_the_response_as_it_is() {
        let id = Id::from_json("7").unwrap();
        let content = ReadContent::Payload(b"\xff\x00\n");
        let response = ReadResponse { path: "/a", size: 3, mtime: 0, truncated: false, hash: None, content };
        let message = bytes::Bytes::from(response.encode(&id));
        let (header, payload) = binary::split(&message).unwrap();
        assert_eq!(&payload[..], b"\xff\x00\n");
        let value: serde_json::Value = serde_json::from_slice(&header).unwrap();
        assert_eq!((&value["id"], &value["result"]["encoding"]), (&7.into(), &"binary".into()));
        let text: serde_json::Value = serde_json::from_slice(&binary::to_text(message)).unwrap();
        assert_eq!((&text["id"], &text["result"]["content"]), (&7.into(), &"/wAK".into()));
    }
}
