//! Encoders for output and file content: the bytes are encoded as base64 into the message without a copy.

use super::ExecOutputStream;
use crate::base64::push_base64;
use crate::exec_server::envelope::response_head;
use crate::jsonrpc::{Id, push_u64};
use crate::text::push_json_string;

/// Capacity for the notification without id and data.
const ENVELOPE_BYTES: usize = 160;

/// Encodes a `process/output` notification, with its offset if earlier output was dropped.
pub fn encode_output(
    process_id: &str,
    (seq, output_offset): (u64, Option<u64>),
    stream: ExecOutputStream,
    bytes: &[u8],
) -> Vec<u8> {
    let capacity = ENVELOPE_BYTES + process_id.len() + base64_bytes(bytes);
    let mut out = Vec::with_capacity(capacity);
    out.extend_from_slice(b"{\"method\":\"process/output\",\"params\":{\"processId\":");
    push_json_string(&mut out, process_id);
    out.extend_from_slice(b",\"seq\":");
    push_u64(&mut out, seq);
    if let Some(offset) = output_offset {
        out.extend_from_slice(b",\"outputOffset\":");
        push_u64(&mut out, offset);
    }
    out.extend_from_slice(b",\"stream\":\"");
    out.extend_from_slice(stream.as_str().as_bytes());
    out.extend_from_slice(b"\",\"chunk\":\"");
    push_base64(&mut out, bytes);
    out.extend_from_slice(b"\"}}");
    out
}

/// Encodes a `command/exec/outputDelta` notification.
pub fn encode_output_delta(process_id: &str, is_stderr: bool, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(ENVELOPE_BYTES + process_id.len() + base64_bytes(bytes));
    out.extend_from_slice(b"{\"method\":\"command/exec/outputDelta\",\"params\":{\"processId\":");
    push_json_string(&mut out, process_id);
    out.extend_from_slice(if is_stderr { b",\"stream\":\"stderr\"" } else { b",\"stream\":\"stdout\"" });
    out.extend_from_slice(b",\"chunk\":\"");
    push_base64(&mut out, bytes);
    out.extend_from_slice(b"\"}}");
    out
}

/// Encodes the response to `fs/readFile`.
pub fn encode_file(id: &Id, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = FileEncoder::new(id, bytes.len());
    encoder.push(bytes);
    encoder.finish()
}

/// The response to `fs/readFile`, encoded in pieces, so that the content is in memory only once.
#[derive(Debug)]
pub struct FileEncoder(Vec<u8>);

impl FileEncoder {
    /// The length of every piece except the last must be a multiple of this.
    pub const PIECE_UNIT: usize = 3;

    /// The beginning of a response with about this many bytes of content.
    pub fn new(id: &Id, bytes: usize) -> FileEncoder {
        let mut out = response_head(id, bytes.div_ceil(3) * 4 + 32);
        out.extend_from_slice(b"{\"dataBase64\":\"");
        FileEncoder(out)
    }

    /// Adds a piece of the content.
    pub fn push(&mut self, bytes: &[u8]) {
        push_base64(&mut self.0, bytes);
    }

    /// The whole response, with its end.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"\"}}");
        self.0
    }
}

/// Encodes the response to `fs/readBlock`.
pub fn encode_block(id: &Id, bytes: &[u8], eof: bool) -> Vec<u8> {
    let mut out = response_head(id, base64_bytes(bytes) + 32);
    out.extend_from_slice(b"{\"chunk\":\"");
    push_base64(&mut out, bytes);
    out.extend_from_slice(if eof { b"\",\"eof\":true}}" } else { b"\",\"eof\":false}}" });
    out
}

fn base64_bytes(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(3) * 4
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    #[test]
    fn encoded_messages_decode_to_their_types() {
        let params =
            |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).unwrap()["params"].clone();
        let line = encode_output("a\"b", (7, None), ExecOutputStream::Pty, b"\xffhi");
        let read: ExecOutputDeltaNotification = serde_json::from_value(params(&line)).unwrap();
        assert_eq!((read.process_id.as_str(), read.seq, read.stream), ("a\"b", 7, ExecOutputStream::Pty));
        assert_eq!(&read.chunk.0[..], b"\xffhi");
        let line = encode_output_delta("p", true, b"x");
        let read: crate::exec_server::v0::ExecOutputDeltaNotification =
            serde_json::from_value(params(&line)).unwrap();
        assert_eq!((read.process_id.as_str(), &read.chunk.0[..]), ("p", &b"x"[..]));
        let id = Id::from(4);
        let value: serde_json::Value = serde_json::from_slice(&encode_file(&id, b"hi")).unwrap();
        assert_eq!(value, serde_json::json!({"id": 4, "result": {"dataBase64": "aGk="}}));
        let mut pieces = FileEncoder::new(&id, 5);
        pieces.push(b"abc");
        pieces.push(b"de");
        assert_eq!(pieces.finish(), encode_file(&id, b"abcde"));
        let value: serde_json::Value = serde_json::from_slice(&encode_block(&id, b"", true)).unwrap();
        assert_eq!(value, serde_json::json!({"id": 4, "result": {"chunk": "", "eof": true}}));
    }
}
