//! Trinity: a document whose blocks are kept as files in a directory beside it.

use std::collections::BTreeMap;

use crate::document::directive;
use crate::scan::{LineKind, is_id, lines};

/// A file that holds a block of a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrinitySource {
    /// The id of the block.
    pub id: String,
    /// The path below the document's directory, or `None` for `ID.md` in the directory of sources.
    pub path: Option<String>,
}

/// The files whose content [`compile`] needs. A path that leaves the document's directory is not listed.
pub fn sources(text: &str) -> Vec<TrinitySource> {
    let mut found: Vec<TrinitySource> = text_lines(text).filter_map(|(_, line)| source(line)).collect();
    found.sort();
    found.dedup();
    found
}

/// Replaces each include whose content is given with a marked block.
pub fn compile(text: &str, contents: &BTreeMap<TrinitySource, String>) -> String {
    let mut compiled = String::with_capacity(text.len());
    for line in lines(text) {
        let source = Some(line.text).filter(|_| line.kind == LineKind::Text).and_then(source);
        match source.and_then(|source| contents.get_key_value(&source)) {
            Some((TrinitySource { id, .. }, content)) => {
                compiled.push_str(&format!("<!-- #{id} -->\n{}\n<!-- /{id} -->\n", content.trim()));
            }
            None => compiled.push_str(&text[line.start..line.end]),
        }
    }
    compiled
}

fn text_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    lines(text).filter(|line| line.kind == LineKind::Text).map(|line| (line.start, line.text))
}

fn source(line: &str) -> Option<TrinitySource> {
    let (kind, found) = directive(line)?;
    if kind != "include" || !is_id(&found.name) {
        return None;
    }
    let path = Some(found.path).filter(|path| !path.is_empty());
    let is_inside = path.as_deref().is_none_or(stays_inside);
    is_inside.then_some(TrinitySource { id: found.name, path })
}

/// Whether a path, read from left to right, never leaves the directory that it is relative to.
pub fn stays_inside(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if depth == 0 => return false,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    !path.starts_with('/') && !path.contains("://") && !path.contains('\0') && depth > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_become_marked_blocks() {
        let text =
            "a\n[!include:x]()\n[!include:y](sub/y.md)\n[!include:no](../no.md)\n```\n[!include:x]()\n```\n";
        let found = sources(text);
        let source =
            |id: &str, path: Option<&str>| TrinitySource { id: id.into(), path: path.map(Into::into) };
        assert_eq!(found, [source("x", None), source("y", Some("sub/y.md"))]);
        let contents =
            BTreeMap::from([(found[0].clone(), "\nX\n".to_owned()), (found[1].clone(), String::new())]);
        let expected = "a\n<!-- #x -->\nX\n<!-- /x -->\n<!-- #y -->\n\n<!-- /y -->\n[!include:no](../no.md)\n```\n[!include:x]()\n```\n";
        assert_eq!(compile(text, &contents), expected);
    }

    #[test]
    fn paths_outside_of_the_directory_are_refused() {
        for path in ["../x", "a/../../x", "/etc/passwd", "http://x/", "..", ".", "a/.."] {
            assert!(!stays_inside(path), "{path}");
        }
        for path in ["x", "./x", "a/../x", "..x"] {
            assert!(stays_inside(path), "{path}");
        }
    }
}
