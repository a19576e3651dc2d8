//! JSON as a tree that keeps the order of keys and the text of numbers.

use crate::quote;

/// A value of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Json {
    /// `null`, and what a path does not find.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it was written.
    Number(String),
    /// A string without its escapes.
    String(String),
    /// The elements of a list.
    Array(Vec<Json>),
    /// The members of an object, in order.
    Object(Vec<(String, Json)>),
}

/// Lists and objects within each other; a deeper text is not read.
const DEEPEST: usize = 128;

impl Json {
    /// Reads a text that is one JSON value.
    pub fn parse(text: &str) -> Option<Json> {
        let mut reader = JsonReader { text, at: 0 };
        let value = reader.value(0)?;
        reader.blanks();
        (reader.at == text.len()).then_some(value)
    }

    /// An object of strings.
    pub fn object(pairs: &[(String, String)]) -> Json {
        Json::Object(pairs.iter().map(|(name, value)| (name.clone(), Json::String(value.clone()))).collect())
    }

    /// The value at a path such as `list[0].name` or `list.0.name`; an empty path is the value itself.
    pub fn get(&self, path: &str) -> Option<&Json> {
        let path = path.strip_prefix("$.").or_else(|| path.strip_prefix('$')).unwrap_or(path);
        let mut value = self;
        for part in path.split(['.', '[']).filter(|part| !part.is_empty()) {
            let key = part.strip_suffix(']').unwrap_or(part);
            value = match value {
                Json::Array(items) => items.get(key.parse::<usize>().ok()?)?,
                Json::Object(members) => {
                    members.iter().find(|(name, _)| name == key).map(|(_, value)| value)?
                }
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => return None,
            };
        }
        Some(value)
    }

    /// A string as it is, nothing for `null`, everything else as compact JSON.
    pub fn to_text(&self) -> String {
        match self {
            Json::Null => String::new(),
            Json::String(text) => text.clone(),
            other => other.to_compact(),
        }
    }

    /// The value as JSON without white space.
    pub fn to_compact(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        match self {
            Json::Null => text.push_str("null"),
            Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => text.push_str(number),
            Json::String(value) => text.push_str(&quote::json_string(value)),
            Json::Array(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { "," });
                    item.write(text);
                }
                text.push(']');
            }
            Json::Object(members) => {
                text.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { "," });
                    text.push_str(&quote::json_string(name));
                    text.push(':');
                    value.write(text);
                }
                text.push('}');
            }
        }
    }
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl JsonReader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, token: &str) -> Option<()> {
        let is_next = self.text.as_bytes()[self.at..].starts_with(token.as_bytes());
        self.at += if is_next { token.len() } else { 0 };
        is_next.then_some(())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        self.blanks();
        match self.peek()? {
            b'{' if depth < DEEPEST => self.object(depth),
            b'[' if depth < DEEPEST => self.array(depth),
            b'"' => self.string().map(Json::String),
            b't' => self.take("true").map(|()| Json::Bool(true)),
            b'f' => self.take("false").map(|()| Json::Bool(false)),
            b'n' => self.take("null").map(|()| Json::Null),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        let mut members = Vec::new();
        self.at += 1;
        self.blanks();
        if self.take("}").is_some() {
            return Some(Json::Object(members));
        }
        loop {
            self.blanks();
            let name = self.string()?;
            self.blanks();
            self.take(":")?;
            members.push((name, self.value(depth + 1)?));
            self.blanks();
            if self.take("}").is_some() {
                return Some(Json::Object(members));
            }
            self.take(",")?;
        }
    }

    fn array(&mut self, depth: usize) -> Option<Json> {
        let mut items = Vec::new();
        self.at += 1;
        self.blanks();
        if self.take("]").is_some() {
            return Some(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blanks();
            if self.take("]").is_some() {
                return Some(Json::Array(items));
            }
            self.take(",")?;
        }
    }

    fn string(&mut self) -> Option<String> {
        self.take("\"")?;
        let mut value = String::new();
        loop {
            let rest = &self.text[self.at..];
            let end = rest.find(|c: char| c == '"' || c == '\\' || u32::from(c) < 0x20)?;
            value.push_str(&rest[..end]);
            self.at += end + 1;
            match rest.as_bytes()[end] {
                b'"' => return Some(value),
                b'\\' => value.push(self.escape()?),
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit()?;
                let mut units = vec![first];
                if (0xd800..0xdc00).contains(&first) && self.take("\\u").is_some() {
                    units.push(self.unit()?);
                }
                char::decode_utf16(units).next()?.unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.at;
        self.take("-");
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with('0') {
            return None;
        }
        if self.take(".").is_some() {
            self.digits()?;
        }
        if self.take("e").or_else(|| self.take("E")).is_some() {
            self.take("+").or_else(|| self.take("-"));
            self.digits()?;
        }
        Some(Json::Number(self.text[start..self.at].to_owned()))
    }

    fn digits(&mut self) -> Option<&str> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then(|| &self.text[start..self.at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_written() {
        let text = r#" {"b": [1.50, -2e3, true, null], "a": "x\u00e9\ud83d\ude00\n", "b": {}} "#;
        let value = Json::parse(text).unwrap();
        assert_eq!(value.to_compact(), "{\"b\":[1.50,-2e3,true,null],\"a\":\"xé😀\\n\",\"b\":{}}");
        for path in ["b[0]", "b.0", "$.b[0]", "$.b.0"] {
            assert_eq!(value.get(path).map(Json::to_text).as_deref(), Some("1.50"), "{path}");
        }
        assert_eq!(value.get("b[9]"), None);
        assert_eq!(value.get("a.x"), None);
        for text in
            ["", "{", "[1,]", "01", "\"a", "tru", "1 2", "\"\u{1}\"", "{a:1}", "+1", "1.", "\"\\u12g4\""]
        {
            assert_eq!(Json::parse(text), None, "{text}");
        }
        assert_eq!(Json::parse(&"[".repeat(1_000_000)), None);
    }
}
