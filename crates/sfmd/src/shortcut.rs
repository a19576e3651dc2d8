//! Shortcuts: named links, and the slugs that name links without one.

use std::collections::HashSet;

use crate::map::TextMap;
use crate::scan::is_id_byte;

/// A link that can be opened by its id. Its texts share one allocation, because a document may have very many links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortcut {
    text: Box<str>,
    id_end: usize,
    label_end: usize,
}

impl Shortcut {
    /// A shortcut with an id, a label and an address.
    pub fn new(id: &str, label: &str, href: &str) -> Shortcut {
        let text = [id, label, href].concat().into_boxed_str();
        Shortcut { text, id_end: id.len(), label_end: id.len() + label.len() }
    }

    /// The name after `@`; entries of menus are called `menu.id`.
    pub fn id(&self) -> &str {
        &self.text[..self.id_end]
    }

    /// The text of the link.
    pub fn label(&self) -> &str {
        &self.text[self.id_end..self.label_end]
    }

    /// Where the link leads, as written, or absolute in a menu.
    pub fn href(&self) -> &str {
        &self.text[self.label_end..]
    }
}

/// Many shortcuts in one text, for views that have very many links. Labels and addresses that follow each other and are the
/// same are kept once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShortcutList {
    text: String,
    entries: Vec<ListEntry>,
}

/// The places of id, label and address in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListEntry {
    id: TextRange,
    label: TextRange,
    href: TextRange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TextRange {
    start: u32,
    end: u32,
}

/// A shortcut of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedShortcut<'a> {
    /// The name after `@`.
    pub id: &'a str,
    /// The text of the link.
    pub label: &'a str,
    /// Where the link leads, as written.
    pub href: &'a str,
}

impl ShortcutList {
    /// Adds a shortcut. Texts of more than 4 GiB in total are left empty.
    pub fn push(&mut self, id: &str, label: &str, href: &str) {
        let last = self.entries.last().copied();
        let id = self.add(id, None);
        let label = self.add(label, last.map(|last| last.label));
        let href = self.add(href, last.map(|last| last.href));
        self.entries.push(ListEntry { id, label, href });
    }

    fn add(&mut self, text: &str, last: Option<TextRange>) -> TextRange {
        if let Some(last) = last.filter(|last| self.get(*last) == text) {
            return last;
        }
        let start = u32::try_from(self.text.len());
        match (start, u32::try_from(self.text.len() + text.len())) {
            (Ok(start), Ok(end)) => {
                self.text.push_str(text);
                TextRange { start, end }
            }
            _ => TextRange::default(),
        }
    }

    fn get(&self, range: TextRange) -> &str {
        self.text.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    /// The shortcuts in order.
    pub fn iter(&self) -> impl Iterator<Item = ListedShortcut<'_>> {
        self.entries.iter().map(|entry| ListedShortcut {
            id: self.get(entry.id),
            label: self.get(entry.label),
            href: self.get(entry.href),
        })
    }

    /// The number of shortcuts.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The first shortcut with an id.
    pub fn find(&self, id: &str) -> Option<ListedShortcut<'_>> {
        self.iter().find(|shortcut| shortcut.id == id)
    }

    /// Adds others; those replace shortcuts with the same ids.
    pub fn merge(&mut self, others: &ShortcutList) {
        if self.is_empty() {
            return self.clone_from(others);
        }
        let replaced: HashSet<&str> = others.iter().map(|shortcut| shortcut.id).collect();
        let mut merged = ShortcutList::default();
        let kept = self.iter().filter(|shortcut| !replaced.contains(shortcut.id));
        kept.chain(others.iter()).for_each(|it| merged.push(it.id, it.label, it.href));
        *self = merged;
    }
}

/// The slug of a heading or label: ASCII words, joined with hyphens.
pub fn slug(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    push_slug(&mut slug, text);
    slug
}

/// Adds a slug to an empty text.
fn push_slug(slug: &mut String, text: &str) {
    let mut is_between = false;
    for c in text.chars() {
        if c.is_whitespace() {
            is_between = !slug.is_empty();
            continue;
        }
        if c.is_ascii() {
            if is_id_byte(c as u8) {
                push_word(slug, &mut is_between, c.to_ascii_lowercase());
            }
            continue;
        }
        // Lower case first: a few letters outside of ASCII have a lower case in ASCII.
        for c in c.to_lowercase().filter(char::is_ascii).filter(|c| is_id_byte(*c as u8)) {
            push_word(slug, &mut is_between, c);
        }
    }
}

fn push_word(slug: &mut String, is_between: &mut bool, c: char) {
    if std::mem::take(is_between) {
        slug.push('-');
    }
    slug.push(c);
}

/// Whether a text has more characters than this.
pub(crate) fn has_more_chars(text: &str, count: usize) -> bool {
    text.len() > count && text.chars().nth(count).is_some()
}

/// The longest label that becomes the name of a link.
const LONGEST_LABEL: usize = 20;

/// Gives names to the plain links of one view. Its texts are reused, because a view may have very many links.
#[derive(Debug, Default)]
pub(crate) struct SlugCounter {
    /// The number of each slug among `counts`.
    used: TextMap<usize>,
    counts: Vec<u32>,
    unnamed: u32,
    /// The last label, the number of its slug, and the length of the slug in `name`.
    last: Option<(usize, usize)>,
    label: String,
    name: String,
}

impl SlugCounter {
    /// A name that no earlier link of the view has.
    pub(crate) fn name(&mut self, label: &str) -> &str {
        let (slug, length) = match self.last.filter(|_| self.label == label) {
            Some(last) => last,
            None => self.find(label),
        };
        self.name.truncate(length);
        match self.counts.get_mut(slug) {
            Some(count) => {
                *count += 1;
                if *count > 1 {
                    push_number(&mut self.name, *count);
                }
            }
            None => {
                self.unnamed += 1;
                self.name.push_str("link");
                push_number(&mut self.name, self.unnamed);
            }
        }
        &self.name
    }

    /// Puts the slug of a label in `name`; its number is beyond `counts` if the label has none.
    fn find(&mut self, label: &str) -> (usize, usize) {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-');
        self.name.clear();
        if !has_more_chars(label, LONGEST_LABEL) && label.chars().all(is_plain) {
            push_slug(&mut self.name, label);
        }
        self.last = None;
        if self.name.is_empty() {
            return (usize::MAX, 0);
        }
        let number = match self.used.get(&self.name) {
            Some(number) => *number,
            None => {
                self.counts.push(0);
                self.used.insert(self.name.clone(), self.counts.len() - 1);
                self.counts.len() - 1
            }
        };
        self.label.clear();
        self.label.push_str(label);
        *self.last.insert((number, self.name.len()))
    }
}

/// Adds a hyphen and a number.
fn push_number(text: &mut String, number: u32) {
    let mut digits = [0; 10];
    let mut rest = number;
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.push('-');
    text.extend(digits[start..].iter().map(|digit| char::from(*digit)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_finds_and_replaces_its_shortcuts() {
        let mut list = ShortcutList::default();
        for (id, label, href) in [("a", "T", "x"), ("b", "T", "x"), ("c", "U", "y")] {
            list.push(id, label, href);
        }
        assert_eq!(list.text, "aTxbcUy");
        let mut others = ShortcutList::default();
        others.push("b", "V", "z");
        list.merge(&others);
        let found: Vec<_> = list.iter().map(|it| [it.id, it.label, it.href].concat()).collect();
        assert_eq!(found, ["aTx", "cUy", "bVz"]);
        assert_eq!((list.find("b").unwrap().href, list.find("none"), list.len()), ("z", None, 3));
    }

    #[test]
    fn slugs_keep_ascii_words() {
        let table = [
            ("Über uns & Co.", "ber-uns-co"),
            ("A  b", "a-b"),
            ("x_y-z", "x_y-z"),
            ("日本", ""),
            (" - ", "-"),
        ];
        for (text, expected) in table {
            assert_eq!(slug(text), expected, "{text}");
        }
    }

    #[test]
    fn repeated_and_unusable_labels_are_numbered() {
        let mut counter = SlugCounter::default();
        let labels = ["Docs", "docs", "docs", "A label that is far too long", "a/b", "Docs", "", "Docs"];
        let names = labels.map(|label| counter.name(label).to_owned());
        let expected = ["docs", "docs-2", "docs-3", "link-1", "link-2", "docs-4", "link-3", "docs-5"];
        assert_eq!(names, expected);
        let last = (0..4_000_000).map(|_| counter.name("x").len()).max();
        assert_eq!((last, counter.name("x")), (Some("x-4000000".len()), "x-4000001"));
    }
}
