//! Output as events: collected for a moment, cut between characters, and with its exact bytes where it is not text.

use bytes::{Bytes, BytesMut};
use engine::process::Stream;
use wire::base64;
use wire::hub::v1::RunOutput;

use super::journal::OutputRange;

/// Output in one event; more becomes another one.
pub(super) const MAX_EVENT_BYTES: usize = 32 * 1024;

/// Output of one stream that is not an event yet.
#[derive(Debug, Default)]
pub(super) struct PendingOutput {
    bytes: BytesMut,
    is_stderr: bool,
    /// The cursor of the first byte.
    from: u64,
}

impl PendingOutput {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether there is enough for an event.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= MAX_EVENT_BYTES
    }

    /// Whether this output continues what is pending: same stream, no gap.
    pub(super) fn continues(&self, stream: Stream, start: u64) -> bool {
        self.is_empty()
            || (self.is_stderr == is_stderr(stream) && self.from + self.bytes.len() as u64 == start)
    }

    /// Adds output that [`PendingOutput::continues`].
    pub(super) fn push(&mut self, stream: Stream, start: u64, bytes: &[u8]) {
        if self.is_empty() {
            self.is_stderr = is_stderr(stream);
            self.from = start;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether all that is pending is the beginning of one character.
    pub(super) fn is_part_of_character(&self) -> bool {
        !self.is_empty() && whole_characters(&self.bytes) == 0
    }

    /// Takes the output of one event. A character that is not complete stays pending unless `takes_all`.
    pub(super) fn take(&mut self, takes_all: bool) -> Option<(OutputRange, Bytes)> {
        let most = self.bytes.len().min(MAX_EVENT_BYTES);
        let is_rest = most == self.bytes.len();
        let whole = whole_characters(self.bytes.get(..most)?);
        let length = if takes_all && is_rest { most } else { whole };
        if length == 0 {
            return None;
        }
        let taken = self.bytes.split_to(length).freeze();
        let range = OutputRange { is_stderr: self.is_stderr, from: self.from, to: self.from + length as u64 };
        self.from = range.to;
        Some((range, taken))
    }
}

fn is_stderr(stream: Stream) -> bool {
    match stream {
        Stream::Stderr => true,
        Stream::Stdout | Stream::Terminal => false,
    }
}

/// How many bytes there are before an incomplete character at the end. Bytes that cannot become text count as whole.
fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    for at in (tail..bytes.len()).rev() {
        let Some(byte) = bytes.get(at) else { break };
        let needed = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            // The continuation of a character: look at the byte before it.
            0x80..=0xBF => continue,
            _ => return bytes.len(),
        };
        return if bytes.len() - at < needed { at } else { bytes.len() };
    }
    bytes.len()
}

/// The data of the event: text, and the exact bytes if the text is not exact.
pub(super) fn output_data(is_stderr: bool, bytes: &[u8]) -> RunOutput {
    let stream = if is_stderr { "stderr" } else { "stdout" }.to_owned();
    match std::str::from_utf8(bytes) {
        Ok(text) => RunOutput { stream, text: text.to_owned(), base64: None },
        Err(_not_text) => RunOutput {
            stream,
            text: String::from_utf8_lossy(bytes).into_owned(),
            base64: Some(base64::encode(bytes)),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_together_are_the_output_and_never_split_a_character(
            text in "\\PC{0,200}",
            cuts in prop::collection::vec(1_usize..9, 0..60),
        ) {
            let (mut pending, mut events, mut at) = (PendingOutput::default(), Vec::new(), 0);
            let bytes = text.as_bytes();
            for cut in cuts {
                let end = (at + cut).min(bytes.len());
                pending.push(Stream::Terminal, at as u64, &bytes[at..end]);
                at = end;
                events.extend(pending.take(false));
            }
            pending.push(Stream::Terminal, at as u64, &bytes[at..]);
            while let Some(event) = pending.take(true) {
                events.push(event);
            }
            let mut next = 0;
            for (range, bytes) in &events {
                prop_assert_eq!(range.from, next);
                next = range.to;
                prop_assert!(std::str::from_utf8(bytes).is_ok());
            }
            let all: Vec<u8> = events.iter().flat_map(|(_, bytes)| bytes.to_vec()).collect();
            prop_assert_eq!(all, bytes);
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_carried_exactly() {
        let data = output_data(false, b"a\xff\xfeb");
        assert_eq!(data.text, "a\u{fffd}\u{fffd}b");
        assert_eq!(base64::decode(&data.base64.unwrap()).unwrap(), b"a\xff\xfeb");
        assert_eq!(
            output_data(true, "ä".as_bytes()),
            RunOutput { stream: "stderr".to_owned(), text: "ä".to_owned(), base64: None }
        );
        assert_eq!(whole_characters(b"a\xff"), 2, "a byte that starts no character does not wait");
        assert_eq!(whole_characters(b"a\xe2\x82"), 1);
    }
}
