//! Shortcuts: named links, and the slugs that name links without one.

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

/// The slug of a heading or label: ASCII words, joined with hyphens.
pub fn slug(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    let mut is_between = false;
    for c in text.chars() {
        if c.is_whitespace() {
            is_between = !slug.is_empty();
            continue;
        }
        if c.is_ascii() {
            if is_id_byte(c as u8) {
                push_word(&mut slug, &mut is_between, c.to_ascii_lowercase());
            }
            continue;
        }
        // Lower case first: a few letters outside of ASCII have a lower case in ASCII.
        for c in c.to_lowercase().filter(char::is_ascii).filter(|c| is_id_byte(*c as u8)) {
            push_word(&mut slug, &mut is_between, c);
        }
    }
    slug
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

/// Gives names to the plain links of one view.
#[derive(Debug, Default)]
pub(crate) struct SlugCounter {
    used: TextMap<u32>,
    unnamed: u32,
}

impl SlugCounter {
    /// A name that no earlier link of the view has.
    pub(crate) fn name(&mut self, label: &str) -> String {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-');
        let is_short = !has_more_chars(label, LONGEST_LABEL) && label.chars().all(is_plain);
        let mut name = if is_short { slug(label) } else { String::new() };
        let number = match self.used.get_mut(&name) {
            _ if name.is_empty() => {
                name.push_str("link");
                self.unnamed += 1;
                self.unnamed
            }
            Some(count) => {
                *count += 1;
                *count
            }
            None => {
                self.used.insert(name.clone(), 1);
                return name;
            }
        };
        name.push('-');
        name.push_str(&number.to_string());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let names =
            ["Docs", "docs", "A label that is far too long", "a/b", "Docs", ""].map(|it| counter.name(it));
        assert_eq!(names, ["docs", "docs-2", "link-1", "link-2", "docs-3", "link-3"]);
    }
}
