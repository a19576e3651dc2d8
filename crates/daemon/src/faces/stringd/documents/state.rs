//! State of a document topic: the current document, its history, and variables.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sfmd::document::Document;
use sfmd::menu::Menu;
use sfmd::shortcut::ShortcutList;
use wire::stringd::v0_1::Meta;

use super::paths;

/// Documents that `/back` can return to; the oldest is dropped.
const HISTORY: usize = 100;
/// Bytes of their texts that are kept for documents that cannot be loaded again; of older ones, only address and block
/// are kept.
const HISTORY_BYTES: usize = 16 * 1024 * 1024;

/// A loaded document and the block of it that is shown.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenDocument {
    pub(super) uri: String,
    pub(super) document: Document,
    pub(super) menus: Vec<Menu>,
    /// The page, if the document was made from HTML.
    pub(super) html: Option<String>,
    pub(super) block: Option<String>,
}

impl OpenDocument {
    /// The bytes of its texts.
    fn size(&self) -> usize {
        self.document.source().len() + self.html.as_ref().map_or(0, String::len)
    }
}

/// A document that `/back` returns to.
#[derive(Debug, Clone)]
pub(super) struct HistoryEntry {
    pub(super) uri: String,
    pub(super) block: Option<String>,
    /// The document as it was shown, if it is kept.
    pub(super) copy: Option<Arc<OpenDocument>>,
}

/// What a document topic keeps between commands.
#[derive(Debug, Default)]
pub struct DocumentState {
    pub(super) current: Option<Arc<OpenDocument>>,
    pub(super) history: Vec<HistoryEntry>,
    /// The directory that `/open` of a directory selected.
    pub(super) directory: Option<PathBuf>,
    /// Names of links in what was shown last.
    pub(super) auto: ShortcutList,
    /// Session variables, in the order in which they were set.
    pub(super) variables: Vec<(String, String)>,
    /// The file that `/undo` restores.
    pub(super) last_change: Option<PathBuf>,
}

impl DocumentState {
    /// The current document for `head.meta` and `/sessions`.
    pub fn meta(&self) -> Option<Meta> {
        let open = self.current.as_ref()?;
        Some(Meta {
            uri: open.uri.clone(),
            title: open.document.title(),
            current_block: open.block.as_ref().map(|block| format!("#{block}")),
            menus: open.menus.iter().map(|menu| menu.name.clone()).collect(),
            actions: open.document.actions().iter().map(|action| action.id.clone()).collect(),
            history_length: self.history.len(),
            block_id: open.block.clone(),
            converted: open.html.is_some(),
            warnings: open.document.warnings().to_vec(),
        })
    }

    /// The address of the current document.
    pub(super) fn uri(&self) -> Option<&str> {
        self.current.as_ref().map(|open| open.uri.as_str())
    }

    /// Makes a document the current one; the one before goes to the history.
    pub(super) fn show(&mut self, open: Arc<OpenDocument>) {
        if let Some(previous) = self.current.replace(open) {
            if self.history.len() >= HISTORY {
                self.history.remove(0);
            }
            let (uri, block) = (previous.uri.clone(), previous.block.clone());
            self.history.push(HistoryEntry { uri, block, copy: Some(previous) });
            self.drop_copies();
        }
        self.directory = None;
    }

    /// Drops the oldest copies in the history that are too large together.
    fn drop_copies(&mut self) {
        let mut left = HISTORY_BYTES;
        for entry in self.history.iter_mut().rev() {
            let size = entry.copy.as_ref().map_or(0, |copy| copy.size());
            match left.checked_sub(size) {
                Some(rest) => left = rest,
                None => (entry.copy, left) = (None, 0),
            }
        }
    }

    /// The directory that relative paths of commands start from.
    pub(super) fn cwd(&self, home: &Path) -> PathBuf {
        let document = || self.uri().and_then(paths::directory_of);
        self.directory.clone().or_else(document).unwrap_or_else(|| home.to_owned())
    }

    /// The value of a session variable.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// Sets a session variable.
    pub(super) fn set_variable(&mut self, name: String, value: String) {
        match self.variables.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.variables.push((name, value)),
        }
    }

    /// Where a shortcut leads: of the page, of the last view, or of a menu.
    pub(super) fn shortcut(&self, id: &str) -> Option<String> {
        let open = self.current.as_ref();
        let page = open.and_then(|open| open.document.shortcut(id)).map(|shortcut| shortcut.href());
        let auto = || self.auto.find(id).map(|shortcut| shortcut.href);
        let menu = || {
            let mut entries = open?.menus.iter().flat_map(|menu| &menu.entries);
            entries.find(|entry| entry.id() == id).map(|entry| entry.href())
        };
        page.or_else(auto).or_else(menu).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_keeps_addresses_of_documents_that_are_too_large_together() {
        let mut state = DocumentState::default();
        let text = "x".repeat(HISTORY_BYTES / 4);
        for number in 0..8 {
            let document = Document::parse(text.clone());
            let (uri, block) = (format!("file:///{number}"), Some("b".to_owned()));
            state.show(Arc::new(OpenDocument { uri, document, block, ..OpenDocument::default() }));
        }
        let copies: Vec<bool> = state.history.iter().map(|entry| entry.copy.is_some()).collect();
        assert_eq!(copies, [false, false, false, true, true, true, true]);
        let oldest = &state.history[0];
        assert_eq!((oldest.uri.as_str(), oldest.block.as_deref()), ("file:///0", Some("b")));
    }
}
