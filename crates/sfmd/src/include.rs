//! Includes: blocks of other documents, placed where a directive stands.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::block::BlockIndex;
use crate::document::{Directive, directive};
use crate::frontmatter;
use crate::scan::{LineKind, lines};
use crate::uri;

/// The documents that were loaded for includes, by address; a failure has its reason.
pub type IncludeSources = BTreeMap<String, Result<String, String>>;

/// The result of placing the included blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expansion {
    /// The text with every include replaced.
    Done(String),
    /// Addresses to load before the next attempt.
    Needs(Vec<String>),
}

/// Documents that one view may include, and the depth of includes within includes; beyond them, a note is shown.
const MOST_SOURCES: usize = 256;
const DEEPEST: usize = 32;
/// Bytes of an expanded view; beyond them, a note is shown in place of the include.
const MOST_BYTES: usize = 16 << 20;
/// Bytes of included documents that one view reads; beyond them, a note is shown.
const MOST_SOURCE_BYTES: usize = 64 << 20;
/// Includes that one view replaces, those within included blocks counted; beyond them, a note is shown.
const MOST_INCLUDES: usize = 100_000;

/// Replaces the includes of a document's body. Call it again with the sources that it needs.
pub fn expand(body: &str, base: &str, sources: &IncludeSources) -> Expansion {
    let mut state = Includes {
        sources,
        indexes: HashMap::new(),
        source_bytes: 0,
        count: 0,
        needs: BTreeSet::new(),
        text: String::with_capacity(body.len()),
    };
    let mut chain = vec![(uri::split_fragment(base).0.to_owned(), String::new())];
    state.copy(body, &mut chain);
    match state.needs.is_empty() {
        true => Expansion::Done(state.text),
        false => Expansion::Needs(state.needs.into_iter().collect()),
    }
}

/// Whether a body contains an include that is expanded.
pub fn has_includes(body: &str) -> bool {
    body.contains("[!include:")
        && lines(body).any(|line| line.kind == LineKind::Text && include(line.text).is_some())
}

/// The include that a line consists of; without a path, nothing is expanded.
fn include(line: &str) -> Option<Directive> {
    let (kind, found) = directive(line)?;
    (kind == "include" && !found.path.is_empty()).then_some(found)
}

struct Includes<'a> {
    sources: &'a IncludeSources,
    /// The blocks of the sources that were used, so that each is read once.
    indexes: HashMap<&'a str, BlockIndex<'a>>,
    source_bytes: usize,
    count: usize,
    needs: BTreeSet<String>,
    text: String,
}

impl<'a> Includes<'a> {
    fn copy(&mut self, text: &str, chain: &mut Vec<(String, String)>) {
        for line in lines(text) {
            match Some(line.text).filter(|_| line.kind == LineKind::Text).and_then(include) {
                Some(include) => {
                    self.place(&include, chain);
                    self.text.push_str(if text[line.start..line.end].ends_with('\n') { "\n" } else { "" });
                }
                None => self.text.push_str(&text[line.start..line.end]),
            }
        }
    }

    fn place(&mut self, include: &Directive, chain: &mut Vec<(String, String)>) {
        let base = chain.last().map(|(uri, _)| uri.as_str());
        let resolved = uri::resolve(&include.path, base);
        let address = uri::split_fragment(&resolved).0.to_owned();
        let link = (address.clone(), include.name.clone());
        let is_circular = chain.contains(&link) || (chain[0].0 == address && chain.len() > DEEPEST);
        if is_circular {
            return self.note(&format!("⚠ Circular include detected: {}#{}", include.path, include.name));
        }
        self.count += 1;
        if chain.len() > DEEPEST || self.text.len() > MOST_BYTES || self.count > MOST_INCLUDES {
            return self.fail(include, "too many includes");
        }
        let sources = self.sources;
        match sources.get(&address) {
            None if self.sources.len() + self.needs.len() >= MOST_SOURCES => {
                self.fail(include, "too many includes")
            }
            None => drop(self.needs.insert(address)),
            Some(Err(reason)) => self.fail(include, reason),
            Some(Ok(source)) => {
                let Some(index) = self.index(&address, source) else {
                    return self.fail(include, "the included documents are too large");
                };
                let Some(content) = index.extract(&include.name) else {
                    return self.fail(include, "no such block");
                };
                chain.push(link);
                self.copy(content, chain);
                chain.pop();
            }
        }
    }

    /// The blocks of a source; `None` if the sources are too large together.
    fn index(&mut self, address: &str, source: &'a str) -> Option<&BlockIndex<'a>> {
        if !self.indexes.contains_key(address) {
            let (known, _) = self.sources.get_key_value(address)?;
            if self.source_bytes + source.len() > MOST_SOURCE_BYTES {
                return None;
            }
            self.source_bytes += source.len();
            self.indexes.insert(known.as_str(), BlockIndex::new(&source[frontmatter::parse(source).1..]));
        }
        self.indexes.get(address)
    }

    fn fail(&mut self, include: &Directive, reason: &str) {
        self.note(&format!("⚠ Include failed: {}#{} ({reason})", include.path, include.name));
    }

    fn note(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(body: &str, files: &[(&str, &str)]) -> String {
        let mut sources = IncludeSources::new();
        loop {
            match expand(body, "file:///d/doc.md", &sources) {
                Expansion::Done(text) => return text,
                Expansion::Needs(needs) => {
                    for uri in needs {
                        let file = files.iter().find(|(name, _)| uri == format!("file:///d/{name}"));
                        let text = file.map(|(_, text)| (*text).to_owned()).ok_or("not found".to_owned());
                        assert!(sources.insert(uri, text).is_none(), "an address is asked for once");
                    }
                }
            }
        }
    }

    #[test]
    fn blocks_are_placed_recursively() {
        let files = [
            ("a.md", "---\nt: 1\n---\n<!-- #x -->\nfrom a\n[!include:y](./sub/b.md)\n<!-- /x -->"),
            ("sub/b.md", "# y\nfrom b\n[!include:z](../c.md)\n"),
            ("c.md", "<!-- #z -->\nfrom c\n<!-- /z -->"),
        ];
        let body =
            "top\n[!include:x](a.md)\n```\n[!include:x](a.md)\n```\n[!include:q]()\nend [!include:x](a.md)";
        let expected = "top\nfrom a\n# y\nfrom b\nfrom c\n```\n[!include:x](a.md)\n```\n[!include:q]()\nend [!include:x](a.md)";
        assert_eq!(run(body, &files), expected);
    }

    #[test]
    fn failures_and_circles_are_notes() {
        let files = [("a.md", "<!-- #x -->\n1 [!include:x](a.md)\n[!include:x](./a.md)\n<!-- /x -->")];
        assert_eq!(
            run("[!include:x](a.md)", &files),
            "1 [!include:x](a.md)\n⚠ Circular include detected: ./a.md#x"
        );
        assert_eq!(run("[!include:no](a.md)", &files), "⚠ Include failed: a.md#no (no such block)");
        assert_eq!(run("[!include:no](b.md)", &files), "⚠ Include failed: b.md#no (not found)");
    }

    #[test]
    fn an_include_that_doubles_at_each_level_is_cut() {
        let files: Vec<(String, String)> = (0..31)
            .map(|level| {
                let next = format!("[!include:x](f{}.md)\n", level + 1);
                (
                    format!("f{level}.md"),
                    format!("<!-- #x -->\n{}\n{next}{next}<!-- /x -->", "text ".repeat(20_000)),
                )
            })
            .collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let text = run("[!include:x](f0.md)", &files);
        assert!(text.len() < 2 * MOST_BYTES && text.contains("too many includes"));
    }

    #[test]
    fn sources_that_are_too_large_together_are_left_out() {
        let large = format!("<!-- #x -->\nlarge\n<!-- /x -->\n{}", " ".repeat(MOST_SOURCE_BYTES / 2));
        let files = [("a.md", large.as_str()), ("b.md", &large), ("c.md", "<!-- #x -->\nsmall\n<!-- /x -->")];
        let text =
            run("[!include:x](a.md)\n[!include:x](b.md)\n[!include:x](c.md)\n[!include:x](a.md)", &files);
        let expected = "large\n⚠ Include failed: b.md#x (the included documents are too large)\nsmall\nlarge";
        assert_eq!(text, expected);
    }
}
