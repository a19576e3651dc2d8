//! Lines to messages and back, within their budgets. Pure: bytes in, messages out.

use std::fmt;

use bytes::{Buf as _, Bytes, BytesMut};

use super::{KeeperMessage, KeeperRequest, MAX_LINE_BYTES, MAX_OUTPUT_BYTES, OutputStream, Version};
use crate::base64;

/// What is wrong with what a peer sent. The connection cannot go on after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeeperWireError {
    /// A line is longer than [`MAX_LINE_BYTES`].
    TooLong,
    /// A line is no message of this protocol.
    NotAMessage(String),
    /// An output without bytes, or with more than [`MAX_OUTPUT_BYTES`], or not in this version's way.
    BadOutput,
}

impl fmt::Display for KeeperWireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeeperWireError::TooLong => write!(f, "a line is longer than {MAX_LINE_BYTES} bytes"),
            KeeperWireError::NotAMessage(reason) => {
                write!(f, "not a message of the keeper's protocol: {reason}")
            }
            KeeperWireError::BadOutput => f.write_str("output that is not in the form of the agreed version"),
        }
    }
}

impl std::error::Error for KeeperWireError {}

/// A whole thing that a keeper said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeeperFrame {
    /// Output with its bytes.
    Output {
        /// Where it starts.
        start: u64,
        /// Where it came from.
        stream: OutputStream,
        /// The bytes themselves.
        bytes: Bytes,
    },
    /// Anything else.
    Message(KeeperMessage),
}

/// Takes what a keeper says apart, however it was cut on its way.
#[derive(Debug)]
pub struct Decoder {
    version: Version,
    /// How much of the buffer holds no newline.
    scanned: usize,
    /// Output whose bytes have not all come.
    waiting: Option<(u64, OutputStream, usize)>,
}

impl Decoder {
    /// For a connection on which `version` was agreed.
    pub fn new(version: Version) -> Decoder {
        Decoder { version, scanned: 0, waiting: None }
    }

    /// The next piece, taken out of `buffer`; nothing when more has to come first.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<KeeperFrame>, KeeperWireError> {
        if let Some((start, stream, count)) = self.waiting {
            if buffer.len() < count {
                return Ok(None);
            }
            self.waiting = None;
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
                (Version::V2, None, Some(count)) => {
                    check(start, count)?;
                    self.waiting = Some((start, stream, count));
                    self.next(buffer)
                }
                _ => Err(KeeperWireError::BadOutput),
            },
            told => Ok(Some(KeeperFrame::Message(told))),
        }
    }
}

/// The next request, taken out of `buffer`; nothing when more has to come first.
pub fn read_request(buffer: &mut BytesMut) -> Result<Option<KeeperRequest>, KeeperWireError> {
    match take_line(buffer, &mut 0)? {
        Some(line) => parse(&line).map(Some),
        None => Ok(None),
    }
}

/// A request as its line.
pub fn encode_request(request: &KeeperRequest) -> Vec<u8> {
    line(request)
}

/// What a keeper says as the bytes that are sent.
pub fn encode_frame(version: Version, piece: &KeeperFrame) -> Vec<u8> {
    match piece {
        KeeperFrame::Message(told) => line(told),
        KeeperFrame::Output { start, stream, bytes } => {
            let (start, stream) = (*start, *stream);
            match version {
                Version::V1 => {
                    let data = Some(base64::encode(bytes));
                    line(&KeeperMessage::Output { start, stream, data, bytes: None })
                }
                Version::V2 => {
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

/// Output has bytes, not too many, and an end that a cursor can name.
fn check(start: u64, bytes: usize) -> Result<(), KeeperWireError> {
    let is_good = bytes > 0 && bytes <= MAX_OUTPUT_BYTES && start.checked_add(bytes as u64).is_some();
    if is_good { Ok(()) } else { Err(KeeperWireError::BadOutput) }
}

fn take_line(buffer: &mut BytesMut, scanned: &mut usize) -> Result<Option<BytesMut>, KeeperWireError> {
    let unseen = buffer.get(*scanned..).unwrap_or_default();
    match memchr::memchr(b'\n', unseen) {
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
