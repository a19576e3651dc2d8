//! The content of a file in a response: as text or base64, in whole characters, within the frame limit.

use engine::RootedPath;
use engine::files::{FileContent, HashKind, ReadRange};
use wire::jsonrpc::Id;
use wire::rexd::v1::{ReadContent, ReadResponse, RpcError};

use super::mode_string::mode_string;
use crate::faces::rexd::convert;
use crate::faces::rexd::errors::{rpc_error, text};

/// What surrounds the content in its line, including the path.
const ENVELOPE_BYTES: usize = 8 * 1024;

/// How the content is encoded in the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadEncoding {
    /// As text; invalid bytes are replaced.
    Text,
    /// As base64.
    Base64,
    /// As the payload of a binary message.
    Binary,
    /// As text if it is text, else as base64.
    Detect,
}

/// A range to read and the form of its result.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadOptions {
    pub(super) range: ReadRange,
    encoding: ReadEncoding,
    frame_bytes: Option<usize>,
    /// The hash of the bytes that the result has.
    hash: Option<HashKind>,
}

#[derive(Debug)]
enum Encoded {
    Text(String),
    Bytes(Vec<u8>),
}

impl ReadOptions {
    /// A read whose result fits into the client's frame.
    pub(super) fn new(
        mut range: ReadRange,
        encoding: ReadEncoding,
        frame_bytes: Option<usize>,
    ) -> ReadOptions {
        if let Some(frame) = frame_bytes {
            let fits = if encoding == ReadEncoding::Base64 { base64_fits(frame) } else { text_fits(frame) };
            range.max = range.max.min(fits as u64);
        }
        ReadOptions { range, encoding, frame_bytes, hash: None }
    }

    /// The same, with or without a hash.
    pub(super) fn hashing(self, hash: Option<HashKind>) -> ReadOptions {
        ReadOptions { hash, ..self }
    }

    /// Whether these bytes are all that was requested, although the file is longer.
    pub(super) fn is_met_by(&self, bytes: &[u8]) -> bool {
        let asked = self.range.length.unwrap_or(u64::MAX).min(self.range.max);
        bytes.len() as u64 >= asked
    }

    /// The encoded response with this id; `None` for a notification.
    pub(super) fn respond(
        &self,
        path: &RootedPath,
        content: Result<FileContent, engine::Error>,
        id: Option<&Id>,
    ) -> Result<Option<Vec<u8>>, RpcError> {
        let FileContent { mut bytes, size, mtime_ms, more, mode } = content.map_err(rpc_error)?;
        let mut truncated = more;
        // As much was read as fits as text.
        let limit = self.frame_bytes.filter(|_| self.encoding == ReadEncoding::Detect).map(base64_fits);
        if let Some(limit) = limit.filter(|limit| bytes.len() > *limit && !is_text(&bytes, more)) {
            bytes.truncate(limit);
            truncated = true;
        }
        let hash = self.hash.map(|kind| (convert::hash(kind, &bytes), mode_string(mode)));
        let content = match self.encoding {
            ReadEncoding::Base64 | ReadEncoding::Binary => Encoded::Bytes(bytes),
            ReadEncoding::Text => Encoded::Text(lossy(bytes, more)),
            ReadEncoding::Detect => match String::from_utf8(bytes) {
                Ok(text) => Encoded::Text(text),
                // Only the last character is cut: that is still text.
                Err(error) if truncated && error.utf8_error().error_len().is_none() => {
                    Encoded::Text(lossy(error.into_bytes(), truncated))
                }
                Err(error) => Encoded::Bytes(error.into_bytes()),
            },
        };
        let content = match (content, self.frame_bytes) {
            (Encoded::Text(text), Some(frame)) => {
                let (text, was_cut) = fit(text, text_fits(frame));
                truncated |= was_cut;
                Encoded::Text(text)
            }
            (content, _) => content,
        };
        let response = ReadResponse {
            path: &text(path.as_path()),
            size,
            mtime: mtime_ms,
            truncated,
            hash: hash.as_ref().map(|(hash, mode)| (hash.as_str(), mode.as_str())),
            content: match &content {
                Encoded::Text(text) => ReadContent::Text(text),
                Encoded::Bytes(bytes) if self.encoding == ReadEncoding::Binary => ReadContent::Payload(bytes),
                Encoded::Bytes(bytes) => ReadContent::Bytes(bytes),
            },
        };
        Ok(id.map(|id| response.encode(id)))
    }
}

/// Bytes of text that fit into a frame, if none of them is escaped.
fn text_fits(frame: usize) -> usize {
    frame.saturating_sub(ENVELOPE_BYTES).max(1024)
}

/// Bytes that fit into a frame as base64.
fn base64_fits(frame: usize) -> usize {
    text_fits(frame) / 4 * 3
}

/// Whether bytes are text, of which the last character may be cut if `more` follows.
fn is_text(bytes: &[u8], more: bool) -> bool {
    std::str::from_utf8(bytes).map_or_else(|error| more && error.error_len().is_none(), |_text| true)
}

/// Text with invalid bytes replaced. A character that the end of the read cut is left out.
fn lossy(mut bytes: Vec<u8>, more: bool) -> String {
    if more
        && let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// Text that takes at most `limit` bytes when escaped, and whether it was cut.
fn fit(mut text: String, limit: usize) -> (String, bool) {
    let mut used = 0;
    for (index, character) in text.char_indices() {
        used += match character {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\u{0}'..='\u{1f}' => 6,
            other => other.len_utf8(),
        };
        if used > limit {
            text.truncate(index);
            return (text, true);
        }
    }
    (text, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters_and_only_when_it_must_be() {
        assert_eq!(lossy("aé".as_bytes()[..2].to_vec(), true), "a");
        assert_eq!(lossy("aé".as_bytes()[..2].to_vec(), false), "a\u{fffd}");
        assert_eq!(lossy(b"a\xffb".to_vec(), true), "a\u{fffd}b");
        assert_eq!(fit("a\n\u{1}é".to_owned(), 9), ("a\n\u{1}".to_owned(), true));
        assert_eq!(fit("a\n\u{1}é".to_owned(), 11), ("a\n\u{1}é".to_owned(), false));
    }
}
