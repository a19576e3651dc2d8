//! Links and code within one line, found in linear time.

use std::collections::HashMap;
use std::ops::Range;

/// A link within a line, with the bytes that it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InlineLink<'a> {
    pub(crate) range: Range<usize>,
    /// The text between the brackets.
    pub(crate) label: &'a str,
    pub(crate) destination: Destination<'a>,
}

/// What follows the brackets of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination<'a> {
    /// `(href)`
    Href(&'a str),
    /// `[reference]`
    Reference(&'a str),
}

/// The links of a line, without those in code and without images.
pub(crate) fn links(line: &str) -> InlineLinks<'_> {
    let code = if line.contains('`') { code_spans(line) } else { Vec::new() };
    InlineLinks { line, at: 0, code, span: 0, next_close: NextByte::new(b']'), next_end: NextByte::new(b')') }
}

/// Searches a line for links.
#[derive(Debug)]
pub(crate) struct InlineLinks<'a> {
    line: &'a str,
    at: usize,
    code: Vec<Range<usize>>,
    /// The first code span that may end after `at`.
    span: usize,
    next_close: NextByte,
    next_end: NextByte,
}

impl<'a> Iterator for InlineLinks<'a> {
    type Item = InlineLink<'a>;

    fn next(&mut self) -> Option<InlineLink<'a>> {
        loop {
            let start =
                self.at + self.line.as_bytes().get(self.at..)?.iter().position(|byte| *byte == b'[')?;
            if let Some(end) = self.code_end(start) {
                self.at = end;
                continue;
            }
            self.at = start + 1;
            if self.is_escaped(start) {
                continue;
            }
            let Some((label, destination, end)) = self.link_at(start) else { continue };
            self.at = end;
            if start > 0 && self.line.as_bytes()[start - 1] == b'!' {
                continue;
            }
            return Some(InlineLink { range: start..end, label, destination });
        }
    }
}

impl<'a> InlineLinks<'a> {
    /// The end of the code span that contains an offset; offsets only grow.
    fn code_end(&mut self, at: usize) -> Option<usize> {
        while self.code.get(self.span).is_some_and(|span| span.end <= at) {
            self.span += 1;
        }
        self.code.get(self.span).filter(|span| span.start <= at).map(|span| span.end)
    }

    /// Whether an odd number of backslashes stands before an offset. Links that touch them do not overlap.
    fn is_escaped(&self, at: usize) -> bool {
        self.line.as_bytes()[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
    }

    fn link_at(&mut self, start: usize) -> Option<(&'a str, Destination<'a>, usize)> {
        let bytes = self.line.as_bytes();
        // A linked image: its own brackets and address belong to the label.
        let label_end = match bytes[start + 1..].starts_with(b"![") {
            true => {
                let (_, destination, end) = self.simple_link(start + 2)?;
                matches!(destination, Destination::Href(_)).then_some(end)?
            }
            false => self.label_end(start)?,
        };
        if bytes.get(label_end) != Some(&b']') {
            return None;
        }
        let (destination, end) = self.destination(label_end + 1)?;
        Some((&self.line[start + 1..label_end], destination, end))
    }

    fn simple_link(&mut self, start: usize) -> Option<(&'a str, Destination<'a>, usize)> {
        let label_end = self.label_end(start)?;
        let (destination, end) = self.destination(label_end + 1)?;
        Some((&self.line[start + 1..label_end], destination, end))
    }

    /// The bracket that closes a label; a label contains no brackets.
    fn label_end(&mut self, start: usize) -> Option<usize> {
        let end = self.next_close.after(self.line, start + 1)?;
        let has_bracket = self.line.as_bytes()[start + 1..end].contains(&b'[');
        (!has_bracket).then_some(end)
    }

    fn destination(&mut self, at: usize) -> Option<(Destination<'a>, usize)> {
        match self.line.as_bytes().get(at)? {
            b'(' => {
                let end = self.href_end(at + 1)?;
                Some((Destination::Href(self.line[at + 1..end].trim()), end + 1))
            }
            b'[' => {
                let end = self.label_end(at)?;
                Some((Destination::Reference(&self.line[at + 1..end]), end + 1))
            }
            _ => None,
        }
    }

    /// The parenthesis that closes an address; a few balanced pairs inside it are allowed.
    fn href_end(&mut self, start: usize) -> Option<usize> {
        const PAIRS: usize = 8;
        let first = self.next_end.after(self.line, start)?;
        let bytes = self.line.as_bytes();
        let (mut end, mut from, mut open) = (first, start, 0);
        for _ in 0..PAIRS {
            open += bytes[from..end].iter().filter(|byte| **byte == b'(').count();
            if open == 0 {
                return Some(end);
            }
            open -= 1;
            from = end + 1;
            let Some(next) = bytes[from..].iter().position(|byte| *byte == b')') else { return Some(first) };
            end = from + next;
        }
        Some(first)
    }
}

/// The next place of a byte, searched once for growing offsets.
#[derive(Debug)]
struct NextByte {
    byte: u8,
    found: Option<usize>,
    is_absent: bool,
}

impl NextByte {
    fn new(byte: u8) -> NextByte {
        NextByte { byte, found: None, is_absent: false }
    }

    fn after(&mut self, line: &str, at: usize) -> Option<usize> {
        if self.is_absent {
            return None;
        }
        if self.found.is_none_or(|found| found < at) {
            self.found =
                line.as_bytes()[at..].iter().position(|byte| *byte == self.byte).map(|next| at + next);
            self.is_absent = self.found.is_none();
        }
        self.found
    }
}

/// The ranges of inline code: from a run of backticks to the next run of the same length.
pub(crate) fn code_spans(line: &str) -> Vec<Range<usize>> {
    let bytes = line.as_bytes();
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|byte| *byte == b'`') {
        let start = at + next;
        let length = bytes[start..].iter().take_while(|byte| **byte == b'`').count();
        runs.push(start..start + length);
        at = start + length;
    }
    // The partner of each run, found from the right so that each run is visited once.
    let mut partners = vec![None; runs.len()];
    let mut later: HashMap<usize, usize> = HashMap::new();
    for (index, run) in runs.iter().enumerate().rev() {
        partners[index] = later.insert(run.len(), index);
    }
    let mut spans = Vec::new();
    let mut index = 0;
    while index < runs.len() {
        match partners[index] {
            Some(partner) => {
                spans.push(runs[index].start..runs[partner].end);
                index = partner + 1;
            }
            None => index += 1,
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<(&str, Destination<'_>)> {
        links(line).map(|link| (link.label, link.destination)).collect()
    }

    #[test]
    fn links_are_found_outside_of_code() {
        use Destination::*;
        assert_eq!(found("a [b](c) `[d](e)` [f][g] \\[h](i)"), [("b", Href("c")), ("f", Reference("g"))]);
        assert_eq!(found("[[a](b)"), [("a", Href("b"))]);
        assert_eq!(found("![i](x) [![i](x)](y)"), [("![i](x)", Href("y"))]);
        assert_eq!(found("[w](https://w/a_(b)) [x](y)"), [("w", Href("https://w/a_(b)")), ("x", Href("y"))]);
        assert_eq!(found("[w](a(b) c"), [("w", Href("a(b"))]);
        assert_eq!(found("``[a](b)` [c](d)`` [e](f) `"), [("e", Href("f"))]);
        assert_eq!(found("[](x) [a] (b) [a]("), [("", Href("x"))]);
    }
}
