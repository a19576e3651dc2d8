//! The content of a file on its way out: as text or base64, whole characters, never longer than a line may be.

use engine::RootedPath;
use engine::files::{FileContent, ReadRange};
use wire::jsonrpc::Id;
use wire::rexd::v1::{ReadContent, ReadResponse, RpcError};

use super::super::convert;
use super::super::errors::{rpc_error, text};
use super::mode_string::mode_string;

/// What surrounds the content in its line; paths are short beside it.
const ENVELOPE_BYTES: usize = 8 * 1024;

/// How the client wants the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// As text, whatever it is.
    Text,
    /// As base64.
    Bytes,
    /// As text if it is text, else as base64.
    Whatever,
}

/// One read and how its result travels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) range: ReadRange,
    wanted: Wanted,
    frame_bytes: Option<usize>,
    /// Whether the bytes are hashed.
    hashes: bool,
}

/// A file's content, ready to be written into a line.
#[derive(Debug)]
pub(super) struct Response {
    path: String,
    size: u64,
    mtime: i64,
    truncated: bool,
    /// The hash of the bytes and the file's mode.
    hash: Option<(String, String)>,
    content: Encoded,
}

#[derive(Debug)]
enum Encoded {
    Text(String),
    Bytes(Vec<u8>),
}

impl Reading {
    /// A read whose result fits into the longest line the client takes.
    pub(super) fn new(mut range: ReadRange, wanted: Wanted, frame_bytes: Option<usize>) -> Reading {
        if let Some(frame) = frame_bytes {
            let room = frame.saturating_sub(ENVELOPE_BYTES).max(1024);
            let fits = if wanted == Wanted::Text { room } else { room / 4 * 3 };
            range.max = range.max.min(fits as u64);
        }
        Reading { range, wanted, frame_bytes, hashes: false }
    }

    /// The same, hashing what is read.
    pub(super) fn hashing(self, hashes: bool) -> Reading {
        Reading { hashes, ..self }
    }

    /// Whether these bytes are all that was asked for, though the file goes on.
    pub(super) fn is_met_by(&self, bytes: &[u8]) -> bool {
        let asked = self.range.length.unwrap_or(u64::MAX).min(self.range.max);
        bytes.len() as u64 >= asked
    }

    /// The result of the read, encoded as wanted.
    pub(super) fn respond(
        &self,
        path: &RootedPath,
        content: Result<FileContent, engine::Error>,
    ) -> Result<Response, RpcError> {
        let FileContent { bytes, size, mtime_ms, more, mode } = content.map_err(rpc_error)?;
        let hash = self.hashes.then(|| (convert::hash(&bytes), mode_string(mode)));
        let mut truncated = more;
        let content = match self.wanted {
            Wanted::Bytes => Encoded::Bytes(bytes),
            Wanted::Text => Encoded::Text(lossy(bytes, more)),
            Wanted::Whatever => match String::from_utf8(bytes) {
                Ok(text) => Encoded::Text(text),
                // Only the end is cut in the middle of a character: that is still text.
                Err(error) if more && error.utf8_error().error_len().is_none() => {
                    Encoded::Text(lossy(error.into_bytes(), more))
                }
                Err(error) => Encoded::Bytes(error.into_bytes()),
            },
        };
        let content = match (content, self.frame_bytes) {
            (Encoded::Text(text), Some(frame)) => {
                let (text, was_cut) = fit(text, frame.saturating_sub(ENVELOPE_BYTES));
                truncated |= was_cut;
                Encoded::Text(text)
            }
            (content, _) => content,
        };
        Ok(Response { path: text(path.as_path()), size, mtime: mtime_ms, truncated, hash, content })
    }
}

impl Response {
    /// The line that answers the request with this id; nothing when nobody wants an answer.
    pub(super) fn encode(&self, id: Option<&Id>) -> Option<Vec<u8>> {
        let content = match &self.content {
            Encoded::Text(text) => ReadContent::Text(text),
            Encoded::Bytes(bytes) => ReadContent::Bytes(bytes),
        };
        let response = ReadResponse {
            path: &self.path,
            size: self.size,
            mtime: self.mtime,
            truncated: self.truncated,
            hash: self.hash.as_ref().map(|(hash, mode)| (hash.as_str(), mode.as_str())),
            content,
        };
        id.map(|id| response.encode(id))
    }
}

/// Text whose broken parts are replaced; a character that only the end of the read cut in two is left out instead.
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

/// Text that takes at most `room` bytes once it is escaped, and whether it had to be cut.
fn fit(mut text: String, room: usize) -> (String, bool) {
    let mut used = 0;
    for (place, character) in text.char_indices() {
        used += match character {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\u{0}'..='\u{1f}' => 6,
            other => other.len_utf8(),
        };
        if used > room {
            text.truncate(place);
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
