//! Puts one member into a JSON file and leaves every other character of it as it is.

use serde_json::{Value, json};

use super::jsonc::{self, Node};

/// The text with `section.name` set to a value.
pub(super) fn with(text: &str, section: &str, name: &str, value: &Value) -> Result<String, String> {
    if text.trim().is_empty() {
        return Ok(format!("{:#}\n", json!({ section: { name: value } })));
    }
    let root = jsonc::parse(text)?;
    if !root.value.is_object() {
        return Err("this is no object, so nothing can be added to it".to_owned());
    }
    let changed = match root.member(section) {
        None => inserted(text, &root, section, &json!({ name: value })),
        Some(servers) if !servers.node.value.is_object() => {
            return Err(format!("`{section}` in it is no object"));
        }
        Some(servers) => match servers.node.member(name) {
            None => inserted(text, &servers.node, name, value),
            Some(old) if old.node.value == *value => text.to_owned(),
            Some(old) => replaced(text, &old.node, old.start, value),
        },
    };
    is_only_that(&root, &changed, (section, name), value)?;
    Ok(changed)
}

/// What to put in by hand.
pub(super) fn snippet(section: &str, name: &str, value: &Value) -> String {
    json!({ section: { name: value } }).to_string()
}

/// Looks whether the change is the one that was meant, before anybody relies on it.
fn is_only_that(
    before: &Node,
    text: &str,
    (section, name): (&str, &str),
    value: &Value,
) -> Result<(), String> {
    let mut expected = before.value.clone();
    if expected.get(section).is_none() {
        expected[section] = json!({});
    }
    expected[section][name] = value.clone();
    match jsonc::parse(text) {
        Ok(after) if after.value == expected => Ok(()),
        _ => Err("it is written in a way that we cannot add to without changing more".to_owned()),
    }
}

fn inserted(text: &str, object: &Node, name: &str, value: &Value) -> String {
    let close = object.span.end - 1;
    let outer = indent(text, object.span.start);
    let inner = match object.members.first() {
        Some(first) if starts_line(text, first.start) => indent(text, first.start),
        _ => format!("{outer}{}", unit(text)),
    };
    let member = format!("{}: {}", json!(name), indented(value, &inner, &unit(text)));
    match object.members.last() {
        None => {
            let between = text.get(object.span.start + 1..close).unwrap_or_default();
            let kept = between.trim_end();
            let (head, tail) = (&text[..object.span.start + 1], &text[close..]);
            format!("{head}{kept}\n{inner}{member}\n{outer}{tail}")
        }
        Some(last) => {
            let comma = if object.has_last_comma { "" } else { "," };
            let (head, rest) = text.split_at(last.node.span.end);
            // Comments behind the last member stay with it.
            let (kept, tail) = rest.split_at(close - last.node.span.end);
            let kept_end = kept.trim_end();
            let trailing = if object.has_last_comma { "," } else { "" };
            format!("{head}{comma}{kept_end}\n{inner}{member}{trailing}\n{outer}{tail}")
        }
    }
}

fn replaced(text: &str, old: &Node, start: usize, value: &Value) -> String {
    let inner = indent(text, start);
    format!("{}{}{}", &text[..old.span.start], indented(value, &inner, &unit(text)), &text[old.span.end..])
}

/// The blanks that the line of a place begins with.
fn indent(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or_default();
    let line = text.get(before.rfind('\n').map_or(0, |end| end + 1)..).unwrap_or_default();
    line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect()
}

fn starts_line(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    before.rsplit('\n').next().is_some_and(|line| line.trim().is_empty())
}

/// What the file is indented with.
fn unit(text: &str) -> String {
    let line = text.lines().find(|line| line.starts_with([' ', '\t']) && line.trim_start().starts_with('"'));
    let blanks: String = line.unwrap_or("  ").chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
    blanks
}

fn indented(value: &Value, inner: &str, unit: &str) -> String {
    let pretty = format!("{value:#}");
    let lines = pretty.lines().enumerate().map(|(n, line)| {
        let depth = (line.len() - line.trim_start().len()) / 2;
        match n {
            0 => line.to_owned(),
            _ => format!("{inner}{}{}", unit.repeat(depth), line.trim_start()),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> String {
        let changed = with(text, "mcpServers", "rex", &json!({ "command": "/bin/rex" })).unwrap();
        assert_eq!(with(&changed, "mcpServers", "rex", &json!({ "command": "/bin/rex" })).unwrap(), changed);
        changed
    }

    #[test]
    fn everything_else_stays_as_it_was_written() {
        let text = "{\n    // mine\n    \"b\": 1,\n    \"mcpServers\": {\n        \"x\": { \"command\": \"y\" } // last\n    },\n    \"a\": 2\n}\n";
        let expected = "{\n    // mine\n    \"b\": 1,\n    \"mcpServers\": {\n        \"x\": { \"command\": \"y\" }, // last\n        \"rex\": {\n            \"command\": \"/bin/rex\"\n        }\n    },\n    \"a\": 2\n}\n";
        assert_eq!(set(text), expected);
    }

    #[test]
    fn a_section_is_made_where_there_is_none() {
        assert_eq!(
            set(""),
            "{\n  \"mcpServers\": {\n    \"rex\": {\n      \"command\": \"/bin/rex\"\n    }\n  }\n}\n"
        );
        for text in [
            "{}",
            "{\n}\n",
            "{ \"a\": 1 }",
            "{\"a\":1,}",
            "{ // x\n}",
            "{\"mcpServers\":{}}",
            "{\t\"a\": [\n1\n]\n}",
        ] {
            let after = jsonc::parse(&set(text)).unwrap();
            assert_eq!(after.value["mcpServers"]["rex"]["command"], "/bin/rex", "{text}");
        }
        assert!(set("{ // x\n}").contains("// x"));
    }

    #[test]
    fn an_old_entry_is_replaced_in_its_place() {
        let text = "{\n  \"mcpServers\": {\n    \"rex\": { \"command\": \"old\", \"args\": [] },\n    \"z\": {}\n  }\n}";
        let after = set(text);
        assert!(
            after.contains("\"rex\": {\n      \"command\": \"/bin/rex\"\n    },\n    \"z\": {}"),
            "{after}"
        );
    }

    #[test]
    fn what_cannot_be_added_to_is_refused() {
        for text in
            ["[]", "{\"mcpServers\": []}", "{\"mcpServers\": ", "{\"mcpServers\": {}, \"mcpServers\": 5}"]
        {
            assert!(with(text, "mcpServers", "rex", &json!({})).is_err(), "{text}");
        }
    }
}
