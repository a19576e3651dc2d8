//! A draft for a menu: the links of a document as shortcuts.

use std::collections::HashSet;

use crate::document::{Document, shortcut_label};
use crate::inline::{Destination, links};
use crate::scan::{LineKind, lines as scanned};

/// One line `[@id Label](href)` per shortcut of the document, then per plain link.
pub fn lines(document: &Document) -> Vec<String> {
    let mut drafted = Vec::new();
    let mut known: HashSet<String> = HashSet::new();
    for shortcut in document.shortcuts() {
        known.insert(shortcut.id().to_owned());
        drafted.push(format!("[@{} {}]({})", shortcut.id(), shortcut.label(), shortcut.href()));
    }
    for line in scanned(document.body()).filter(|line| line.kind == LineKind::Text && line.text.contains('['))
    {
        for link in links(line.text) {
            let Destination::Href(href) = link.destination else { continue };
            if shortcut_label(link.label).is_some() || link.label.starts_with('!') || href.is_empty() {
                continue;
            }
            let id = id(link.label);
            if !id.is_empty() && known.insert(id.clone()) {
                drafted.push(format!("[@{id} {}]({href})", link.label));
            }
        }
    }
    drafted
}

/// The id of a label: lower case, letters, digits and hyphens, at most 20 characters.
fn id(label: &str) -> String {
    let lower = label.to_lowercase();
    let kept =
        lower.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-')).collect::<String>();
    kept.split_whitespace().collect::<Vec<_>>().join("-").chars().take(20).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_shortcuts() {
        let text = "[@a Known](./a) [Two Words!](./b) [Two words](./c) ![image](d)\n```\n[no](e)\n```\n[!nav:x](y.md)";
        let drafted = lines(&Document::parse(text.to_owned()));
        assert_eq!(drafted, ["[@a Known](./a)", "[@two-words Two Words!](./b)"]);
    }
}
