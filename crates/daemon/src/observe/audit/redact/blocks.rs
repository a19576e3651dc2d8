//! Secrets that are not words: members of JSON text, and private keys in PEM form.

use std::borrow::Cow;
use std::ops::Range;

use super::{HIDDEN, is_secret_name};

const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_END: &str = "-----END ";

/// The text with secret members of JSON and private keys replaced.
pub(super) fn redact_blocks(text: &str) -> Cow<'_, str> {
    match replaced(text, secret_member) {
        Cow::Borrowed(text) => replaced(text, private_key),
        Cow::Owned(text) => Cow::Owned(replaced(&text, private_key).into_owned()),
    }
}

/// The text without the parts that `next` finds, each at or after an offset.
fn replaced(text: &str, next: fn(&str, usize) -> Option<Range<usize>>) -> Cow<'_, str> {
    let mut result = String::new();
    let mut copied = 0;
    while let Some(range) = next(text, copied) {
        result.push_str(&text[copied..range.start]);
        result.push_str(HIDDEN);
        copied = range.end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    result.push_str(&text[copied..]);
    Cow::Owned(result)
}

/// The first value of a secret member.
fn secret_member(text: &str, from: usize) -> Option<Range<usize>> {
    text[from..].match_indices(':').find_map(|(at, _)| member_value(text, from + at))
}

/// The value behind the colon at `colon`, if a quoted name of a secret is before it.
fn member_value(text: &str, colon: usize) -> Option<Range<usize>> {
    let before = text[..colon].trim_end();
    let quote = before.chars().next_back().filter(|quote| matches!(quote, '"' | '\''))?;
    let name = before[..before.len() - 1].trim_end_matches('\\');
    let name = &name[name.rfind(quote)? + 1..];
    if !is_secret_name(name) {
        return None;
    }
    let value = &text[colon + 1..];
    let start = colon + 1 + (value.len() - value.trim_start().len());
    if let Some((inner, _)) = quoted(text, start) {
        return (!inner.is_empty()).then_some(inner);
    }
    let (rest, end) = (&text[start..], text.len());
    let length = match rest.bytes().next()? {
        // Its members are checked by their own names.
        b'{' => return None,
        b'[' => rest.find(']').map_or(rest.len(), |close| close + 1),
        _ => rest.find([',', '}', ']', '"', '\'', ' ', '\n']).unwrap_or(end - start),
    };
    (length > 0).then(|| start..start + length)
}

/// The inside and the end of the string that is quoted at `at`. A quote may be escaped, as in JSON within a string; its end
/// then is escaped in the same way. A string that is not closed ends with the text.
pub(super) fn quoted(text: &str, at: usize) -> Option<(Range<usize>, usize)> {
    let escapes = text[at..].bytes().take_while(|byte| *byte == b'\\').count();
    let quote = text[at + escapes..].bytes().next().filter(|byte| matches!(byte, b'"' | b'\''))?;
    let start = at + escapes + 1;
    let mut run = 0;
    for (index, byte) in text[start..].bytes().enumerate() {
        match byte {
            b'\\' => run += 1,
            _ if byte == quote => {
                let is_end = match escapes {
                    0 => quote == b'\'' || run % 2 == 0,
                    _ => run == escapes,
                };
                if is_end {
                    return Some((start..start + index - escapes, start + index + 1));
                }
                run = 0;
            }
            _ => run = 0,
        }
    }
    Some((start..text.len(), text.len()))
}

/// The body of the first private key; it ends with the text if its last line is missing.
fn private_key(text: &str, from: usize) -> Option<Range<usize>> {
    text[from..].match_indices(PEM_BEGIN).find_map(|(at, _)| {
        let label = from + at + PEM_BEGIN.len();
        let start = label + text[label..].find("-----")? + "-----".len();
        if !text[label..start].contains("PRIVATE KEY") {
            return None;
        }
        let end = text[start..].find(PEM_END).map_or(text.len(), |at| start + at);
        (start < end).then_some(start..end)
    })
}
