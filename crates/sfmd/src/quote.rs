//! Quoting: a value written so that it stays in its place, in a shell, an address or JSON.

use std::borrow::Cow;

/// A value as one word of a POSIX shell.
pub fn shell(value: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./=@:+,".contains(&byte);
    match value.is_empty() || !value.bytes().all(is_plain) {
        true => Cow::Owned(format!("'{}'", value.replace('\'', r"'\''"))),
        false => Cow::Borrowed(value),
    }
}

/// A value as a component of an address: letters, digits and `- _ . ! ~ * ' ( )` stay.
pub fn component(value: &str) -> Cow<'_, str> {
    percent(value, |byte| byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte))
}

/// A value of a form or query: as in `application/x-www-form-urlencoded`.
pub fn form(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"*-._ ".contains(&byte);
    percent(value, is_plain).replace(' ', "+")
}

/// Pairs as a query or form.
pub fn form_pairs(pairs: &[(String, String)]) -> String {
    pairs.iter().map(|(key, value)| format!("{}={}", form(key), form(value))).collect::<Vec<_>>().join("&")
}

/// Replaces every byte that is not plain with its percent escape.
pub(crate) fn percent(value: &str, is_plain: impl Fn(u8) -> bool) -> Cow<'_, str> {
    if value.bytes().all(&is_plain) {
        return Cow::Borrowed(value);
    }
    let mut encoded = String::with_capacity(value.len() * 3);
    for byte in value.bytes() {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value & 15)]);
            encoded.extend(['%', digit(byte >> 4), digit(byte)]);
        }
    }
    Cow::Owned(encoded)
}

/// The value of a hexadecimal digit.
pub(crate) fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The inside of a JSON string, without its quotes.
pub fn json_inside(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len() + 2);
    for c in value.chars() {
        match c {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c if u32::from(c) < 0x20 => escaped.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A JSON string with its quotes.
pub fn json_string(value: &str) -> String {
    format!("\"{}\"", json_inside(value))
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes in standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            match index <= chunk.len() {
                true => encoded.push(char::from(ALPHABET[(bits >> (18 - 6 * index) & 63) as usize])),
                false => encoded.push('='),
            }
        }
    }
    encoded
}

/// The bytes of base64 text; white space and missing padding are accepted, also the alphabet for addresses.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut is_padded) = (0_u32, 0, false);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => {
                is_padded = true;
                continue;
            }
            _ => return None,
        };
        if is_padded {
            return None;
        }
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (count < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_for_their_place() {
        assert_eq!(shell(""), "''");
        assert_eq!(shell("a-b./=@:+,"), "a-b./=@:+,");
        assert_eq!(shell("it's $x"), r"'it'\''s $x'");
        assert_eq!(component("a b/ü(1)!"), "a%20b%2F%C3%BC(1)!");
        assert_eq!(form("a b~&"), "a+b%7E%26");
        assert_eq!(json_string("a\"\\\n\u{1}"), r#""a\"\\\n\u0001""#);
    }

    #[test]
    fn base64_is_read_and_written() {
        for text in ["", "a", "ab", "abc", "abcd\0\u{ff}"] {
            assert_eq!(from_base64(&base64(text.as_bytes())).as_deref(), Some(text.as_bytes()));
        }
        assert_eq!(base64(b"hello"), "aGVsbG8=");
        assert_eq!(from_base64("aGVs\nbG8"), Some(b"hello".to_vec()));
        for text in ["a", "a$b=", "aGVs=bG8"] {
            assert_eq!(from_base64(text), None, "{text}");
        }
    }
}
