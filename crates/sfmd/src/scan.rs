//! Lines of a document with their place in code fences.

/// Where a line stands relative to code fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind<'a> {
    /// Outside of every fence.
    Text,
    /// The first line of a fence, with its info string.
    Opening(&'a str),
    /// Between the first and the last line of a fence.
    Inside,
    /// The last line of a fence.
    Closing,
}

/// One line, without its line feed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScannedLine<'a> {
    /// The line without line feed and carriage return.
    pub(crate) text: &'a str,
    /// Offset of the first byte.
    pub(crate) start: usize,
    /// Offset after the line feed.
    pub(crate) end: usize,
    pub(crate) kind: LineKind<'a>,
}

/// Splits a text into lines and follows its fences.
#[derive(Debug)]
pub(crate) struct LineScanner<'a> {
    text: &'a str,
    at: usize,
    fence: Option<(u8, usize)>,
}

/// The lines of a text.
pub(crate) fn lines(text: &str) -> LineScanner<'_> {
    LineScanner { text, at: 0, fence: None }
}

impl<'a> Iterator for LineScanner<'a> {
    type Item = ScannedLine<'a>;

    fn next(&mut self) -> Option<ScannedLine<'a>> {
        if self.at >= self.text.len() {
            return None;
        }
        let start = self.at;
        let rest = &self.text[start..];
        let (line, end) = match rest.find('\n') {
            Some(length) => (&rest[..length], start + length + 1),
            None => (rest, self.text.len()),
        };
        self.at = end;
        let text = line.strip_suffix('\r').unwrap_or(line);
        Some(ScannedLine { text, start, end, kind: self.classify(text) })
    }
}

impl<'a> LineScanner<'a> {
    fn classify(&mut self, line: &'a str) -> LineKind<'a> {
        let start = line.trim_start();
        // Most lines neither start nor end a fence.
        if !start.starts_with(['`', '~']) {
            return if self.fence.is_some() { LineKind::Inside } else { LineKind::Text };
        }
        let trimmed = start.trim_end();
        let run = fence_run(trimmed);
        match (self.fence, run) {
            (None, Some((mark, length))) => {
                let info = trimmed[length..].trim();
                // An info string with a backtick is inline code, as in CommonMark.
                if mark == b'`' && info.contains('`') {
                    return LineKind::Text;
                }
                self.fence = Some((mark, length));
                LineKind::Opening(info)
            }
            (None, None) => LineKind::Text,
            (Some((mark, least)), Some((found, length)))
                if mark == found && length >= least && length == trimmed.len() =>
            {
                self.fence = None;
                LineKind::Closing
            }
            (Some(_), _) => LineKind::Inside,
        }
    }
}

/// The mark and the length of the run of three or more that starts a trimmed line.
fn fence_run(line: &str) -> Option<(u8, usize)> {
    let mark = *line.as_bytes().first().filter(|mark| matches!(mark, b'`' | b'~'))?;
    let length = line.bytes().take_while(|byte| *byte == mark).count();
    (length >= 3).then_some((mark, length))
}

/// Whether every character may stand in the id of a block, shortcut or action.
pub(crate) fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_id_byte)
}

/// Whether a byte may stand in an id: a letter, a digit, `_` or `-`.
pub(crate) fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Whether a text is a variable name: a letter or `_`, then word characters.
pub(crate) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_') && bytes.all(is_word_byte)
}

/// Whether a byte is an ASCII word character.
pub(crate) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<LineKind<'_>> {
        lines(text).map(|line| line.kind).collect()
    }

    #[test]
    fn a_fence_ends_at_the_same_mark_with_the_same_length() {
        use LineKind::*;
        assert_eq!(
            kinds("a\n```rust\n~~~\n``\n````\nb"),
            [Text, Opening("rust"), Inside, Inside, Closing, Text]
        );
        assert_eq!(kinds("~~~~\n~~~\n~~~~ x\n~~~~"), [Opening(""), Inside, Inside, Closing]);
        assert_eq!(kinds("``` a`b\nx"), [Text, Text]);
    }

    #[test]
    fn lines_cover_the_text() {
        let text = "a\r\n\nb";
        let found: Vec<_> = lines(text).map(|line| (line.text, line.start, line.end)).collect();
        assert_eq!(found, [("a", 0, 3), ("", 3, 4), ("b", 4, 5)]);
    }
}
