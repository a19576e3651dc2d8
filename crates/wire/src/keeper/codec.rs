//! Decodes and encodes the lines of the keeper protocol within their limits. No I/O.

use std::fmt;

use bytes::{Buf as _, Bytes, BytesMut};

use super::{KeeperMessage, KeeperRequest, MAX_LINE_BYTES, MAX_OUTPUT_BYTES, OutputStream, Version};
use crate::base64;

/// Why a peer's message is invalid. The connection ends after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeeperWireError {
    /// A line is longer than [`MAX_LINE_BYTES`].
    TooLong,
    /// A line is not a message of this protocol.
    NotAMessage(String),
    /// An output is empty, above [`MAX_OUTPUT_BYTES`], or not in the form of this version.
    BadOutput,
}

impl fmt::Display for KeeperWireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeeperWireError::TooLong => write!(f, "line too long (limit {MAX_LINE_BYTES} bytes)"),
            KeeperWireError::NotAMessage(reason) => {
                write!(f, "invalid keeper message: {reason}")
            }
            KeeperWireError::BadOutput => f.write_str("output is not in the form of the negotiated version"),
        }
    }
}

impl std::error::Error for KeeperWireError {}

/// A complete message of a keeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeeperFrame {
    /// Output with its bytes.
    Output {
        /// The position of the first byte.
        start: u64,
        /// The output stream.
        stream: OutputStream,
        /// The bytes of the output.
        bytes: Bytes,
    },
    /// Any other message.
    Message(KeeperMessage),
}

/// Splits a keeper's byte stream into frames.
#[derive(Debug)]
pub struct Decoder {
    version: Version,
    /// The bytes of the buffer that are known to have no newline.
    scanned: usize,
    /// An output whose bytes are not complete.
    partial: Option<(u64, OutputStream, usize)>,
}

impl Decoder {
    /// Creates a decoder for the negotiated version.
    pub fn new(version: Version) -> Decoder {
        Decoder { version, scanned: 0, partial: None }
    }

    /// Takes the next frame out of `buffer`; `None` if it is incomplete.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<KeeperFrame>, KeeperWireError> {
        if let Some((start, stream, count)) = self.partial {
            if buffer.len() < count {
                return Ok(None);
            }
            self.partial = None;
            return Ok(Some(KeeperFrame::Output { start, stream, bytes: buffer.split_to(count).freeze() }));
        }
        let Some(line) = take_line(buffer, &mut self.scanned)? else { return Ok(None) };
        match parse(&line)? {
            KeeperMessage::Output { start, stream, data, bytes } => match (self.version, data, bytes) {
                (Version::V1, Some(data), None) => {
                    let bytes = base64::decode(&data).map_err(|_bad| KeeperWireError::BadOutput)?;
                    check(start, bytes.len())?;
                    Ok(Some(KeeperFrame::Output { start, stream, bytes: bytes.into() }))
                }
                (Version::V2 | Version::V3, None, Some(count)) => {
                    check(start, count)?;
                    self.partial = Some((start, stream, count));
                    self.next(buffer)
                }
                _ => Err(KeeperWireError::BadOutput),
            },
            message => Ok(Some(KeeperFrame::Message(message))),
        }
    }
}

/// Takes the next request out of `buffer`; `None` if it is incomplete.
pub fn read_request(buffer: &mut BytesMut) -> Result<Option<KeeperRequest>, KeeperWireError> {
    match take_line(buffer, &mut 0)? {
        Some(line) => parse(&line).map(Some),
        None => Ok(None),
    }
}

/// Encodes a request as one line.
pub fn encode_request(request: &KeeperRequest) -> Vec<u8> {
    line(request)
}

/// Encodes a frame for the negotiated version.
pub fn encode_frame(version: Version, frame: &KeeperFrame) -> Vec<u8> {
    match frame {
        KeeperFrame::Message(message) => line(message),
        KeeperFrame::Output { start, stream, bytes } => {
            let (start, stream) = (*start, *stream);
            match version {
                Version::V1 => {
                    let data = Some(base64::encode(bytes));
                    line(&KeeperMessage::Output { start, stream, data, bytes: None })
                }
                Version::V2 | Version::V3 => {
                    let mut out =
                        line(&KeeperMessage::Output { start, stream, data: None, bytes: Some(bytes.len()) });
                    out.extend_from_slice(bytes);
                    out
                }
            }
        }
    }
}

fn line(message: &impl serde::Serialize) -> Vec<u8> {
    // Maps with text keys and numbers always serialize.
    let mut out = serde_json::to_vec(message).unwrap_or_default();
    out.push(b'\n');
    out
}

fn parse<T: serde::de::DeserializeOwned>(line: &[u8]) -> Result<T, KeeperWireError> {
    serde_json::from_slice(line).map_err(|error| KeeperWireError::NotAMessage(error.to_string()))
}

/// Checks the size of an output and that its end fits a cursor.
fn check(start: u64, bytes: usize) -> Result<(), KeeperWireError> {
    let is_good = bytes > 0 && bytes <= MAX_OUTPUT_BYTES && start.checked_add(bytes as u64).is_some();
    if is_good { Ok(()) } else { Err(KeeperWireError::BadOutput) }
}

fn take_line(buffer: &mut BytesMut, scanned: &mut usize) -> Result<Option<BytesMut>, KeeperWireError> {
    let unscanned = buffer.get(*scanned..).unwrap_or_default();
    match memchr::memchr(b'\n', unscanned) {
        Some(place) if *scanned + place > MAX_LINE_BYTES => Err(KeeperWireError::TooLong),
        Some(place) => {
            let line = buffer.split_to(*scanned + place);
            buffer.advance(1);
            *scanned = 0;
            Ok(Some(line))
        }
        None if buffer.len() > MAX_LINE_BYTES => Err(KeeperWireError::TooLong),
        None => {
            *scanned = buffer.len();
            Ok(None)
        }
    }
}
