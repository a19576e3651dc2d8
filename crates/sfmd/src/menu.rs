//! Menus: the shortcuts of another document, under a name.

use crate::document::Document;
use crate::shortcut::Shortcut;
use crate::uri;

/// A menu with its entries; ids are `name.id`, addresses are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Menu {
    /// The name in the document that uses the menu.
    pub name: String,
    /// The shortcuts of the menu's document.
    pub entries: Vec<Shortcut>,
}

impl Menu {
    /// Reads the document of a menu; relative addresses are resolved against its own address.
    pub fn parse(name: &str, text: &str, uri: &str) -> Menu {
        let document = Document::parse(text.to_owned());
        let entry = |shortcut: &Shortcut| {
            let id = format!("{name}.{}", shortcut.id());
            Shortcut::new(&id, shortcut.label(), &uri::resolve(shortcut.href(), Some(uri)))
        };
        Menu { name: name.to_owned(), entries: document.shortcuts().iter().map(entry).collect() }
    }

    /// One line of the list of menus: the name, the number of entries and the first labels.
    pub fn summary(&self) -> String {
        const SHOWN: usize = 3;
        let labels: Vec<&str> = self.entries.iter().take(SHOWN).map(|entry| entry.label()).collect();
        let mut line = format!("{} ({}): {}", self.name, self.entries.len(), labels.join(", "));
        if self.entries.len() > SHOWN {
            line.push_str(&format!(", ... ({} more)", self.entries.len() - SHOWN));
        }
        line
    }

    /// The entries as invocations, one per line.
    pub fn listing(&self) -> String {
        let line = |entry: &Shortcut| format!("[{}][@{}]", entry.label(), entry.id());
        self.entries.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_resolved_against_the_menu() {
        let text = "[@a A](../x.md#part) [@b B](/abs.md)\n[@c C](https://c.test/)\n[@d]: d%20e.md";
        let menu = Menu::parse("m", text, "file:///srv/nav/main.md");
        let found: Vec<_> = menu.entries.iter().map(|entry| (entry.id(), entry.href())).collect();
        let expected = [
            ("m.a", "file:///srv/x.md#part"),
            ("m.b", "file:///abs.md"),
            ("m.c", "https://c.test/"),
            ("m.d", "file:///srv/nav/d%20e.md"),
        ];
        assert_eq!(found, expected);
        assert_eq!(menu.summary(), "m (4): A, B, C, ... (1 more)");
        assert!(menu.listing().starts_with("[A][@m.a]\n[B][@m.b]"));
    }
}
