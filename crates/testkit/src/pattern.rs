//! Pattern: an expected line of a transcript, and the names that it binds.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The member that represents `...` in the JSON form of a pattern.
const MORE: &str = "...";

/// Values of names: given ones such as `ROOT`, and those bound by expectations.
#[derive(Debug, Clone, Default)]
pub struct Vars(BTreeMap<String, Value>);

impl Vars {
    /// Creates an empty set of names.
    pub fn new() -> Vars {
        Vars::default()
    }

    /// Binds a name to a text.
    #[must_use]
    pub fn with(mut self, name: &str, text: impl Into<String>) -> Vars {
        self.0.insert(name.to_owned(), Value::String(text.into()));
        self
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Inserts bound values into a line: `"$N"` becomes the value, `$N` inside text becomes its text.
    pub fn fill(&self, line: &str) -> String {
        let mut line = line.to_owned();
        // Longer names first, so that `$SESSION` does not match `$S`.
        let mut names: Vec<_> = self.0.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (name, value) in names {
            line = line.replace(&format!("\"${name}\""), &value.to_string());
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            line = line.replace(&format!("${name}"), &text);
        }
        line
    }
}

/// Parses an expectation: JSON with `...` as a member.
pub fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(&quote_more(text)).with_context(|| format!("not a pattern: {text}"))
}

/// Replaces `...` outside of strings by a member.
fn quote_more(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::new(), false, false);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if !in_string && rest.starts_with(MORE) {
            out.push_str("\"...\":true");
            rest = &rest[MORE.len()..];
            continue;
        }
        if character == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = character == '\\' && !escaped;
        out.push(character);
        rest = &rest[character.len_utf8()..];
    }
    out
}

/// Matches a value with a pattern and binds new names; binds nothing without a match.
pub fn matches(pattern: &Value, value: &Value, vars: &mut Vars) -> Result<()> {
    let mut bound = vars.clone();
    fits(pattern, value, &mut bound, "line")?;
    *vars = bound;
    Ok(())
}

fn fits(pattern: &Value, value: &Value, vars: &mut Vars, place: &str) -> Result<()> {
    match (pattern, value) {
        (Value::String(text), _) => fits_text(text, value, vars, place),
        (Value::Object(wanted), Value::Object(found)) => {
            for (name, wanted) in wanted.iter().filter(|(name, _)| *name != MORE) {
                let Some(found) = found.get(name) else { bail!("{place}: {name} is missing") };
                fits(wanted, found, vars, &format!("{place}.{name}"))?;
            }
            match found.keys().find(|name| !wanted.contains_key(*name)) {
                Some(name) if !wanted.contains_key(MORE) => bail!("{place}: {name} is not expected"),
                _ => Ok(()),
            }
        }
        (Value::Array(wanted), Value::Array(found)) => {
            if wanted.len() != found.len() {
                bail!("{place}: expected {} values, got {}", wanted.len(), found.len());
            }
            let mut pairs = wanted.iter().zip(found).enumerate();
            pairs.try_for_each(|(index, (wanted, found))| {
                fits(wanted, found, vars, &format!("{place}[{index}]"))
            })
        }
        _ if pattern == value => Ok(()),
        _ => bail!("{place}: expected {pattern}, got {value}"),
    }
}

fn fits_text(text: &str, value: &Value, vars: &mut Vars, place: &str) -> Result<()> {
    if text == "$_" {
        return Ok(());
    }
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_' || b.is_ascii_digit())
    };
    if let Some(name) = text.strip_prefix('$').filter(|name| is_name(name)) {
        match vars.get(name) {
            Some(bound) if bound == value => return Ok(()),
            Some(bound) => bail!("{place}: ${name} is {bound}, got {value}"),
            None => vars.0.insert(name.to_owned(), value.clone()),
        };
        return Ok(());
    }
    match value.as_str() == Some(vars.fill(text).as_str()) {
        true => Ok(()),
        false => bail!("{place}: expected {:?}, got {value}", vars.fill(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(pattern: &str, value: Value) -> Result<Vars> {
        let mut vars = Vars::new().with("ROOT", "/tmp/x");
        matches(&parse(pattern)?, &value, &mut vars).map(|()| vars)
    }

    #[test]
    fn members_are_exact_unless_more_are_allowed() {
        assert!(check(r#"{"a":1}"#, json!({"a": 1})).is_ok());
        assert!(
            check(r#"{"a":1}"#, json!({"a": 1, "b": 2}))
                .unwrap_err()
                .to_string()
                .contains("b is not expected")
        );
        assert!(check(r#"{"a":1, ...}"#, json!({"a": 1, "b": 2})).is_ok());
        assert!(check(r#"{...}"#, json!({})).is_ok());
        assert!(check(r#"{"a":{"text":"..."},...}"#, json!({"a": {"text": "..."}})).is_ok());
        assert!(check(r#"{"a":1,"c":1}"#, json!({"a": 1})).unwrap_err().to_string().contains("c is missing"));
    }

    #[test]
    fn a_name_is_bound_once_and_compared_afterwards() {
        assert_eq!(check(r#"["$A","$A"]"#, json!([5, 5])).unwrap().get("A"), Some(&json!(5)));
        assert!(check(r#"["$A","$A"]"#, json!([5, 6])).is_err());
        assert!(check(r#"["$_","$_","$ROOT/f"]"#, json!([5, "x", "/tmp/x/f"])).is_ok());
        assert!(check(r#""$ROOT""#, json!("/tmp/y")).is_err());
    }

    #[test]
    fn sent_lines_are_filled_longest_name_first() {
        let vars = Vars::new().with("S", "s_1").with("SIZE", "big");
        assert_eq!(vars.fill(r#"{"a":"$S","b":"$SIZE/$S"}"#), r#"{"a":"s_1","b":"big/s_1"}"#);
    }
}
