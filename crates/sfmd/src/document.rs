//! A document: its frontmatter, blocks, directives, shortcuts, references and actions, read once.

use std::collections::{HashMap, HashSet};

use crate::action::Action;
use crate::block::{Marker, marker};
use crate::frontmatter::{self, Frontmatter};
use crate::inline::{Destination, links};
use crate::map::TextMap;
use crate::menu::Menu;
use crate::scan::{LineKind, ScannedLine, is_id, is_id_byte, lines};
use crate::shortcut::Shortcut;

/// A parsed document. Parsing never fails; problems become warnings.
#[derive(Debug, Clone, Default)]
pub struct Document {
    source: String,
    frontmatter: Frontmatter,
    body_start: usize,
    blocks: Vec<String>,
    menus: Vec<Directive>,
    includes: Vec<Directive>,
    requirements: Option<String>,
    shortcuts: Vec<Shortcut>,
    /// The ids of shortcuts that repeat an earlier id, by that id and their address.
    renamed: TextMap<String>,
    references: TextMap<String>,
    actions: Vec<Action>,
    /// The first warnings, then a line with the number of others.
    warnings: Vec<String>,
    hidden_warnings: usize,
}

/// Warnings of a document that are kept; the others are counted.
const MOST_WARNINGS: usize = 100;

/// A directive with a name and the path of another document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// The name after the colon.
    pub name: String,
    /// The path in the parentheses, as written; may be empty.
    pub path: String,
}

impl Document {
    /// Reads the text of a document.
    pub fn parse(source: String) -> Document {
        let (frontmatter, body_start) = frontmatter::parse(&source);
        let mut reader = Reader::default();
        let first_line = 1 + source[..body_start].matches('\n').count();
        for (index, line) in lines(&source[body_start..]).enumerate() {
            reader.line(first_line + index, &line);
        }
        reader.finish();
        Document { frontmatter, body_start, source, ..reader.document }
    }

    /// The text, with known invocations of shortcuts rewritten by [`Document::link`].
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text after the frontmatter.
    pub fn body(&self) -> &str {
        self.source.get(self.body_start..).unwrap_or_default()
    }

    /// The frontmatter, empty if there is none.
    pub fn frontmatter(&self) -> &Frontmatter {
        &self.frontmatter
    }

    /// The title of the frontmatter as text.
    pub fn title(&self) -> Option<String> {
        self.frontmatter.text("title")
    }

    /// The ids of marked blocks and includes, in document order.
    pub fn blocks(&self) -> &[String] {
        &self.blocks
    }

    /// The menus that the document names.
    pub fn menus(&self) -> &[Directive] {
        &self.menus
    }

    /// The blocks of other documents that the document includes.
    pub fn includes(&self) -> &[Directive] {
        &self.includes
    }

    /// The path of the setup document, if one is named.
    pub fn requirements(&self) -> Option<&str> {
        self.requirements.as_deref()
    }

    /// The shortcuts that the document defines.
    pub fn shortcuts(&self) -> &[Shortcut] {
        &self.shortcuts
    }

    /// Where a shortcut of the document leads.
    pub fn shortcut(&self, id: &str) -> Option<&Shortcut> {
        self.shortcuts.iter().find(|shortcut| shortcut.id() == id)
    }

    /// The actions that the document defines.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// The action with an id, as written.
    pub fn action(&self, id: &str) -> Option<&Action> {
        self.actions.iter().find(|action| action.id == id)
    }

    /// Problems, one line each; after the first 100, a line with the number of others.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn warn(&mut self, text: impl FnOnce() -> String) {
        if self.warnings.len() < MOST_WARNINGS {
            return self.warnings.push(text());
        }
        self.hidden_warnings += 1;
        self.warnings.truncate(MOST_WARNINGS);
        self.warnings.push(format!("... {} more", self.hidden_warnings));
    }

    /// The name and the address of a reference definition.
    pub(crate) fn reference(&self, name: &str) -> Option<(&str, &str)> {
        self.references.get_key_value(name).map(|(name, url)| (name.as_str(), url.as_str()))
    }

    /// The id under which `[@id Label](href)` is known, if it repeats an earlier id.
    pub(crate) fn renamed(&self, id: &str, href: &str) -> Option<&str> {
        // Few documents repeat an id.
        if self.renamed.is_empty() {
            return None;
        }
        self.renamed.get(&rename_key(id, href)).map(String::as_str)
    }

    /// Rewrites `[Label][@id]` to a link where the document or a menu defines the id.
    pub fn link(&mut self, menus: &[Menu]) {
        if !self.body().contains("][@") {
            return;
        }
        let page: HashMap<&str, &str> =
            self.shortcuts.iter().map(|shortcut| (shortcut.id(), shortcut.href())).collect();
        let entries: Vec<&Shortcut> = menus.iter().flat_map(|menu| &menu.entries).collect();
        let full: HashMap<&str, &Shortcut> = entries.iter().rev().map(|entry| (entry.id(), *entry)).collect();
        let mut short: HashMap<&str, &Shortcut> = HashMap::new();
        for entry in &entries {
            for (at, _) in entry.id().match_indices('.') {
                short.entry(&entry.id()[at + 1..]).or_insert(entry);
            }
        }
        let mut unknown = Vec::new();
        let mut seen = HashSet::new();
        let resolve = |id: &str| -> Option<(String, String)> {
            if let Some(href) = page.get(id) {
                return Some((id.to_owned(), (*href).to_owned()));
            }
            let entry = full.get(id).or_else(|| short.get(id))?;
            Some((entry.id().to_owned(), entry.href().to_owned()))
        };
        let mut body = String::with_capacity(self.body().len());
        let text = self.body().to_owned();
        for line in lines(&text) {
            let mut copied = line.start;
            if line.kind == LineKind::Text && line.text.contains("][@") {
                for link in links(line.text) {
                    let Destination::Reference(reference) = link.destination else { continue };
                    let Some(id) = reference.strip_prefix('@') else { continue };
                    match resolve(id) {
                        Some((id, href)) => {
                            body.push_str(&text[copied..line.start + link.range.start]);
                            body.push_str(&format!("[@{id} {}]({href})", link.label));
                            copied = line.start + link.range.end;
                        }
                        None if seen.insert(id.to_owned()) => unknown.push(id.to_owned()),
                        None => {}
                    }
                }
            }
            body.push_str(&text[copied..line.end]);
        }
        self.source.truncate(self.body_start);
        self.source.push_str(&body);
        for id in unknown {
            self.warn(|| format!("Unknown shortcut @{id} — define with: [@{id} Label](URI)"));
        }
    }
}

/// An id and an address as one key; an id has no blank.
fn rename_key(id: &str, href: &str) -> String {
    [id, " ", href].concat()
}

#[derive(Debug, Default)]
struct Reader {
    document: Document,
    /// The shortcuts by their id.
    ids: TextMap<IdUse>,
    block_ids: HashSet<String>,
    menus: HashSet<(String, String)>,
    open_blocks: Vec<OpenBlock>,
    defined: Vec<(String, String)>,
    fence: Option<ActionFence>,
    responses: HashMap<String, String>,
    action_ids: HashSet<String>,
}

/// A block whose end was not read yet.
#[derive(Debug)]
struct OpenBlock {
    line: usize,
    id: String,
    /// Directives in it, with their line and kind: text, unless the block never ends.
    directives: Vec<(usize, String, Directive)>,
}

/// A shortcut, and the number that the last shortcut with the same id in the text received.
#[derive(Debug, Clone, Copy)]
struct IdUse {
    shortcut: usize,
    number: u32,
}

/// An open fence whose info string starts with `act.`.
#[derive(Debug)]
struct ActionFence {
    line: usize,
    id: String,
    text: String,
}

impl Reader {
    fn line(&mut self, number: usize, line: &ScannedLine<'_>) {
        match line.kind {
            LineKind::Text => self.text(number, line.text),
            LineKind::Opening(info) => {
                let id = info.split_whitespace().next().and_then(|word| word.strip_prefix("act."));
                self.fence =
                    id.map(|id| ActionFence { line: number, id: id.to_owned(), text: String::new() });
            }
            LineKind::Inside => {
                if let Some(fence) = &mut self.fence {
                    fence.text.push_str(line.text);
                    fence.text.push('\n');
                }
            }
            LineKind::Closing => self.end_fence(),
        }
    }

    fn text(&mut self, number: usize, line: &str) {
        // Most lines of prose contain no bracket.
        if let Some(marker) = marker(line) {
            return self.marker(number, marker);
        }
        if !line.contains('[') {
            return;
        }
        if let Some(directive) = directive(line) {
            return self.directive(number, directive);
        }
        if let Some((name, url)) = definition(line) {
            match name.strip_prefix('@').filter(|id| is_id(id)) {
                Some(id) => self.defined.push((id.to_owned(), url.to_owned())),
                None => {
                    self.document.references.entry(name.to_owned()).or_insert_with(|| url.to_owned());
                }
            }
            return;
        }
        // A byte is found faster than a text, and most links are no shortcuts.
        if !line.contains('@') || !line.contains("[@") {
            return;
        }
        for link in links(line) {
            if let (Some((id, label)), Destination::Href(href)) =
                (shortcut_label(link.label), link.destination)
            {
                self.shortcut(id, label, href);
            }
        }
    }

    fn marker(&mut self, number: usize, marker: Marker<'_>) {
        match marker {
            Marker::Open(id) => {
                if let Some(outer) = self.open_blocks.last() {
                    let found = format!("#{id} starts inside #{}", outer.id);
                    self.warn(number, "NESTED_BLOCK", found);
                }
                if self.block_ids.insert(id.to_owned()) {
                    self.document.blocks.push(id.to_owned());
                } else {
                    self.warn(number, "DUPLICATE_BLOCK_ID", format!("#{id} is used more than once"));
                }
                let directives = Vec::new();
                self.open_blocks.push(OpenBlock { line: number, id: id.to_owned(), directives });
            }
            Marker::Close(id) => match self.open_blocks.pop() {
                None => self.warn(number, "UNEXPECTED_BLOCK_CLOSE", format!("/{id} closes no block")),
                Some(open) if open.id == id => {}
                Some(open) => {
                    self.warn(number, "MISMATCHED_BLOCK", format!("/{id} closes #{}", open.id));
                }
            },
        }
    }

    fn directive(&mut self, number: usize, (kind, directive): (&str, Directive)) {
        // An include in a block is one all the same: a block may be made of others.
        if let Some(block) = self.open_blocks.last_mut().filter(|_| kind != "include") {
            return block.directives.push((number, kind.to_owned(), directive));
        }
        match kind {
            "requirements" => self.document.requirements = Some(directive.path),
            _ if !is_id(&directive.name) => {
                self.warn(number, "MISSING_IDENTIFIER", format!("write [!{kind}:name](path)"));
            }
            "include" => {
                if self.block_ids.insert(directive.name.clone()) {
                    self.document.blocks.push(directive.name.clone());
                }
                self.document.includes.push(directive);
            }
            _ => {
                if self.menus.insert((directive.name.clone(), directive.path.clone())) {
                    self.document.menus.push(directive);
                }
            }
        }
    }

    /// A shortcut that repeats an id with the same address is the same shortcut; with another address it is numbered.
    fn shortcut(&mut self, id: &str, label: &str, href: &str) {
        let Some(mut known) = self.ids.get(id).copied() else {
            return self.define(id.to_owned(), label, href);
        };
        if self.document.shortcuts[known.shortcut].href() == href {
            return;
        }
        let key = rename_key(id, href);
        if self.document.renamed.contains_key(&key) {
            return;
        }
        let numbered = loop {
            known.number += 1;
            let numbered = format!("{id}{}", known.number);
            if !self.ids.contains_key(&numbered) {
                break numbered;
            }
        };
        self.ids.insert(id.to_owned(), known);
        self.document.renamed.insert(key, numbered.clone());
        self.define(numbered, label, href);
    }

    fn define(&mut self, id: String, label: &str, href: &str) {
        let shortcuts = &mut self.document.shortcuts;
        shortcuts.push(Shortcut::new(&id, label, href));
        self.ids.insert(id, IdUse { shortcut: shortcuts.len() - 1, number: 1 });
    }

    fn end_fence(&mut self) {
        let Some(fence) = self.fence.take() else { return };
        if let Some(id) = fence.id.strip_suffix(".response").filter(|id| is_id(id)) {
            self.responses.entry(id.to_owned()).or_insert(fence.text);
            return;
        }
        match Action::parse(&fence.id, &fence.text) {
            Some(action) if self.action_ids.insert(action.id.clone()) => self.document.actions.push(action),
            Some(_) => {}
            None => {
                self.warn(
                    fence.line,
                    "INVALID_ACTION_BLOCK",
                    format!("act.{} needs METHOD and target", fence.id),
                );
            }
        }
    }

    fn finish(&mut self) {
        self.end_fence();
        for OpenBlock { line, id, directives } in std::mem::take(&mut self.open_blocks) {
            self.warn(line, "UNCLOSED_BLOCK", format!("#{id} has no <!-- /{id} -->"));
            for (line, kind, directive) in directives {
                self.directive(line, (&kind, directive));
            }
        }
        for (id, href) in std::mem::take(&mut self.defined) {
            if !self.ids.contains_key(&id) {
                self.define(id.clone(), &id, &href);
            }
        }
        for action in &mut self.document.actions {
            action.response = self.responses.remove(&action.id);
        }
    }

    fn warn(&mut self, line: usize, code: &str, text: String) {
        self.document.warn(|| format!("Line {line}: {code}: {text}"));
    }
}

/// The kind and the parts of a directive that stands alone on its line.
pub(crate) fn directive(line: &str) -> Option<(&str, Directive)> {
    let (head, path) =
        line.trim_start().strip_prefix("[!")?.trim_end().strip_suffix(')')?.split_once("](")?;
    let (kind, name) = head.split_once(':').unwrap_or((head, ""));
    let is_known = matches!(kind, "nav" | "menu" | "include" | "requirements");
    let is_plain = !path.contains([')', '(']) && !name.contains(['[', ']']);
    (is_known && is_plain)
        .then(|| (kind, Directive { name: name.trim().to_owned(), path: path.trim().to_owned() }))
}

/// The name and the address of a reference definition at the start of a line.
pub(crate) fn definition(line: &str) -> Option<(&str, &str)> {
    let inside = line.strip_prefix('[')?;
    // A name contains no bracket.
    let end = inside.bytes().position(|byte| matches!(byte, b'[' | b']'))?;
    let (name, rest) = inside.split_at(end);
    let rest = rest.strip_prefix("]:")?.trim();
    if name.is_empty() || name.starts_with('!') {
        return None;
    }
    let url = match rest.strip_prefix('<') {
        Some(inside) => inside.split_once('>')?.0,
        None => rest.split_whitespace().next()?,
    };
    (!url.is_empty()).then_some((name, url))
}

/// The id and the label of `@id Label`.
pub(crate) fn shortcut_label(label: &str) -> Option<(&str, &str)> {
    let label = label.strip_prefix('@')?;
    // Invocations that were rewritten carry the full id of a menu entry: several names with dots between them.
    let mut before = b'.';
    let end = label.bytes().position(|byte| {
        let is_name = is_id_byte(byte) || byte == b'.' && before != b'.';
        before = if is_name { byte } else { before };
        !is_name
    })?;
    let (id, text) = label.split_at_checked(end)?;
    (before != b'.' && text.starts_with(char::is_whitespace)).then(|| (id, text.trim()))
}

#[cfg(test)]
#[path = "document/tests.rs"]
mod tests;
