//! Collapses the output of a process for a model: progress that overwrites a line, and repeated lines. Of long output, the
//! start and the end are kept.

use std::collections::VecDeque;

use super::truncate;

/// Repetitions of a line from which they are replaced by their number.
const MIN_REPEATS: usize = 3;
/// A longer line is processed in pieces of this size.
const MAX_PIECE_BYTES: usize = 4 * 1024;
/// Room that is left at the end of a piece, so that it ends between two characters.
const CHARACTER_BYTES: usize = 4;

/// A line as it is shown, and the range of the output that it stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ShownLine {
    start: u64,
    end: u64,
    text: String,
    /// The number of bytes that are not UTF-8.
    replaced: usize,
    /// The number of line ends in the range.
    line_ends: u64,
}

/// The size of the start and of the end that an [`Excerpt`] keeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExcerptLimits {
    /// Bytes of each.
    pub(super) bytes: usize,
    /// Lines of each.
    pub(super) lines: usize,
}

/// The start and the end of collapsed output; all of it if it fits.
#[derive(Debug)]
pub(super) struct Excerpt {
    limits: ExcerptLimits,
    head: Vec<ShownLine>,
    head_bytes: usize,
    tail: VecDeque<ShownLine>,
    tail_bytes: usize,
    omitted_line_ends: u64,
    is_cut: bool,
    /// Whether further lines belong to the end.
    is_head_over: bool,
}

/// The range of output that an excerpt leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Omission {
    /// The offset of its first byte.
    pub(super) from: u64,
    /// The offset after its last byte.
    pub(super) to: u64,
    /// The number of line ends in it.
    pub(super) line_ends: u64,
}

impl Excerpt {
    fn new(limits: ExcerptLimits) -> Excerpt {
        Excerpt {
            limits,
            head: Vec::new(),
            head_bytes: 0,
            tail: VecDeque::new(),
            tail_bytes: 0,
            omitted_line_ends: 0,
            is_cut: false,
            is_head_over: false,
        }
    }

    /// Leaves out the lines after the start, and further ones with this many line ends.
    fn skip(&mut self, line_ends: u64) {
        self.omitted_line_ends += line_ends + self.tail.drain(..).map(|line| line.line_ends).sum::<u64>();
        self.tail_bytes = 0;
        (self.is_cut, self.is_head_over) = (true, true);
    }

    fn push(&mut self, line: ShownLine) {
        let (bytes, limits) = (line.text.len(), self.limits);
        let fits = self.head_bytes + bytes <= limits.bytes && self.head.len() < limits.lines;
        if !self.is_head_over && fits {
            self.head_bytes += bytes;
            self.head.push(line);
            return;
        }
        self.is_head_over = true;
        self.tail_bytes += bytes;
        self.tail.push_back(line);
        while (self.tail_bytes > limits.bytes || self.tail.len() > limits.lines)
            && let Some(dropped) = self.tail.pop_front()
        {
            self.tail_bytes -= dropped.text.len();
            self.omitted_line_ends += dropped.line_ends;
            self.is_cut = true;
        }
    }

    /// The part that is left out between the start and the end.
    pub(super) fn omission(&self) -> Option<Omission> {
        let from = self.head.last().map(|line| line.end)?;
        let to = self.tail.front().map(|line| line.start)?;
        self.is_cut.then_some(Omission { from, to, line_ends: self.omitted_line_ends })
    }

    /// The text of the start, and that of the end.
    pub(super) fn texts(&self) -> (String, String) {
        let text =
            |lines: &mut dyn Iterator<Item = &ShownLine>| lines.map(|line| line.text.as_str()).collect();
        (text(&mut self.head.iter()), text(&mut self.tail.iter()))
    }

    /// The number of shown bytes that are not UTF-8.
    pub(super) fn replaced(&self) -> usize {
        self.head.iter().chain(&self.tail).map(|line| line.replaced).sum()
    }
}

/// Receives output and collapses it. Memory use is bounded by the limits of the excerpt.
#[derive(Debug)]
pub(super) struct Collapser {
    excerpt: Excerpt,
    /// The offset of the current line or piece.
    start: u64,
    /// The offset of the next byte.
    at: u64,
    /// The current state of the line.
    line: Vec<u8>,
    /// Whether a carriage return came last: what follows overwrites the line, unless it is a line end.
    is_returned: bool,
    /// Whether a piece of the line is in the excerpt already.
    is_continued: bool,
    /// Earlier states of the line.
    overwritten: u64,
    /// The text of the last line, which a repetition is compared with.
    last: Option<String>,
    /// The first repetitions of the last line.
    repeats: Vec<ShownLine>,
    /// All of them, once there are many.
    repeated: Option<ShownLine>,
}

impl Collapser {
    /// Output that starts at this offset.
    pub(super) fn new(start: u64, limits: ExcerptLimits) -> Collapser {
        Collapser {
            excerpt: Excerpt::new(limits),
            start,
            at: start,
            line: Vec::new(),
            is_returned: false,
            is_continued: false,
            overwritten: 0,
            last: None,
            repeats: Vec::new(),
            repeated: None,
        }
    }

    /// Processes the bytes at an offset. An offset after the last byte means that the output between was lost.
    pub(super) fn take(&mut self, start: u64, bytes: &[u8]) {
        if start != self.at {
            self.end_line(0);
            (self.start, self.at) = (start, start);
        }
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            let taken = match first {
                b'\n' => {
                    self.at += 1;
                    self.end_line(1);
                    1
                }
                b'\r' => {
                    self.at += 1;
                    self.is_returned = true;
                    1
                }
                _ => self.take_text(rest),
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
    }

    /// Leaves out the bytes at an offset, without looking for lines that could be collapsed.
    pub(super) fn skip(&mut self, start: u64, bytes: &[u8]) {
        self.end_line(0);
        self.end_repeats();
        self.excerpt.skip(bytes.iter().filter(|byte| **byte == b'\n').count() as u64);
        self.start = start + bytes.len() as u64;
        self.at = self.start;
    }

    /// The excerpt, with the current line as its last one.
    pub(super) fn finish(mut self) -> Excerpt {
        self.end_line(0);
        self.end_repeats();
        self.excerpt
    }

    /// Adds bytes to the line, up to its end or the size of a piece; returns how many.
    fn take_text(&mut self, bytes: &[u8]) -> usize {
        if std::mem::take(&mut self.is_returned) && !self.line.is_empty() {
            self.overwritten += 1;
            self.line.clear();
        }
        let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(bytes.len());
        let taken = end.min(MAX_PIECE_BYTES - self.line.len());
        self.line.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        self.at += taken as u64;
        if self.line.len() >= MAX_PIECE_BYTES {
            let cut = truncate::end_of_head(&self.line, MAX_PIECE_BYTES - CHARACTER_BYTES);
            let rest = self.line.split_off(cut);
            let piece = self.shown(self.at - rest.len() as u64, 0);
            self.start = piece.end;
            self.line = rest;
            self.is_continued = true;
            self.end_repeats();
            self.excerpt.push(piece);
        }
        taken
    }

    fn end_line(&mut self, line_ends: u64) {
        if self.start == self.at {
            return;
        }
        let line = self.shown(self.at, line_ends);
        self.start = self.at;
        self.line.clear();
        self.is_returned = false;
        let is_whole = line_ends > 0 && !std::mem::take(&mut self.is_continued);
        match self.last.as_ref() == Some(&line.text) {
            true => self.repeat(line),
            false => {
                self.end_repeats();
                self.last = is_whole.then(|| line.text.clone());
                self.excerpt.push(line);
            }
        }
    }

    /// The current line up to an offset.
    fn shown(&mut self, end: u64, line_ends: u64) -> ShownLine {
        let shown = truncate::show(&self.line);
        let mut text = shown.text;
        match std::mem::take(&mut self.overwritten) {
            0 => {}
            count => text.push_str(&format!(" [{count} earlier states of this line omitted]")),
        }
        if line_ends > 0 {
            text.push('\n');
        }
        ShownLine { start: self.start, end, text, replaced: shown.replaced, line_ends }
    }

    fn repeat(&mut self, line: ShownLine) {
        if let Some(repeated) = &mut self.repeated {
            repeated.end = line.end;
            repeated.line_ends += line.line_ends;
            return;
        }
        self.repeats.push(line);
        if let (MIN_REPEATS.., [first, .., last]) = (self.repeats.len(), self.repeats.as_slice()) {
            let (start, end, line_ends) = (first.start, last.end, self.repeats.len() as u64);
            self.repeated = Some(ShownLine { start, end, line_ends, ..ShownLine::default() });
            self.repeats.clear();
        }
    }

    fn end_repeats(&mut self) {
        self.last = None;
        for line in self.repeats.drain(..) {
            self.excerpt.push(line);
        }
        if let Some(repeated) = self.repeated.take() {
            let text = format!("[previous line repeated {} more times]\n", repeated.line_ends);
            self.excerpt.push(ShownLine { text, ..repeated });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ExcerptLimits = ExcerptLimits { bytes: 16 * 1024, lines: 900 };

    fn excerpt(pieces: &[&[u8]], limits: ExcerptLimits) -> Excerpt {
        let (mut collapser, mut at) = (Collapser::new(7, limits), 7);
        for piece in pieces {
            collapser.take(at, piece);
            at += piece.len() as u64;
        }
        collapser.finish()
    }

    /// The text of the whole output, the same in any chunking.
    fn collapsed(bytes: &[u8]) -> String {
        let whole = excerpt(&[bytes], LIMITS);
        let (head, tail) = whole.texts();
        for size in [1, 2, 3, 1000] {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            assert_eq!(excerpt(&pieces, LIMITS).texts(), (head.clone(), tail.clone()), "{size}");
        }
        assert_eq!(whole.omission(), None);
        head + &tail
    }

    #[test]
    fn ordinary_output_is_unchanged() {
        for text in ["", "a", "a\n", "a\nb\n\nc", "a\na\na\nb\n", "\n\n\n", "grün ✓\n"] {
            assert_eq!(collapsed(text.as_bytes()), text);
        }
        assert_eq!(collapsed(b"a\r\nb\r\n"), "a\nb\n", "line ends of Windows");
        assert_eq!(collapsed(b"a\xff\n"), "a\u{fffd}\n");
    }

    #[test]
    fn progress_is_shown_in_its_last_state_with_the_number_of_earlier_ones() {
        assert_eq!(
            collapsed(b"start\n10%\r50%\r100%\nend\n"),
            "start\n100% [2 earlier states of this line omitted]\nend\n"
        );
        assert_eq!(collapsed(b"10%\r50%\r"), "50% [1 earlier states of this line omitted]");
        assert_eq!(collapsed(b"\rone\r\r\n"), "one\n");
    }

    #[test]
    fn repeated_lines_are_counted() {
        assert_eq!(collapsed(b"a\na\na\na\nb\n"), "a\n[previous line repeated 3 more times]\nb\n");
        let many = format!("x\n{}z", "y\n".repeat(10_000));
        assert_eq!(collapsed(many.as_bytes()), "x\ny\n[previous line repeated 9999 more times]\nz");
        assert_eq!(collapsed(b"a\na\na\na"), "a\na\na\na", "the last line may continue");
    }

    #[test]
    fn long_output_keeps_its_start_and_its_end() {
        let limits = ExcerptLimits { bytes: 100, lines: 3 };
        let text: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let kept = excerpt(&[text.as_bytes()], limits);
        let (head, tail) = kept.texts();
        assert_eq!(
            (head.as_str(), tail.as_str()),
            ("line 0\nline 1\nline 2\n", "line 997\nline 998\nline 999\n")
        );
        let omitted = kept.omission().unwrap();
        assert_eq!((omitted.from, omitted.line_ends), (7 + 21, 994));
        assert_eq!(omitted.to, 7 + text.len() as u64 - 27);
    }

    #[test]
    fn skipped_output_is_left_out_with_its_line_ends() {
        let mut collapser = Collapser::new(0, LIMITS);
        collapser.take(0, b"one\ntw");
        collapser.skip(6, b"o\nthree\nfo");
        collapser.take(16, b"ur\nfive\n");
        let kept = collapser.finish();
        assert_eq!(kept.texts(), ("one\ntw".to_owned(), "ur\nfive\n".to_owned()));
        assert_eq!(kept.omission(), Some(Omission { from: 6, to: 16, line_ends: 2 }));
    }

    #[test]
    fn a_long_line_is_cut_between_characters_without_being_kept() {
        let text = "✓".repeat(1_000_000);
        let kept = excerpt(&[text.as_bytes()], LIMITS);
        let (head, tail) = kept.texts();
        assert!(kept.replaced() == 0 && head.len() <= 16 * 1024 && tail.len() <= 16 * 1024);
        let omitted = kept.omission().unwrap();
        assert_eq!(omitted.from, 7 + head.len() as u64);
        assert_eq!(omitted.to, 7 + (text.len() - tail.len()) as u64);
    }

    #[test]
    fn a_gap_ends_the_line() {
        let mut collapser = Collapser::new(0, LIMITS);
        collapser.take(0, b"before");
        collapser.take(100, b"after\n");
        assert_eq!(collapser.finish().texts().0, "beforeafter\n");
    }
}
