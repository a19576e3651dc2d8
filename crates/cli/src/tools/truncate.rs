//! Converts bytes to text and finds where to truncate it.

/// Bytes as text, with invalid UTF-8 replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossyText {
    /// The converted text.
    pub text: String,
    /// The number of bytes that were replaced.
    pub replaced: usize,
}

/// Converts bytes to text; only invalid UTF-8 is replaced.
pub fn show(bytes: &[u8]) -> LossyText {
    let mut text = String::with_capacity(bytes.len());
    let mut replaced = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            replaced += chunk.invalid().len();
        }
    }
    LossyText { text, replaced }
}

/// The end of the first at most `limit` bytes: after a line if one ends in their second half,
/// otherwise between two characters.
pub fn end_of_head(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let piece = bytes.get(..limit).unwrap_or(bytes);
    match piece.iter().rposition(|byte| *byte == b'\n') {
        Some(at) if at >= limit / 2 => at + 1,
        _ => between_characters(bytes, limit, Lean::Back),
    }
}

/// The start of the last at most `limit` bytes: at a line if one starts in their first half, otherwise
/// between two characters.
pub fn start_of_tail(bytes: &[u8], limit: usize) -> usize {
    let Some(from) = bytes.len().checked_sub(limit).filter(|from| *from > 0) else { return 0 };
    let piece = bytes.get(from..).unwrap_or_default();
    match piece.iter().position(|byte| *byte == b'\n') {
        Some(at) if at < limit / 2 => from + at + 1,
        _ => between_characters(bytes, from, Lean::Forward),
    }
}

/// The end of the first at most `limit` lines.
pub fn end_of_lines(bytes: &[u8], limit: usize) -> usize {
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    limit.checked_sub(1).map_or(Some(0), |last| ends.nth(last)).unwrap_or(bytes.len())
}

/// The start of the last at most `limit` lines.
pub fn start_of_lines(bytes: &[u8], limit: usize) -> usize {
    let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut starts = whole.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    limit.checked_sub(1).map_or(Some(bytes.len()), |last| starts.nth(last)).unwrap_or(0)
}

enum Lean {
    Back,
    Forward,
}

/// The nearest position to `at` that is not inside a character; `at` itself for invalid UTF-8.
fn between_characters(bytes: &[u8], at: usize, lean: Lean) -> usize {
    let is_inside = |position: usize| bytes.get(position).is_some_and(|byte| byte & 0xC0 == 0x80);
    // A character has at most four bytes.
    let candidates = 0..4;
    let position = |step: usize| match lean {
        Lean::Back => at.saturating_sub(step),
        Lean::Forward => at + step,
    };
    let found = candidates.map(position).find(|position| !is_inside(*position));
    found.filter(|position| *position > 0 && *position <= bytes.len()).unwrap_or(at)
}

/// The number of lines, including an incomplete last one.
pub fn lines(bytes: &[u8]) -> usize {
    let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
    match bytes.last() {
        None | Some(b'\n') => ends,
        Some(_) => ends + 1,
    }
}

/// The last non-empty line, at most `limit` characters, for progress messages.
pub fn last_line(bytes: &[u8], limit: usize) -> Option<String> {
    let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r'));
    let line = lines.rev().find(|line| !line.trim_ascii().is_empty())?;
    Some(show(line).text.trim().chars().filter(|c| !c.is_control()).take(limit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_text_is_unchanged_and_invalid_bytes_are_replaced() {
        assert_eq!(show("grün ✓".as_bytes()), LossyText { text: "grün ✓".to_owned(), replaced: 0 });
        assert_eq!(
            show(b"a\xff\xfeb\xe2\x9c"),
            LossyText { text: "a\u{fffd}\u{fffd}b\u{fffd}".to_owned(), replaced: 4 }
        );
    }

    #[test]
    fn short_lines_are_kept_whole() {
        let text = b"one\ntwo\nthree\nfour\n";
        assert_eq!(end_of_head(text, 10), 8);
        assert_eq!(start_of_tail(text, 10), 14);
        assert_eq!((end_of_head(text, 100), start_of_tail(text, 100)), (text.len(), 0));
    }

    #[test]
    fn text_is_never_cut_inside_a_character() {
        let text = "✓".repeat(100);
        for limit in 1..=300 {
            let (head, tail) = (end_of_head(text.as_bytes(), limit), start_of_tail(text.as_bytes(), limit));
            if limit >= 3 {
                assert!(text.is_char_boundary(head) && head <= limit && head + 3 > limit, "{limit}: {head}");
            }
            assert!(text.is_char_boundary(tail) && text.len() - tail <= limit, "{limit}: {tail}");
        }
        assert_eq!(end_of_head(&[0x80; 10], 5), 5, "invalid UTF-8 is cut anywhere");
    }

    #[test]
    fn the_first_and_the_last_lines_are_found() {
        let text = b"one\ntwo\nthree\nfour";
        assert_eq!([0, 1, 2, 3, 4, 9].map(|limit| end_of_lines(text, limit)), [0, 4, 8, 14, 18, 18]);
        assert_eq!([0, 1, 2, 3, 4, 9].map(|limit| start_of_lines(text, limit)), [18, 14, 8, 4, 0, 0]);
        assert_eq!(start_of_lines(b"one\ntwo\n", 1), 4, "the last line end ends a line");
    }

    #[test]
    fn the_last_line_is_the_last_non_empty_one() {
        assert_eq!(last_line(b"a\n 50%\r 60%\r\n\n", 80).as_deref(), Some("60%"));
        assert_eq!(last_line(b"\n\n", 80), None);
        assert_eq!(last_line(b"\x1b[1mdone", 80).as_deref(), Some("[1mdone"));
        assert_eq!((lines(b""), lines(b"a"), lines(b"a\nb\n")), (0, 1, 2));
    }
}
