//! Blocks: parts of a document between markers, or sections below a heading.

use std::collections::HashMap;
use std::ops::Range;

use crate::map::TextMap;
use crate::scan::{LineKind, ScannedLine, is_id, lines};
use crate::shortcut::slug;

/// A marker of a block, on a line of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker<'a> {
    Open(&'a str),
    Close(&'a str),
}

/// The marker that a line consists of.
pub(crate) fn marker(line: &str) -> Option<Marker<'_>> {
    let inside = line.trim_start().strip_prefix("<!-- ")?.trim_end().strip_suffix(" -->")?;
    match (inside.strip_prefix('#'), inside.strip_prefix('/')) {
        (Some(id), _) if is_id(id) => Some(Marker::Open(id)),
        (_, Some(id)) if is_id(id) => Some(Marker::Close(id)),
        _ => None,
    }
}

/// A part of a document that an id names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRange {
    /// The lines between the markers, or those below the heading.
    pub content: Range<usize>,
    /// The heading's line, if the block is a section.
    pub heading: Option<Range<usize>>,
}

impl BlockRange {
    /// The text of the block as a reader sees it: a section has its heading.
    pub fn text<'a>(&self, document: &'a str) -> &'a str {
        let start = self.heading.as_ref().map_or(self.content.start, |heading| heading.start);
        document.get(start..self.content.end).unwrap_or_default().trim()
    }
}

/// Finds a block by its markers, then by a heading's id or slug.
pub fn find(document: &str, id: &str) -> Option<BlockRange> {
    marked(document, id).or_else(|| section(document, id))
}

/// The text of a block, trimmed.
pub fn extract<'a>(document: &'a str, id: &str) -> Option<&'a str> {
    Some(find(document, id)?.text(document))
}

fn marked(document: &str, id: &str) -> Option<BlockRange> {
    let mut start = None;
    for line in lines(document).filter(|line| line.kind == LineKind::Text) {
        match (marker(line.text), start) {
            (Some(Marker::Open(found)), None) if found == id => start = Some(line.end),
            (Some(Marker::Close(found)), Some(start)) if found == id => {
                return Some(BlockRange { content: start..line.start, heading: None });
            }
            _ => {}
        }
    }
    None
}

/// Headings in code fences count too, as in the reference.
fn section(document: &str, id: &str) -> Option<BlockRange> {
    let mut found: Option<(usize, Range<usize>)> = None;
    for line in lines(document) {
        let Some((rank, text)) = heading(&line) else { continue };
        match &found {
            None if names(text, id) => found = Some((rank, line.start..line.end)),
            Some((own, heading)) if rank <= *own => {
                return Some(BlockRange { content: heading.end..line.start, heading: Some(heading.clone()) });
            }
            _ => {}
        }
    }
    found.map(|(_, heading)| BlockRange { content: heading.end..document.len(), heading: Some(heading) })
}

/// Where the blocks of a document are, read once for any number of searches.
#[derive(Debug, Default)]
pub(crate) struct BlockIndex<'a> {
    document: &'a str,
    /// The first marker of each id, and the first one after it that closes it.
    marked: HashMap<&'a str, (usize, Option<usize>)>,
    sections: Vec<BlockRange>,
    /// The first section of each id and slug.
    named: TextMap<usize>,
}

impl<'a> BlockIndex<'a> {
    pub(crate) fn new(document: &'a str) -> BlockIndex<'a> {
        let mut index = BlockIndex { document, ..BlockIndex::default() };
        // Sections that have not ended yet: at most one of each rank.
        let mut open: Vec<(usize, usize)> = Vec::new();
        for line in lines(document) {
            if let Some((rank, text)) = heading(&line) {
                while let Some((_, section)) = open.pop_if(|(own, _)| rank <= *own) {
                    index.sections[section].content.end = line.start;
                }
                if index.name(text) {
                    open.push((rank, index.sections.len()));
                    let content = line.end..document.len();
                    index.sections.push(BlockRange { content, heading: Some(line.start..line.end) });
                }
            }
            let found = Some(line.text).filter(|_| line.kind == LineKind::Text).and_then(marker);
            match found {
                Some(Marker::Open(id)) => {
                    index.marked.entry(id).or_insert((line.end, None));
                }
                Some(Marker::Close(id)) => {
                    if let Some((_, end @ None)) = index.marked.get_mut(id) {
                        *end = Some(line.start);
                    }
                }
                None => {}
            }
        }
        index
    }

    /// Gives the names of a heading to the next section; false if earlier ones have them all.
    fn name(&mut self, heading: &str) -> bool {
        let (text, explicit) = explicit_id(heading).map_or((heading, None), |(text, id)| (text, Some(id)));
        let (next, before) = (self.sections.len(), self.named.len());
        for name in explicit.map(str::to_owned).into_iter().chain([slug(text)]) {
            self.named.entry(name).or_insert(next);
        }
        self.named.len() > before
    }

    /// The text of a block, as [`extract`] finds it.
    pub(crate) fn extract(&self, id: &str) -> Option<&'a str> {
        if let Some((start, Some(end))) = self.marked.get(id) {
            return Some(BlockRange { content: *start..*end, heading: None }.text(self.document));
        }
        let section = self.sections.get(*self.named.get(id)?)?;
        Some(section.text(self.document))
    }
}

/// The rank and the text of a heading.
fn heading<'a>(line: &ScannedLine<'a>) -> Option<(usize, &'a str)> {
    let rank = line.text.bytes().take_while(|byte| *byte == b'#').count();
    let text = line.text.get(rank..)?;
    ((1..=6).contains(&rank) && text.starts_with([' ', '\t'])).then(|| (rank, text.trim()))
}

/// Whether a heading carries the id, or its slug is the id.
fn names(heading: &str, id: &str) -> bool {
    match explicit_id(heading) {
        Some((_, explicit)) if explicit == id => true,
        Some((text, _)) => slug(text) == id,
        None => slug(heading) == id,
    }
}

/// The `{#id}` at the end of a heading, with the text before it.
fn explicit_id(heading: &str) -> Option<(&str, &str)> {
    let (text, id) = heading.strip_suffix('}')?.rsplit_once("{#")?;
    is_id(id).then(|| (text.trim_end().trim_end_matches("[]").trim_end(), id))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Top\nintro\n<!-- #a -->\n\nin a\n<!-- /a -->\n## Two words {#second}\nx\n### Deep\ny\n## Last one\nz\n";

    #[test]
    fn blocks_are_found_by_marker_id_and_slug() {
        let table = [
            ("a", Some("in a")),
            ("second", Some("## Two words {#second}\nx\n### Deep\ny")),
            ("two-words", Some("## Two words {#second}\nx\n### Deep\ny")),
            ("deep", Some("### Deep\ny")),
            ("last-one", Some("## Last one\nz")),
            ("none", None),
            ("", None),
        ];
        let index = BlockIndex::new(TEXT);
        for (id, expected) in table {
            assert_eq!(extract(TEXT, id), expected, "{id}");
            assert_eq!(index.extract(id), expected, "{id}");
        }
    }

    #[test]
    fn a_marker_stands_alone_on_its_line() {
        assert_eq!(marker("  <!-- #a-b_1 -->  "), Some(Marker::Open("a-b_1")));
        assert_eq!(marker("<!-- /a -->"), Some(Marker::Close("a")));
        for line in ["<!--#a-->", "<!-- #a --> x", "<!-- #a b -->", "<!-- # -->", "<!-- -->"] {
            assert_eq!(marker(line), None, "{line}");
        }
        assert_eq!(extract("<!-- #a -->\nno end", "a"), None);
        assert_eq!(extract("```\n<!-- #a -->\n<!-- /a -->\n```", "a"), None);
    }
}
