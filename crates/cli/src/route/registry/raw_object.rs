//! RawObject: a JSON object that keeps the text of its values and their order.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The indentation of one level.
const INDENT: &str = "  ";

/// A JSON object whose values are kept as written.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawObject(Vec<(String, Box<RawValue>)>);

impl RawObject {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_ref()))
    }

    /// The value of a key. If a key occurs twice, the last one counts, as in other JSON parsers.
    pub(crate) fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_ref())
    }

    /// Sets a value by its JSON text, in place or at the end. Invalid JSON changes nothing.
    pub(crate) fn set(&mut self, key: &str, text: &str) {
        let Ok(value) = RawValue::from_string(text.to_owned()) else { return };
        match self.0.iter_mut().rev().find(|(name, _)| name == key) {
            Some((_, present)) => *present = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Removes a key; returns whether it was present.
    pub(crate) fn remove(&mut self, key: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(name, _)| name != key);
        self.0.len() < before
    }

    /// The object as text: indented at this depth, or on one line.
    pub(crate) fn to_text(&self, depth: Option<usize>) -> String {
        let (inner, outer) = match depth {
            Some(depth) => (format!("\n{}", INDENT.repeat(depth + 1)), format!("\n{}", INDENT.repeat(depth))),
            None => Default::default(),
        };
        let mut text = String::from("{");
        for (index, (key, value)) in self.0.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            let key = serde_json::Value::from(key.as_str());
            text.push_str(&format!("{inner}{key}: {}", value.get()));
        }
        if !self.0.is_empty() {
            text.push_str(&outer);
        }
        text.push('}');
        text
    }
}

/// Removes the whitespace between JSON tokens.
pub(crate) fn one_line(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    let (mut in_string, mut is_escaped) = (false, false);
    for c in json.chars() {
        if in_string {
            in_string = is_escaped || c != '"';
            is_escaped = c == '\\' && !is_escaped;
        } else if c.is_ascii_whitespace() {
            continue;
        } else {
            in_string = c == '"';
        }
        line.push(c);
    }
    line
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawObject, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = RawObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(RawObject(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whitespace_outside_strings_is_removed() {
        let text = "{\n \"a b\" : [ 1 , \"x \\\" y\\\\\" ] ,\t\"c\":{ } }";
        assert_eq!(one_line(text), r#"{"a b":[1,"x \" y\\"],"c":{}}"#);
    }

    #[test]
    fn a_set_value_replaces_the_old_one_in_place() {
        let mut object: RawObject = serde_json::from_str(r#"{"b":1,"a":1.50,"b":2}"#).unwrap();
        assert_eq!(object.get("b").map(RawValue::get), Some("2"), "the last counts");
        object.set("a", "[1.0]");
        object.set("z", "null");
        object.set("q", "no JSON");
        assert_eq!(one_line(&object.to_text(Some(0))), r#"{"b":1,"a":[1.0],"b":2,"z":null}"#);
        assert!(object.remove("b") && !object.remove("b"));
        assert_eq!(object.to_text(Some(0)), "{\n  \"a\": [1.0],\n  \"z\": null\n}");
    }
}
