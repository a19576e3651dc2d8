//! Removes secrets from what is stored: the daemon's own rules, and those of the operator.

use serde_json::Value;

use crate::observe::audit::redact_text;

/// Characters of a text in stored arguments and results; the rest is cut.
const MAX_STORED_CHARACTERS: usize = 2_000;

/// What is removed before a text is stored.
#[derive(Debug, Default)]
pub struct Redaction {
    extra: Vec<engine::files::TextPattern>,
}

impl Redaction {
    /// The daemon's own rules, and the regular expressions in a list that is separated by commas. Also returns the
    /// expressions that are invalid.
    pub fn new(extra: &str) -> (Redaction, Vec<String>) {
        let (mut patterns, mut invalid) = (Vec::new(), Vec::new());
        for text in extra.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            match engine::files::TextPattern::new(text) {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => invalid.push(format!("{text:?}: {error}")),
            }
        }
        (Redaction { extra: patterns }, invalid)
    }

    /// A text without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        let text = redact_text(text).into_owned();
        self.extra
            .iter()
            .fold(text, |text, pattern| pattern.replace_all(&text, crate::observe::audit::HIDDEN))
    }

    /// A value whose texts have no secrets and are not long.
    pub(super) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(cut(self.text(text))),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect()),
            Value::Object(members) => {
                let redacted = members.iter().map(|(name, value)| {
                    let value = match crate::observe::audit::is_secret_name(name) {
                        true => Value::String(crate::observe::audit::HIDDEN.to_owned()),
                        false => self.value(value),
                    };
                    (name.clone(), value)
                });
                Value::Object(redacted.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(MAX_STORED_CHARACTERS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn own_and_extra_rules_apply_and_long_paths_stay_readable() {
        let (redaction, invalid) = Redaction::new("CUST-[0-9]+, (, x{2}");
        assert_eq!(invalid.len(), 1, "{invalid:?}");
        let text = redaction.text("deploy CUST-123 xx /a/very/long/path/that/has/more/than/32/characters");
        assert_eq!(text, "deploy [hidden] [hidden] /a/very/long/path/that/has/more/than/32/characters");
        let value = redaction
            .value(&json!({"cmd": "login --password=hunter2", "api_token": "abc", "n": [1, "CUST-9"]}));
        assert_eq!(
            value,
            json!({"cmd": "login --password=[hidden]", "api_token": "[hidden]", "n": [1, "[hidden]"]})
        );
        let long = redaction.value(&json!("é".repeat(3000)));
        assert_eq!(long.as_str().unwrap().chars().count(), MAX_STORED_CHARACTERS + 1);
    }
}
