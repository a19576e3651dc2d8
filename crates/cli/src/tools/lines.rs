//! LineWindow: selects and numbers lines of a file that is read in chunks, within the size limits for a model.

use super::truncate;

/// The maximum number of bytes shown of a line.
const MAX_LINE_CHARS: usize = 2_000;
/// No further line is added to a page of this many bytes: with a last line of [`MAX_LINE_CHARS`] invalid bytes, shown with
/// three bytes each, and the notes, a page stays below 50,000 bytes.
const FULL_BYTES: usize = 42_000;

/// Receives chunks of a file and keeps the requested lines.
#[derive(Debug)]
pub struct LineWindow {
    first: u64,
    limit: u64,
    /// The current line, up to the length that is shown.
    line: Vec<u8>,
    /// Whether the current line has any bytes.
    is_begun: bool,
    number: u64,
    page: LinePage,
}

/// The selected lines of a file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LinePage {
    /// The lines, each with its number.
    pub text: String,
    /// The first requested line.
    pub first: u64,
    /// The last line in `text`.
    pub last: u64,
    /// The number of lines read.
    pub seen: u64,
    /// Whether more lines were read than are in `text`.
    pub has_more: bool,
    /// Whether a line was truncated.
    pub is_cut: bool,
    /// The number of bytes that are not UTF-8.
    pub replaced: usize,
}

impl LineWindow {
    /// A window of `limit` lines from line `first`.
    pub fn new(first: u64, limit: u64) -> LineWindow {
        let page = LinePage { first, ..LinePage::default() };
        LineWindow { first, limit, line: Vec::new(), is_begun: false, number: 1, page }
    }

    /// Processes the next chunk; the last one ends the current line.
    pub fn take(&mut self, bytes: &[u8], is_end: bool) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.is_full() {
                self.page.has_more = true;
                return;
            }
            let (content, ends) = match part.strip_suffix(b"\n") {
                Some(content) => (content, true),
                None => (part, false),
            };
            self.is_begun = true;
            // One byte more than shown, so that truncation is detected.
            let room = (MAX_LINE_CHARS + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(content.get(..room.min(content.len())).unwrap_or_default());
            if ends {
                self.end_line();
            }
        }
        if is_end && self.is_begun && !self.is_full() {
            self.end_line();
        }
    }

    /// Whether all requested lines were read.
    pub fn is_full(&self) -> bool {
        self.number >= self.first.saturating_add(self.limit) || self.page.text.len() >= FULL_BYTES
    }

    /// The selected lines of the text.
    pub fn finish(self) -> LinePage {
        let has_more = self.page.has_more || self.is_begun;
        LinePage { seen: self.number - 1, has_more, ..self.page }
    }

    fn end_line(&mut self) {
        if self.number >= self.first {
            let end = truncate::end_of_head(&self.line, MAX_LINE_CHARS);
            self.page.is_cut |= end < self.line.len();
            let shown = truncate::show(self.line.get(..end).unwrap_or_default());
            self.page.replaced += shown.replaced;
            let text = shown.text.strip_suffix('\r').unwrap_or(&shown.text);
            self.page.text.push_str(&format!("{:>6}\t{text}\n", self.number));
            self.page.last = self.number;
        }
        self.line.clear();
        self.is_begun = false;
        self.number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(first: u64, limit: u64, pieces: &[&[u8]]) -> LinePage {
        let mut lines = LineWindow::new(first, limit);
        for (n, piece) in pieces.iter().enumerate() {
            lines.take(piece, n + 1 == pieces.len());
        }
        lines.finish()
    }

    #[test]
    fn lines_are_numbered_from_one_in_any_chunking() {
        let whole = page(1, 9, &[b"a\nb\r\nc"]);
        assert_eq!(whole.text, "     1\ta\n     2\tb\n     3\tc\n");
        assert_eq!((whole.last, whole.seen, whole.has_more), (3, 3, false));
        assert_eq!(page(1, 9, &[b"a", b"", b"\nb\r", b"\nc", b""]), whole);
    }

    #[test]
    fn a_page_reports_that_more_lines_follow() {
        let middle = page(2, 2, &[b"a\nb\nc\nd\n"]);
        assert_eq!(middle.text, "     2\tb\n     3\tc\n");
        assert!(middle.has_more);
        assert!(!page(3, 2, &[b"a\nb\nc\nd\n"]).has_more);
        let behind = page(9, 2, &[b"a\nb\n"]);
        assert_eq!((behind.text.as_str(), behind.seen), ("", 2));
    }

    #[test]
    fn a_long_line_is_truncated_between_characters_and_is_not_buffered() {
        let long = "✓".repeat(100_000);
        let page = page(1, 9, &[long.as_bytes(), long.as_bytes(), b"\nb\n"]);
        assert!(page.is_cut && page.replaced == 0 && page.text.len() < 2_100);
        assert!(page.text.ends_with("     2\tb\n"));
    }
}
