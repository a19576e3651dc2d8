//! Output events: `exec.stdout`, `exec.stderr` and `pty.output`, with an encoder for the hot path.

use serde::{Deserialize, Serialize};

use crate::base64::push_base64;
use crate::binary;
use crate::jsonrpc::push_u64;
use crate::text::{push_json_fragment, push_json_string};

/// Capacity for the notification without ids and data.
const ENVELOPE_BYTES: usize = 224;

/// How output is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// UTF-8 where the output is text, else base64; a long chunk that starts with mostly control characters is not text.
    #[default]
    Utf8,
    /// Always base64, which costs both ends a third of the work.
    Base64,
    /// As raw bytes, in [binary messages](crate::binary).
    Binary,
}

impl Encoding {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf8",
            Encoding::Base64 => "base64",
            Encoding::Binary => binary::ENCODING,
        }
    }
}

/// An output event to be encoded.
#[derive(Debug, Clone, Copy)]
pub struct OutputEvent<'a> {
    /// `exec.stdout`, `exec.stderr` or `pty.output`.
    pub method: &'a str,
    /// The session.
    pub session_id: &'a str,
    /// The process.
    pub process_id: &'a str,
    /// The terminal, if it has one.
    pub pty_id: Option<&'a str>,
    /// Counts from 1 in each stream of a process.
    pub seq: u64,
    /// The event's number in its session.
    pub event_id: u64,
    /// The position in the output at which the chunk ends, for attached readers.
    pub cursor: Option<u64>,
    /// The bytes of the chunk. If a character is split at either end, the chunk is sent as base64.
    pub bytes: &'a [u8],
}

impl OutputEvent<'_> {
    /// The encoded notification. The buffer is allocated once, unless the text is mostly escapes.
    pub fn encode(&self, encoding: Encoding) -> Vec<u8> {
        let text = match encoding {
            Encoding::Utf8 if is_mostly_control(self.bytes) => None,
            Encoding::Utf8 => std::str::from_utf8(self.bytes).ok(),
            Encoding::Base64 => None,
            Encoding::Binary => return self.encode_binary(),
        };
        let data_bytes = match text {
            Some(text) => text.len() + text.len() / 16,
            None => self.bytes.len().div_ceil(3) * 4,
        };
        let mut buffer = self.buffer(data_bytes);
        let out = &mut buffer;
        self.push_head(out);
        match text {
            Some(text) => {
                out.extend_from_slice(b",\"encoding\":\"utf8\",\"data\":\"");
                push_json_fragment(out, text);
            }
            None => {
                out.extend_from_slice(b",\"encoding\":\"base64\",\"data\":\"");
                push_base64(out, self.bytes);
            }
        }
        out.extend_from_slice(b"\"}}");
        buffer
    }

    fn encode_binary(&self) -> Vec<u8> {
        let mut out = self.buffer(self.bytes.len());
        binary::begin(&mut out, self.bytes);
        self.push_head(&mut out);
        out.extend_from_slice(b",\"encoding\":\"binary\",\"data\":\"\"}}");
        binary::finish(&mut out, self.bytes);
        out
    }

    fn buffer(&self, data_bytes: usize) -> Vec<u8> {
        let ids = self.session_id.len() + self.process_id.len() + self.pty_id.map_or(0, str::len);
        Vec::with_capacity(ENVELOPE_BYTES + ids + data_bytes)
    }

    fn push_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
        push_json_string(out, self.method);
        out.extend_from_slice(b",\"params\":{\"session_id\":");
        push_json_string(out, self.session_id);
        if let Some(pty_id) = self.pty_id {
            out.extend_from_slice(b",\"pty_id\":");
            push_json_string(out, pty_id);
        }
        out.extend_from_slice(b",\"process_id\":");
        push_json_string(out, self.process_id);
        let mut number = |name: &[u8], value| {
            out.extend_from_slice(name);
            push_u64(out, value);
        };
        number(b",\"seq\":", self.seq);
        number(b",\"event_id\":", self.event_id);
        if let Some(cursor) = self.cursor {
            number(b",\"cursor\":", cursor);
        }
    }
}

/// Whether bytes are mostly control characters: zeros are valid UTF-8, and six times their size as JSON text.
fn is_mostly_control(bytes: &[u8]) -> bool {
    const WORTH_COUNTING: usize = 1_024;
    let is_control = |byte: &&u8| **byte < 0x20 && !matches!(**byte, b'\n' | b'\r' | b'\t');
    let sample = &bytes[..bytes.len().min(WORTH_COUNTING)];
    sample.len() == WORTH_COUNTING && sample.iter().filter(is_control).count() > WORTH_COUNTING / 2
}

/// An output event as a client decodes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// The session.
    pub session_id: String,
    /// The terminal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty_id: Option<String>,
    /// The process.
    pub process_id: String,
    /// Counts from 1 in each stream of a process.
    pub seq: u64,
    /// The event's number in its session.
    #[serde(default)]
    pub event_id: u64,
    /// The position in the output at which the chunk ends, for attached readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// `utf8`, `base64` or `binary`.
    pub encoding: String,
    /// The bytes of the chunk, in that encoding; empty if they follow the message as its payload.
    pub data: String,
}
