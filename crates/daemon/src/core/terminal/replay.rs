//! Builds the screen of a terminal from the log of its process, with bounded work.

use std::time::Duration;

use engine::process::{Cursor, Item, LogReader, TerminalSize};
use tokio::time::{Instant, timeout_at};

use super::{RenderedScreen, TerminalModel};

/// Output that a screen is built from: the last 4 MiB. Programs that draw the whole screen write less between two redraws.
pub const SCREEN_BYTES: u64 = 4 * 1024 * 1024;
/// Output that the reader of a screen retains: 64 KiB; an escape sequence that is longer is applied incompletely.
pub const RETAINED_BYTES: u64 = 64 * 1024;
/// Longest wait for output that a keeper has not sent: 2 s. The screen is then the one before that output.
const READ_WAIT: Duration = Duration::from_secs(2);
/// Output that is applied at once.
const READ_BYTES: usize = 64 * 1024;

/// Applies the log from the reader's position up to `end`. Returns the screen, and the cursor at which output continues: it
/// is between two escape sequences, at most [`RETAINED_BYTES`] before the reader.
pub async fn screen_at(reader: &mut LogReader, end: Cursor, size: TerminalSize) -> (RenderedScreen, Cursor) {
    let mut replay = Replay::new(size, reader.cursor().0 > 0);
    let deadline = Instant::now() + READ_WAIT;
    while reader.cursor() < end {
        let left = usize::try_from(end.0 - reader.cursor().0).unwrap_or(usize::MAX);
        match timeout_at(deadline, reader.next(READ_BYTES.min(left))).await {
            Ok(Item::Output { bytes, .. }) => replay.feed(&bytes),
            Ok(Item::Lost { .. }) => replay.resume_after_loss(),
            Ok(Item::Exited { .. }) => {}
            Ok(Item::Closed(_) | Item::Disconnected) | Err(_) => break,
        }
        // A large log must not delay other sessions.
        tokio::task::yield_now().await;
    }
    let cursor = Cursor(reader.cursor().0.saturating_sub(replay.pending.len() as u64));
    (replay.model.screen(), cursor)
}

/// A model that is always between two escape sequences, and the output behind that.
struct Replay {
    model: TerminalModel,
    /// The beginning of a sequence or character: at most [`RETAINED_BYTES`].
    pending: Vec<u8>,
    /// Whether the next output may start within an escape sequence.
    starts_within: bool,
}

impl Replay {
    fn new(size: TerminalSize, starts_within: bool) -> Replay {
        Replay { model: TerminalModel::new(size), pending: Vec::new(), starts_within }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        if self.starts_within {
            let Some(start) = bytes.iter().position(|byte| matches!(byte, b'\x1b' | b'\n')) else { return };
            bytes = bytes.get(start..).unwrap_or_default();
            self.starts_within = false;
        }
        self.pending.extend_from_slice(bytes);
        let complete = match self.model.complete_length(&self.pending) {
            0 if self.pending.len() as u64 > RETAINED_BYTES => self.pending.len(),
            complete => complete,
        };
        let complete: Vec<u8> = self.pending.drain(..complete).collect();
        self.model.feed(&complete);
    }

    fn resume_after_loss(&mut self) {
        self.pending.clear();
        self.starts_within = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: TerminalSize = TerminalSize { cols: 20, rows: 4 };

    #[test]
    fn the_screen_ends_between_sequences_wherever_output_is_cut() {
        let output = "plain \x1b[31mred\x1b[0m \x1b]0;title\x07é漢\x1b(0q\x1b(B\r\nnext".as_bytes();
        let mut whole = TerminalModel::new(SIZE);
        whole.feed(output);
        for end in 0..=output.len() {
            for piece in [1, 3, 100] {
                let mut replay = Replay::new(SIZE, false);
                output[..end].chunks(piece).for_each(|bytes| replay.feed(bytes));
                let at = end - replay.pending.len();
                assert!(replay.model.is_between_sequences(), "{end}");
                let mut viewer = TerminalModel::new(SIZE);
                viewer.feed(replay.model.screen().text.as_bytes());
                viewer.feed(&output[at..]);
                assert_eq!(viewer.screen(), whole.screen(), "continued at {at} of {end}");
            }
        }
    }

    #[test]
    fn output_that_starts_within_a_sequence_is_skipped_to_the_next_one() {
        let mut replay = Replay::new(SIZE, true);
        replay.feed(b"8;5;1mno");
        replay.feed(b"thing\x1b[Hshown");
        assert_eq!(replay.model.rows()[0], "shown");
        replay.resume_after_loss();
        replay.feed(b"1mhidden\nbelow");
        assert_eq!(replay.model.rows()[..2], ["shown", "     below"]);
    }

    #[test]
    fn a_sequence_without_an_end_takes_no_more_than_its_limit() {
        let mut replay = Replay::new(SIZE, false);
        replay.feed(b"text\x1b]0;");
        for _ in 0..40 {
            replay.feed(&[b'x'; 4096]);
            assert!(replay.pending.len() as u64 <= RETAINED_BYTES);
        }
        assert_eq!(replay.model.rows()[0], "text");
    }

    #[test]
    fn leaving_the_alternate_screen_shows_what_was_below_it() {
        let mut first = TerminalModel::new(SIZE);
        first.feed(b"$ vim\r\n\x1b[?1049h\x1b[H\x1b[31mpage\x1b[?2004h\x1b[?1002h");
        let mut second = TerminalModel::new(SIZE);
        second.feed(first.screen().text.as_bytes());
        assert_eq!(second.screen(), first.screen());
        for model in [&mut first, &mut second] {
            model.feed(b"\x1b[?1049l$ ");
            assert_eq!(model.rows()[..2], ["$ vim", "$"]);
        }
    }
}
