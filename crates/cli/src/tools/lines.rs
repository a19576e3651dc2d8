//! LineWindow of a file that comes in pieces: those asked for, numbered, long ones cut, no more than a model should get.

use super::truncate;

/// Bytes of a line that are shown.
const MAX_LINE_CHARS: usize = 2_000;
/// Bytes of text in one answer.
const MOST_BYTES: usize = 128 * 1024;

/// Takes pieces of a file and keeps the lines that were asked for.
#[derive(Debug)]
pub struct LineWindow {
    first: u64,
    limit: u64,
    /// The line that is being read, as far as it is shown.
    line: Vec<u8>,
    /// Whether the line that is being read has any bytes.
    is_begun: bool,
    number: u64,
    page: LinePage,
}

/// LineWindow of a file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LinePage {
    /// The lines, each with its number.
    pub text: String,
    /// The first line that was asked for.
    pub first: u64,
    /// The last line shown.
    pub last: u64,
    /// LineWindow seen, shown or not.
    pub seen: u64,
    /// Whether lines follow that were seen and not shown.
    pub has_more: bool,
    /// Whether a line was cut.
    pub is_cut: bool,
    /// Bytes that were no text.
    pub replaced: usize,
}

impl LineWindow {
    /// So many lines from this one on.
    pub fn new(first: u64, limit: u64) -> LineWindow {
        let page = LinePage { first, ..LinePage::default() };
        LineWindow { first, limit, line: Vec::new(), is_begun: false, number: 1, page }
    }

    /// Takes the next piece; the last one ends its line.
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
            // One more than is shown, so that a cut is seen.
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

    /// Whether everything that was asked for is there.
    pub fn is_full(&self) -> bool {
        self.number >= self.first.saturating_add(self.limit) || self.page.text.len() >= MOST_BYTES
    }

    /// What there is.
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
    fn lines_are_numbered_from_one_wherever_the_pieces_end() {
        let whole = page(1, 9, &[b"a\nb\r\nc"]);
        assert_eq!(whole.text, "     1\ta\n     2\tb\n     3\tc\n");
        assert_eq!((whole.last, whole.seen, whole.has_more), (3, 3, false));
        assert_eq!(page(1, 9, &[b"a", b"", b"\nb\r", b"\nc", b""]), whole);
    }

    #[test]
    fn a_page_says_that_more_follows() {
        let middle = page(2, 2, &[b"a\nb\nc\nd\n"]);
        assert_eq!(middle.text, "     2\tb\n     3\tc\n");
        assert!(middle.has_more);
        assert!(!page(3, 2, &[b"a\nb\nc\nd\n"]).has_more);
        let behind = page(9, 2, &[b"a\nb\n"]);
        assert_eq!((behind.text.as_str(), behind.seen), ("", 2));
    }

    #[test]
    fn a_long_line_is_cut_between_characters_and_takes_no_memory() {
        let long = "✓".repeat(100_000);
        let page = page(1, 9, &[long.as_bytes(), long.as_bytes(), b"\nb\n"]);
        assert!(page.is_cut && page.replaced == 0 && page.text.len() < 2_100);
        assert!(page.text.ends_with("     2\tb\n"));
    }
}
