//! The id of a request, repeated in the response exactly as it was written.

use serde_json::value::RawValue;

use crate::limits::MAX_ID_BYTES;

/// A request id: a JSON number or string, kept as its original text, so that `1.0` does not become `1`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Text);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Text {
    /// Plain digits, the common case, kept without an allocation.
    Digits(u64),
    Other(Box<str>),
}

impl Id {
    /// Parses an id from one JSON value. `None` if it is neither number nor string, or longer than [`MAX_ID_BYTES`].
    pub(crate) fn from_raw(raw: &RawValue) -> Option<Id> {
        let text = raw.get();
        let first = text.bytes().next()?;
        if !(first == b'"' || first == b'-' || first.is_ascii_digit()) || text.len() > MAX_ID_BYTES {
            return None;
        }
        // JSON has no leading zeros, so at most 19 digits are a u64 with the same text.
        if text.len() <= 19
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(number) = text.parse()
        {
            return Some(Id(Text::Digits(number)));
        }
        Some(Id(Text::Other(text.into())))
    }

    /// Parses an id from JSON text, such as the `id` of `$/cancel`.
    pub fn from_json(text: &str) -> Option<Id> {
        Id::from_raw(serde_json::from_str(text).ok()?)
    }

    /// Appends the id as JSON.
    pub fn push_json(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Text::Digits(number) => push_u64(out, *number),
            Text::Other(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Id {
        match number {
            // Twenty digits are kept as text, as in parsing.
            10_000_000_000_000_000_000.. => Id(Text::Other(number.to_string().into())),
            _ => Id(Text::Digits(number)),
        }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Text::Digits(number) => write!(f, "{number}"),
            Text::Other(text) => f.write_str(text),
        }
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Id({self})")
    }
}

/// Appends a number in decimal.
pub(crate) fn push_u64(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_keeps_its_original_text() {
        for text in
            ["0", "7", "-1", "1.0", "1e3", "18446744073709551615", "123456789012345678901", r#""aA\u00e9""#]
        {
            let id = Id::from_json(text).unwrap();
            let mut out = Vec::new();
            id.push_json(&mut out);
            assert_eq!((std::str::from_utf8(&out).unwrap(), id.to_string().as_str()), (text, text));
        }
        assert_eq!(Id::from(u64::MAX), Id::from_json("18446744073709551615").unwrap());
        assert_eq!(Id::from(12), Id::from_json("12").unwrap());
    }

    #[test]
    fn an_id_is_a_number_or_a_string() {
        for text in ["null", "true", "{}", "[1]", "", "1 2"] {
            assert_eq!(Id::from_json(text), None, "{text}");
        }
        assert_eq!(Id::from_json(&format!("\"{}\"", "x".repeat(MAX_ID_BYTES))), None);
    }
}
