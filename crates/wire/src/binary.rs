//! Binary messages: a JSON header and its payload as raw bytes, for peers that negotiated them.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | 0, which no JSON text starts with |
//! | 4 | the length of the header, big-endian |
//! | 4 | the length of the payload, big-endian |
//! | … | the header: a JSON-RPC message whose last member is the payload's, and empty |
//! | … | the payload |
//!
//! The member before the last one is `"encoding":"binary"`. On a byte stream, a binary message stands where a line could
//! start and has no newline. On a WebSocket it is one binary frame.

use bytes::Bytes;
use serde::Serializer;

use crate::base64::push_base64;

/// The first byte of a binary message.
pub const MARKER: u8 = 0;
/// The bytes before the header.
pub const PREFIX_BYTES: usize = 9;
/// The value of the member `encoding`.
pub const ENCODING: &str = "binary";

/// The encoding in a header, and the quote that opens the name of the last member.
const ENCODING_MEMBER: &[u8] = b"\"encoding\":\"binary\",\"";
/// The end of a header, after the quote that opens the empty member.
const HEADER_END: &[u8] = b"\"}}";

/// A binary message whose parts do not have the announced lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid binary message: its length does not match its prefix")]
pub struct InvalidBinary;

/// Whether a message is binary.
pub fn is_binary(message: &[u8]) -> bool {
    message.first() == Some(&MARKER)
}

/// The length of a whole message that starts with this prefix; `None` if the prefix is incomplete.
pub fn message_bytes(prefix: &[u8]) -> Option<u64> {
    let (header, payload) = lengths(prefix)?;
    Some(PREFIX_BYTES as u64 + u64::from(header) + u64::from(payload))
}

fn lengths(prefix: &[u8]) -> Option<(u32, u32)> {
    let header = prefix.get(1..5)?.try_into().ok()?;
    let payload = prefix.get(5..PREFIX_BYTES)?.try_into().ok()?;
    Some((u32::from_be_bytes(header), u32::from_be_bytes(payload)))
}

/// Splits a binary message into its header and its payload, without a copy.
pub fn split(message: &Bytes) -> Result<(Bytes, Bytes), InvalidBinary> {
    let (header, _payload) = lengths(message).ok_or(InvalidBinary)?;
    if message_bytes(message) != Some(message.len() as u64) {
        return Err(InvalidBinary);
    }
    let start = PREFIX_BYTES + usize::try_from(header).map_err(|_| InvalidBinary)?;
    Ok((message.slice(PREFIX_BYTES..start), message.slice(start..)))
}

/// Starts a binary message: its prefix with the length of the payload. The header is appended next, then [`finish`].
pub(crate) fn begin(out: &mut Vec<u8>, payload: &[u8]) {
    // A payload of 4 GiB would exceed every limit on messages long before.
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out.push(MARKER);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&length.to_be_bytes());
}

/// Ends a binary message that [`begin`] started in an empty buffer: sets the length of the header and appends the payload.
pub(crate) fn finish(out: &mut Vec<u8>, payload: &[u8]) {
    let header = u32::try_from(out.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
    if let Some(length) = out.get_mut(1..5) {
        length.copy_from_slice(&header.to_be_bytes());
    }
    out.extend_from_slice(payload);
}

/// A binary message with this header.
pub fn encode(header: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PREFIX_BYTES + header.len() + payload.len());
    begin(&mut out, payload);
    out.extend_from_slice(header);
    finish(&mut out, payload);
    out
}

/// The same message as JSON text with a base64 payload, for carriers of text. Any other message is returned as it is.
pub fn to_text(message: Bytes) -> Bytes {
    let Ok((header, payload)) = split(&message) else { return message };
    let Some(at) = memchr::memmem::rfind(&header, ENCODING_MEMBER) else { return message };
    let Some(member) =
        header.slice(at + ENCODING_MEMBER.len()..).strip_suffix(HEADER_END).map(<[u8]>::to_vec)
    else {
        return message;
    };
    let mut text = Vec::with_capacity(header.len() + payload.len().div_ceil(3) * 4);
    text.extend_from_slice(&header[..at]);
    text.extend_from_slice(b"\"encoding\":\"base64\",\"");
    text.extend_from_slice(&member);
    push_base64(&mut text, &payload);
    text.extend_from_slice(HEADER_END);
    text.into()
}

/// Serializes a payload as text, for digests of params that contain one.
pub(crate) fn as_base64<S: Serializer>(payload: &Option<Bytes>, output: S) -> Result<S::Ok, S::Error> {
    output.serialize_str(&crate::base64::encode(payload.as_deref().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] =
        br#"{"result":{"path":"\"encoding\":\"binary\"","encoding":"binary","content":""}}"#;

    #[test]
    fn a_message_splits_into_what_it_was_made_of() {
        for payload in [&b""[..], b"\0\xff\n", &[7; 70_000]] {
            let message = Bytes::from(encode(HEADER, payload));
            assert!(is_binary(&message));
            assert_eq!(message_bytes(&message[..PREFIX_BYTES]), Some(message.len() as u64));
            let (header, rest) = split(&message).unwrap();
            assert_eq!((&header[..], &rest[..]), (HEADER, payload));
            assert_eq!(split(&message.slice(..message.len() - 1)), Err(InvalidBinary));
        }
        assert_eq!(message_bytes(&[0, 0, 0, 0, 1]), None);
        assert_eq!(split(&Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])), Err(InvalidBinary));
    }

    #[test]
    fn a_carrier_of_text_gets_base64() {
        let text = to_text(encode(HEADER, b"\xff\x00").into());
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["result"]["path"], "\"encoding\":\"binary\"");
        assert_eq!(
            (&value["result"]["encoding"], &value["result"]["content"]),
            (&"base64".into(), &"/wA=".into())
        );
        assert_eq!(to_text(Bytes::from_static(b"{}")), "{}");
    }
}
