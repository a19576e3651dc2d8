//! Escapes text from a target, so that it can neither control the terminal nor change how a line reads.

use std::borrow::Cow;

/// Escapes one line: names, summaries, cells of a table. Line ends are escaped too.
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// Escapes text of several lines; line ends and tabs stay.
pub fn text(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes encoded JSON, which stays the same JSON. The encoder has escaped the control characters of ASCII.
pub fn json(text: &str) -> Cow<'_, str> {
    let units = |c: char| {
        let mut buffer = [0; 2];
        c.encode_utf16(&mut buffer).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>()
    };
    match text.contains(is_unsafe) {
        true => {
            Cow::Owned(text.chars().map(|c| if is_unsafe(c) { units(c) } else { c.to_string() }).collect())
        }
        false => Cow::Borrowed(text),
    }
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |c: char| is_unsafe(c) && !stays(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_escaped(c) {
            true => escaped.extend(c.escape_default()),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character is a control character, invisible, or changes the direction or the lines of the text around it.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_deceive_are_escaped_and_the_others_stay() {
        let plain = "Grüße 世界 👩\u{200d}👩 {}\\";
        assert!(matches!(line(plain), Cow::Borrowed(same) if same == plain));
        assert_eq!(line("a\u{1b}]52;c;x\u{7}\n"), "a\\u{1b}]52;c;x\\u{7}\\n");
        assert_eq!(text("a\r\n\tb\u{9b}2J"), "a\\r\n\tb\\u{9b}2J");
        for c in ['\u{200b}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{7f}', '\0'] {
            assert_eq!(text(&c.to_string()), c.escape_default().to_string());
        }
    }

    #[test]
    fn escaped_json_is_the_same_json() {
        let value = serde_json::json!({ "a\u{202e}": "\u{1b}\u{7f}\u{9b}2J\n\u{e0041}\"\\" });
        let encoded = value.to_string();
        let escaped = json(&encoded);
        assert!(!escaped.contains(is_unsafe), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
