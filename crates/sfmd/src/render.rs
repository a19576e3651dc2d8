//! Rendering: what the reader of a document, a block or an action's output sees.

use std::collections::HashSet;

use crate::block::{self, marker};
use crate::document::{Document, definition, directive, shortcut_label};
use crate::inline::{Destination, links};
use crate::scan::{LineKind, lines};
use crate::shortcut::{ShortcutList, SlugCounter, has_more_chars};

/// A view and the shortcuts that its plain links received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The text for the reader.
    pub text: String,
    /// Names for links that have none, in order.
    pub auto: ShortcutList,
}

/// The whole document; `expanded` is its body with includes replaced, if it has any.
pub fn document(document: &Document, expanded: Option<&str>) -> Rendered {
    let mut text = hints(document);
    if !text.is_empty() {
        text.push('\n');
    }
    let mut view = View::new(document, text);
    view.body(expanded.unwrap_or(document.body()));
    view.finish()
}

/// One block of a document, without hints.
pub fn block(document: &Document, id: &str) -> Option<Rendered> {
    Some(part(document, block::extract(document.body(), id)?))
}

/// A part of a document, such as an included block.
pub fn part(document: &Document, text: &str) -> Rendered {
    let mut view = View::new(document, String::new());
    view.body(text);
    view.finish()
}

/// The output of an action: a text of its own.
pub fn fragment(text: &str) -> Rendered {
    let own = Document::parse(text.to_owned());
    part(&own, own.body())
}

/// The lines above a document: its menus and actions.
fn hints(document: &Document) -> String {
    let mut hints = String::new();
    let mut seen = HashSet::new();
    let names = document.menus().iter().map(|menu| menu.name.as_str()).filter(|name| seen.insert(*name));
    let names: Vec<&str> = names.collect();
    if !names.is_empty() {
        hints.push_str(&format!("[nav] {} — /nav <name>\n", names.join(", ")));
    }
    let actions: Vec<String> = document.actions().iter().map(|action| action.invocation()).collect();
    if !actions.is_empty() {
        hints.push_str(&format!("[actions] {}\n", actions.join(" | ")));
        hints.push_str("          /act.<name> --help for details\n");
    }
    hints
}

struct View<'a> {
    document: &'a Document,
    text: String,
    auto: ShortcutList,
    slugs: SlugCounter,
    /// The name and the address of the last reference: many links in a row name the same one.
    reference: Option<(&'a str, &'a str)>,
}

/// Addresses longer than this receive a shortcut.
const LONGEST_HREF: usize = 40;

impl<'a> View<'a> {
    fn new(document: &'a Document, text: String) -> View<'a> {
        View { document, text, auto: ShortcutList::default(), slugs: SlugCounter::default(), reference: None }
    }

    fn body(&mut self, body: &str) {
        self.text.reserve(body.len());
        let mut is_action = false;
        for line in lines(body) {
            let whole = &body[line.start..line.end];
            match line.kind {
                LineKind::Text => self.line(line.text, whole),
                LineKind::Opening(info) => {
                    is_action = is_action_info(info);
                    self.text.push_str(if is_action { "" } else { whole });
                }
                LineKind::Inside | LineKind::Closing => {
                    self.text.push_str(if is_action { "" } else { whole })
                }
            }
        }
    }

    fn line(&mut self, line: &str, whole: &str) {
        let has_bracket = line.contains('[');
        let is_dropped = has_bracket && (directive(line).is_some() || definition(line).is_some());
        if is_dropped || marker(line).is_some() {
            return;
        }
        let mut copied = 0;
        if has_bracket {
            for link in links(line) {
                let before = &whole[copied..link.range.start];
                if self.link(before, link.label, link.destination) {
                    copied = link.range.end;
                }
            }
        }
        self.text.push_str(&whole[copied..]);
    }

    /// Writes a link that changes and the text before it; false if the link stays as it is.
    fn link(&mut self, before: &str, label: &str, destination: Destination<'_>) -> bool {
        let document = self.document;
        let (href, is_reference) = match destination {
            Destination::Href(href) => (href, false),
            Destination::Reference(name) if name.starts_with('@') => return false,
            Destination::Reference(name) => {
                let name = if name.is_empty() { label } else { name };
                let Some(href) = self.reference(name) else { return false };
                (href, true)
            }
        };
        if let Some((id, label)) = shortcut_label(label).filter(|_| !is_reference) {
            let id = document.renamed(id, href).unwrap_or(id);
            self.push([before, "[", label, "][@", id, "]"]);
            return true;
        }
        let is_remote = ["http://", "https://", "act:"].iter().any(|scheme| href.starts_with(scheme));
        if !href.starts_with('@') && (is_remote || has_more_chars(href, LONGEST_HREF)) {
            let id = self.slugs.name(label);
            let shown = if label.is_empty() { id } else { label };
            self.auto.push(id, shown, href);
            for part in [before, "[", shown, "][@", id, "]"] {
                self.text.push_str(part);
            }
            return true;
        }
        if is_reference {
            self.push([before, "[", label, "](", href, ")"]);
        }
        is_reference
    }

    /// The address of a reference definition.
    fn reference(&mut self, name: &str) -> Option<&'a str> {
        if self.reference.is_none_or(|(last, _)| last != name) {
            self.reference = Some(self.document.reference(name)?);
        }
        self.reference.map(|(_, href)| href)
    }

    fn push<const N: usize>(&mut self, parts: [&str; N]) {
        for part in parts {
            self.text.push_str(part);
        }
    }

    fn finish(self) -> Rendered {
        Rendered { text: trimmed(self.text), auto: self.auto }
    }
}

/// Whether the info string of a fence starts an action or its response.
fn is_action_info(info: &str) -> bool {
    info.strip_prefix("act.")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "_-".contains(c)))
}

fn trimmed(text: String) -> String {
    match text.trim() {
        short if short.len() == text.len() => text,
        short => short.to_owned(),
    }
}

#[cfg(test)]
#[path = "render/tests.rs"]
mod tests;
