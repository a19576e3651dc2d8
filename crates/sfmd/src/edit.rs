//! Editing: numbered views, previews, and the replacement of a block.

use crate::block;
use crate::diff::{self, DiffOptions};

/// The number of pieces between line feeds.
pub fn line_count(text: &str) -> usize {
    text.split('\n').count()
}

/// The lines of a text with their numbers, from `first` on.
pub fn numbered(text: &str, first: usize) -> String {
    let last = first + line_count(text) - 1;
    let width = last.to_string().len();
    let line = |(index, line): (usize, &str)| format!("{:width$} | {line}", first + index);
    text.split('\n').enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// The first 200 characters, with dots if more follow.
pub fn preview(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The end of every confirmation of a change.
pub fn tail(old: &str, new: &str, options: &DiffOptions) -> String {
    format!("\n---\n{}\n---\nUse /undo to revert.", diff::lines(old, new, options))
}

/// A text with an addition on a line of its own.
pub fn appended(old: &str, addition: &str) -> String {
    let separator = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    format!("{old}{separator}{addition}")
}

/// The document with the content of a block replaced; `None` if there is no such block.
///
/// The heading of a section stays, and so do the line feeds around the content.
pub fn replace_block(document: &str, id: &str, content: &str) -> Option<String> {
    let found = block::find(document, id)?;
    let old = &document[found.content.clone()];
    let start = old.len() - old.trim_start_matches('\n').len();
    let (leading, trailing) = match start == old.len() {
        // Nothing but line feeds: the content starts on the line after the marker.
        true => ("", if old.is_empty() { "\n" } else { old }),
        false => (&old[..start], &old[old.trim_end_matches('\n').len()..]),
    };
    let trailing = match content.ends_with('\n') {
        true => trailing.strip_prefix('\n').unwrap_or(trailing),
        false => trailing,
    };
    let (before, after) = (&document[..found.content.start], &document[found.content.end..]);
    // A heading on the last line, or a section without a final line feed.
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let needs_end = !after.is_empty() && !content.ends_with('\n') && trailing.is_empty();
    let end = if needs_end { "\n" } else { "" };
    Some(format!("{before}{gap}{leading}{content}{trailing}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered() {
        assert_eq!(numbered("a\nb", 1), "1 | a\n2 | b");
        assert_eq!(numbered("a\nb", 9), " 9 | a\n10 | b");
        assert_eq!(numbered("", 1), "1 | ");
        assert_eq!(preview(&"é".repeat(201)), format!("{}...", "é".repeat(200)));
        assert_eq!(appended("a", "b"), "a\nb");
        assert_eq!(appended("a\n", "b"), "a\nb");
    }

    #[test]
    fn the_content_of_a_block_is_replaced() {
        let marked = "x\n<!-- #a -->\n\nold\ntext\n\n<!-- /a -->\ny";
        assert_eq!(replace_block(marked, "a", "new").unwrap(), "x\n<!-- #a -->\n\nnew\n\n<!-- /a -->\ny");
        assert_eq!(replace_block(marked, "a", "new\n").unwrap(), "x\n<!-- #a -->\n\nnew\n\n<!-- /a -->\ny");
        let empty = "<!-- #a -->\n<!-- /a -->\n";
        assert_eq!(replace_block(empty, "a", "new").unwrap(), "<!-- #a -->\nnew\n<!-- /a -->\n");
        let blank = "<!-- #a -->\n\n<!-- /a -->\n";
        assert_eq!(replace_block(blank, "a", "new").unwrap(), "<!-- #a -->\nnew\n<!-- /a -->\n");
        let section = "# A\n\nold\n\n# B\nb";
        assert_eq!(replace_block(section, "a", "new").unwrap(), "# A\n\nnew\n\n# B\nb");
        assert_eq!(replace_block(section, "b", "new").unwrap(), "# A\n\nold\n\n# B\nnew");
        assert_eq!(replace_block("# A", "a", "new").unwrap(), "# A\nnew\n");
        assert_eq!(replace_block(section, "c", "new"), None);
    }
}
