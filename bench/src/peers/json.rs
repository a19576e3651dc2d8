//! Takes the one large string out of a JSON message, so that megabytes of payload never pass through a JSON parser.

use anyhow::{Context, Result, bail};
use base64_simd::{AsOut, STANDARD};
use memchr::{memchr2, memmem};
use serde_json::Value;

/// Where the opening of a payload is looked for first.
const FRONT: usize = 4096;

/// A message without its payload, and the payload decoded from JSON but not from base64.
#[derive(Debug)]
pub(crate) struct Split<'a> {
    /// The message with an empty string where the payload was.
    pub(crate) rest: Value,
    /// The payload's text, if the message has one.
    pub(crate) payload: Option<&'a [u8]>,
}

/// Finds payloads; holds the buffers that decoding reuses.
#[derive(Debug)]
pub(crate) struct Splitter {
    openings: Vec<memmem::Finder<'static>>,
    text: Vec<u8>,
}

impl Splitter {
    /// Openings look like `"data":"`. Inside a JSON string every quote is escaped, so a match is never inside one.
    pub(crate) fn new(openings: &[&'static str]) -> Self {
        Self {
            openings: openings.iter().map(|opening| memmem::Finder::new(*opening)).collect(),
            text: Vec::new(),
        }
    }

    /// Splits one message into its parts.
    pub(crate) fn split<'a>(&'a mut self, message: &'a [u8]) -> Result<Split<'a>> {
        // The only large string of a message begins near its front.
        let front = &message[..message.len().min(FRONT)];
        let Some(begin) = self.find(front).or_else(|| self.find(message)) else {
            return Ok(Split { rest: parse(message)?, payload: None });
        };
        let (head, tail) = message.split_at(begin);
        let (taken, plain) = unescape(tail, &mut self.text)?;
        let rest = parse(&[head, &tail[taken..]].concat())?;
        let payload = if plain { &tail[..taken] } else { &self.text };
        Ok(Split { rest, payload: Some(payload) })
    }

    fn find(&self, message: &[u8]) -> Option<usize> {
        self.openings.iter().find_map(|opening| Some(opening.find(message)? + opening.needle().len()))
    }
}

fn parse(message: &[u8]) -> Result<Value> {
    serde_json::from_slice(message)
        .with_context(|| format!("not JSON: {}", String::from_utf8_lossy(&message[..message.len().min(200)])))
}

/// Reads a JSON string up to its closing quote. Returns where the quote is, and whether the text held no escape at
/// all; otherwise the decoded text is in `text`.
fn unescape(raw: &[u8], text: &mut Vec<u8>) -> Result<(usize, bool)> {
    text.clear();
    let mut at = 0;
    loop {
        let found = at + memchr2(b'"', b'\\', &raw[at..]).context("a string without an end")?;
        if raw[found] == b'"' {
            if at > 0 {
                text.extend_from_slice(&raw[at..found]);
            }
            return Ok((found, at == 0));
        }
        text.extend_from_slice(&raw[at..found]);
        at = found + 1 + escape(&raw[found + 1..], text)?;
    }
}

/// Decodes the escape after a backslash; returns its length in bytes.
fn escape(raw: &[u8], text: &mut Vec<u8>) -> Result<usize> {
    let byte = match raw.first() {
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(&same @ (b'"' | b'\\' | b'/')) => same,
        Some(b'u') => return unicode(raw, text),
        _ => bail!("an unknown escape in a JSON string"),
    };
    text.push(byte);
    Ok(1)
}

/// Decodes `uXXXX`, or a pair of them, through the JSON parser: they are rare.
fn unicode(raw: &[u8], text: &mut Vec<u8>) -> Result<usize> {
    for size in [5, 11] {
        let quoted = [b"\"\\", raw.get(..size).context("a cut escape")?, b"\""].concat();
        if let Ok(character) = serde_json::from_slice::<String>(&quoted) {
            text.extend_from_slice(character.as_bytes());
            return Ok(size);
        }
    }
    bail!("a broken escape in a JSON string")
}

/// Decodes base64 into a buffer that is reused, and returns the bytes.
pub(crate) fn decode<'a>(text: &[u8], buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    if buffer.len() < text.len() {
        buffer.resize(text.len(), 0);
    }
    match STANDARD.decode(text, buffer.as_mut_slice().as_out()) {
        Ok(bytes) => Ok(bytes),
        Err(_) => bail!("not base64"),
    }
}

/// Encodes bytes as base64 into a buffer that is reused.
pub(crate) fn encode_into<'a>(bytes: &[u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    let size = STANDARD.encoded_length(bytes.len());
    if buffer.len() < size {
        buffer.resize(size, 0);
    }
    STANDARD.encode(bytes, buffer.as_mut_slice().as_out())
}

/// Encodes bytes as base64.
pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode_to_string(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_taken_out_and_decoded() {
        let mut splitter = Splitter::new(&["\"data\":\""]);
        let message = br#"{"method":"exec.stdout","params":{"data":"a\n\"b\"\u00e9\ud83d\ude00 \"data\":\" z","seq":1}}"#;
        let split = splitter.split(message).unwrap();
        assert_eq!(split.payload.unwrap(), "a\n\"b\"é😀 \"data\":\" z".as_bytes());
        assert_eq!(split.rest["params"]["seq"], 1);
        assert_eq!(split.rest["params"]["data"], "");
    }

    #[test]
    fn a_message_without_payload_is_just_parsed() {
        let mut splitter = Splitter::new(&["\"data\":\""]);
        let split = splitter.split(br#"{"id":1,"result":{}}"#).unwrap();
        assert!(split.payload.is_none());
        assert_eq!(split.rest["id"], 1);
    }

    #[test]
    fn base64_comes_back() {
        let mut buffer = Vec::new();
        assert_eq!(decode(encode(b"hello").as_bytes(), &mut buffer).unwrap(), b"hello");
        assert!(decode(b"?", &mut buffer).is_err());
    }
}
