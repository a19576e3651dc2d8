//! From the loose values of a request to exact ones: texts, topics, homes, labels.

use serde_json::Value;

/// Characters of a command that its label has, in UTF-16 units.
const LABEL_UNITS: usize = 80;

/// The type of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TopicType {
    /// Documents of the file system.
    File,
    /// An installed app.
    App,
    /// Documents of web servers.
    Web,
    /// A shell.
    Bash,
}

impl TopicType {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            TopicType::File => "file",
            TopicType::App => "app",
            TopicType::Web => "web",
            TopicType::Bash => "bash",
        }
    }
}

/// A canonical topic: `type:name`, with further names for the configurations of an app.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName {
    kind: TopicType,
    text: Box<str>,
}

impl TopicName {
    /// Parses a topic; without a type it is a file topic, and an empty one is `file:main`.
    pub fn parse(text: &str) -> Option<TopicName> {
        let text = text.trim();
        let (kind, names) = match text.split_once(':') {
            None if text.is_empty() => (TopicType::File, "main"),
            None => (TopicType::File, text),
            Some(("file", names)) => (TopicType::File, names),
            Some(("app", names)) => (TopicType::App, names),
            Some(("web", names)) => (TopicType::Web, names),
            Some(("bash", names)) => (TopicType::Bash, names),
            Some(_) => return None,
        };
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        let text = format!("{}:{names}", kind.name()).into();
        names.split(':').all(is_name).then_some(TopicName { kind, text })
    }

    /// The type before the first colon.
    pub fn kind(&self) -> TopicType {
        self.kind
    }

    /// The canonical text of the name.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// A text field without surrounding blanks; every other value, and a blank one, counts as missing.
pub(super) fn text(value: &Value) -> Option<&str> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// A topic field: a missing one is `file:main`. The error is the text for the answer.
pub(super) fn topic(value: &Value) -> Result<TopicName, String> {
    let raw = match value {
        Value::Null => "",
        Value::String(text) => text.trim(),
        other => return Err(other.to_string()),
    };
    TopicName::parse(raw).ok_or_else(|| raw.to_owned())
}

/// The texts of a list; other values are left out, and what is no list is `None`.
pub(super) fn texts(value: &Value) -> Option<Vec<String>> {
    let list = value.as_array()?;
    Some(list.iter().filter_map(text).map(str::to_owned).collect())
}

/// The text of a header: UTF-8, else Latin-1, which is how Node sends it.
pub(super) fn header_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

/// The first line of a command, shortened as the public implementation does.
pub(super) fn label(command: &str) -> String {
    let line = command.split('\n').next().unwrap_or_default();
    let units: Vec<u16> = line.encode_utf16().collect();
    match units.get(..LABEL_UNITS - 3) {
        Some(start) if units.len() > LABEL_UNITS => String::from_utf16_lossy(start) + "...",
        _ => line.to_owned(),
    }
}

/// Decodes the percent escapes of a path; `None` if one is malformed or the result is not UTF-8.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                bytes.extend(hex::decode(digits).ok()?);
                rest = after;
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn topics_are_canonical_or_refused() {
        for (raw, canonical) in [
            ("", "file:main"),
            ("  ", "file:main"),
            ("notes", "file:notes"),
            (" file:a_b-1 ", "file:a_b-1"),
            ("app:weather:korea", "app:weather:korea"),
            ("web:x", "web:x"),
            ("bash:dev", "bash:dev"),
            ("file:a:b", "file:a:b"),
        ] {
            assert_eq!(TopicName::parse(raw).as_ref().map(TopicName::as_str), Some(canonical), "{raw:?}");
        }
        for raw in ["file:", "ftp:x", "bad!name", "a b", "File:x", "app:a:", "a.b", "a/b", "é", ":"] {
            assert_eq!(TopicName::parse(raw), None, "{raw:?}");
        }
        assert_eq!(topic(&json!(null)).unwrap().as_str(), "file:main");
        assert_eq!(topic(&json!(7)).unwrap_err(), "7");
        assert_eq!(topic(&json!(" bad! ")).unwrap_err(), "bad!");
    }

    #[test]
    fn labels_are_the_first_line_with_at_most_eighty_units() {
        assert_eq!(label("/a\nbody"), "/a");
        assert_eq!(label(&"x".repeat(80)), "x".repeat(80));
        assert_eq!(label(&"x".repeat(81)), "x".repeat(77) + "...");
        assert_eq!(label(&"😀".repeat(41)), "😀".repeat(38) + "\u{fffd}...");
    }

    #[test]
    fn percent_escapes_are_decoded_or_refused() {
        assert_eq!(percent_decoded("a%3Ab%20c").as_deref(), Some("a:b c"));
        for bad in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(percent_decoded(bad), None, "{bad}");
        }
    }
}
