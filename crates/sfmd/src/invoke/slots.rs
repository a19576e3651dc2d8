//! Slots of a template: `{name}`, `{name|modifier}`, `{...args}` and `$NAME`.

use crate::json::Json;
use crate::quote;
use crate::scan::{is_id_byte, is_word_byte};

const ALL: &str = "{...args}";

/// A part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    /// `{...args}`: every value as a flag.
    AllArguments,
    /// `{name}`, with its modifiers separated by `|`.
    Slot {
        whole: &'a str,
        name: &'a str,
        modifiers: &'a str,
    },
    /// `$NAME` and the name without `$`.
    Environment {
        whole: &'a str,
        name: &'a str,
    },
}

impl<'a> Piece<'a> {
    /// The piece as it is written.
    pub(super) fn text(&self) -> &'a str {
        match self {
            Piece::Text(text) => text,
            Piece::AllArguments => ALL,
            Piece::Slot { whole, .. } | Piece::Environment { whole, .. } => whole,
        }
    }
}

/// The pieces of a template, in order.
pub(super) fn pieces(template: &str) -> Pieces<'_> {
    Pieces { template, at: 0 }
}

/// Splits a template into pieces.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    template: &'a str,
    at: usize,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let rest = &self.template[self.at..];
        if rest.is_empty() {
            return None;
        }
        if let Some(piece) = self.special(rest) {
            self.at += piece.text().len();
            return Some(piece);
        }
        let mut end = 1;
        while end < rest.len() && !matches!(rest.as_bytes()[end], b'{' | b'$') {
            end += 1;
        }
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        self.at += end;
        Some(Piece::Text(&rest[..end]))
    }
}

impl<'a> Pieces<'a> {
    fn special(&self, rest: &'a str) -> Option<Piece<'a>> {
        let before = self.template.as_bytes()[..self.at].last().copied();
        match rest.as_bytes()[0] {
            b'$' if before != Some(b'\\') => {
                let length = rest.bytes().skip(1).take_while(|byte| is_word_byte(*byte)).count();
                let name = &rest[1..=length];
                let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
                is_name.then(|| Piece::Environment { whole: &rest[..=length], name })
            }
            // `${x}` belongs to the shell.
            b'{' if before != Some(b'$') => slot(rest),
            _ => None,
        }
    }
}

fn slot(rest: &str) -> Option<Piece<'_>> {
    if rest.starts_with(ALL) {
        return Some(Piece::AllArguments);
    }
    let is_inside = |byte: &u8| is_id_byte(*byte) || *byte == b'|';
    let length = rest.bytes().skip(1).take_while(is_inside).count();
    let inside = &rest[1..=length];
    if rest.as_bytes().get(length + 1) != Some(&b'}') {
        return None;
    }
    let (name, modifiers) = inside.split_once('|').unwrap_or((inside, ""));
    let are_known = modifiers.is_empty()
        || modifiers.split('|').all(|modifier| matches!(modifier, "base64" | "base64file" | "file"));
    let is_name = !name.is_empty() && are_known && !inside.ends_with('|');
    is_name.then(|| Piece::Slot { whole: &rest[..length + 2], name, modifiers })
}

/// The body of a request, in which a value cannot end the string or field that contains it.
#[derive(Debug)]
pub(super) struct BodyText {
    text: String,
    kind: BodyKind,
    is_in_string: bool,
    is_escaped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyKind {
    Json,
    Form,
    Text,
}

impl BodyText {
    /// A body that looks like JSON is treated as JSON.
    pub(super) fn new(template: &str, is_form: bool) -> BodyText {
        let looks_like_json = template.trim_start().starts_with(['{', '[', '"']);
        let kind = match (is_form, looks_like_json) {
            (true, _) => BodyKind::Form,
            (false, true) => BodyKind::Json,
            (false, false) => BodyKind::Text,
        };
        BodyText { text: String::with_capacity(template.len()), kind, is_in_string: false, is_escaped: false }
    }

    /// Adds text of the template.
    pub(super) fn literal(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                _ if self.is_escaped => self.is_escaped = false,
                '\\' => self.is_escaped = self.is_in_string,
                '"' => self.is_in_string = !self.is_in_string,
                _ => {}
            }
        }
        self.text.push_str(text);
    }

    /// Adds a value of the caller.
    pub(super) fn value(&mut self, value: &str) {
        match self.kind {
            BodyKind::Form => self.text.push_str(&quote::form(value)),
            _ if self.is_in_string => self.text.push_str(&quote::json_inside(value)),
            // Outside of a string, a value is a whole JSON value or becomes a string.
            BodyKind::Json => match Json::parse(value) {
                Some(json) => self.text.push_str(&json.to_compact()),
                None => self.text.push_str(&quote::json_string(value)),
            },
            BodyKind::Text => self.text.push_str(value),
        }
    }

    /// The body with its values.
    pub(super) fn finish(self) -> String {
        self.text
    }
}
