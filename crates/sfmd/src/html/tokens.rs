//! Tokens of HTML: tags and text. Comments, declarations and the content of scripts are left out.

/// A tag or a text between tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HtmlToken<'a> {
    /// The text as written, with its references.
    Text(&'a str),
    /// The name in lower case and the text of the attributes.
    Open {
        name: String,
        attributes: &'a str,
    },
    Close {
        name: String,
    },
}

impl HtmlToken<'_> {
    /// Whether this is the first tag of an element.
    pub(super) fn opens(&self, wanted: &str) -> bool {
        matches!(self, HtmlToken::Open { name, .. } if name == wanted)
    }
}

/// The tokens of a page.
pub(super) fn tokens(html: &str) -> HtmlTokens<'_> {
    HtmlTokens { html, at: 0, raw: None, has_no_end: false }
}

/// Splits a page into tokens.
#[derive(Debug)]
pub(super) struct HtmlTokens<'a> {
    html: &'a str,
    at: usize,
    /// The element whose content is not HTML.
    raw: Option<&'static str>,
    /// Whether no `>` follows, so that it is searched for once.
    has_no_end: bool,
}

/// Elements that contain text only.
const RAW: &[&str] = &["script", "style", "noscript", "iframe", "textarea", "title"];

impl<'a> Iterator for HtmlTokens<'a> {
    type Item = HtmlToken<'a>;

    fn next(&mut self) -> Option<HtmlToken<'a>> {
        loop {
            let rest = self.html.get(self.at..).filter(|rest| !rest.is_empty())?;
            if let Some(name) = self.raw.take() {
                let end = raw_end(rest, name);
                self.at += end;
                if end > 0 && name == "textarea" {
                    return Some(HtmlToken::Text(&rest[..end]));
                }
                continue;
            }
            if !starts_tag(rest) || self.has_no_end {
                let next = rest.as_bytes()[1..].iter().position(|byte| *byte == b'<');
                let length = next.map_or(rest.len(), |next| next + 1);
                self.at += length;
                return Some(HtmlToken::Text(&rest[..length]));
            }
            if let Some(token) = self.tag(rest) {
                return Some(token);
            }
        }
    }
}

impl<'a> HtmlTokens<'a> {
    fn tag(&mut self, rest: &'a str) -> Option<HtmlToken<'a>> {
        if let Some(comment) = rest.strip_prefix("<!--") {
            self.at += comment.find("-->").map_or(rest.len(), |end| end + 7);
            return None;
        }
        let Some(end) = tag_end(rest) else {
            self.has_no_end = !rest.contains('>');
            self.at += if self.has_no_end { 0 } else { 1 };
            return None;
        };
        self.at += end + 1;
        let inside = &rest[1..end];
        if inside.starts_with(['!', '?']) {
            return None;
        }
        if let Some(name) = inside.strip_prefix('/') {
            return Some(HtmlToken::Close { name: tag_name(name).to_ascii_lowercase() });
        }
        let name = tag_name(inside);
        let attributes = inside[name.len()..].trim().trim_end_matches('/');
        let name = name.to_ascii_lowercase();
        self.raw = RAW.iter().find(|raw| **raw == name).copied().filter(|_| !inside.ends_with('/'));
        Some(HtmlToken::Open { name, attributes })
    }
}

fn starts_tag(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let second = bytes.get(1).copied().unwrap_or(b' ');
    bytes[0] == b'<' && (second.is_ascii_alphabetic() || matches!(second, b'/' | b'!' | b'?'))
}

/// The `>` that ends a tag; one in a quoted attribute does not, if the quote is closed nearby.
fn tag_end(rest: &str) -> Option<usize> {
    const LONGEST: usize = 64 << 10;
    let bytes = &rest.as_bytes()[..rest.len().min(LONGEST)];
    let mut quote = None;
    let mut first = None;
    for (index, byte) in bytes.iter().enumerate().skip(1) {
        match (quote, byte) {
            (None, b'>') => return Some(index),
            // A tag that starts before the quote is closed shows that the quote is stray.
            (Some(_), b'<') if first.is_some() => return first,
            (Some(open), byte) if open == *byte => quote = None,
            (Some(_), b'>') => first = first.or(Some(index)),
            (None, b'"' | b'\'') if bytes[index - 1] == b'=' || bytes[index - 1] == b' ' => {
                quote = Some(*byte)
            }
            _ => {}
        }
    }
    first.or_else(|| {
        rest.as_bytes()[bytes.len()..].iter().position(|byte| *byte == b'>').map(|at| bytes.len() + at)
    })
}

fn tag_name(inside: &str) -> &str {
    let end = inside.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | ':' | '_'));
    &inside[..end.unwrap_or(inside.len())]
}

/// Where the closing tag of a raw element starts.
fn raw_end(rest: &str, name: &str) -> usize {
    let mut at = 0;
    while let Some(next) = rest[at..].find("</") {
        let start = at + next;
        let tag = rest.as_bytes().get(start + 2..start + 2 + name.len());
        if tag.is_some_and(|tag| tag.eq_ignore_ascii_case(name.as_bytes())) {
            return start;
        }
        at = start + 2;
    }
    rest.len()
}

/// The value of an attribute, with its references.
pub(super) fn attribute<'a>(attributes: &'a str, wanted: &str) -> Option<&'a str> {
    let mut rest = attributes.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let name = &rest[..end];
        rest = rest[end..].trim_start();
        let value = match rest.strip_prefix('=') {
            Some(after) => {
                let (value, after) = attribute_value(after.trim_start());
                rest = after;
                value
            }
            None => "",
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = rest.trim_start();
    }
    None
}

fn attribute_value(text: &str) -> (&str, &str) {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    match quote.and_then(|quote| text[1..].split_once(quote)) {
        Some(parts) => parts,
        None => text.split_at(text.find(char::is_whitespace).unwrap_or(text.len())),
    }
}
