//! Sets one member of a JSON file with comments and keeps every other character unchanged.

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use jsonc_parser::errors::ParseError;
use jsonc_parser::tokens::Token;
use jsonc_parser::{ParseOptions, Scanner, ScannerOptions};
use serde_json::{Value, json};

/// The extensions of JSON that agents accept in their files.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The text with the member at a path set to a value, or without it. Objects that the removal leaves empty are removed too.
pub(super) fn with(text: &str, path: &[&str], value: Option<&Value>) -> Result<String, String> {
    let before = values(text)?;
    let wanted = expected(before.clone(), path, value)
        .ok_or_else(|| format!("`{}` is not an object", path.first().copied().unwrap_or_default()))?;
    if wanted == before {
        return Ok(text.to_owned());
    }
    if text.trim().is_empty() {
        return Ok(format!("{wanted:#}\n"));
    }
    let root = CstRootNode::parse(text, &OPTIONS).map_err(describe)?;
    let Some(object) = root.object_value() else {
        return Err("the file is not a JSON object".to_owned());
    };
    match value {
        Some(value) => put(&object, path, value),
        None => remove(&object, path),
    }
    let changed = root.to_string();
    // A file with duplicate names, for example, is refused.
    match parse(&changed) {
        Ok(after) if after == wanted => Ok(changed),
        _ => Err("the file cannot be changed without changing other members".to_owned()),
    }
}

/// The member as JSON, to be added by hand.
pub(super) fn snippet(path: &[&str], value: &Value) -> String {
    expected(json!({}), path, Some(value)).unwrap_or_default().to_string()
}

/// All members of a file; an empty file has none.
pub(super) fn values(text: &str) -> Result<Value, String> {
    let values = if text.trim().is_empty() { json!({}) } else { parse(text)? };
    match values.is_object() {
        true => Ok(values),
        false => Err("the file is not a JSON object".to_owned()),
    }
}

fn parse(text: &str) -> Result<Value, String> {
    let values = jsonc_parser::parse_to_serde_value(text, &OPTIONS).map_err(describe)?;
    check_strings(text)?;
    Ok(values)
}

/// Refuses strings with unescaped control characters, such as a line break: the parser accepts them, agents do not.
fn check_strings(text: &str) -> Result<(), String> {
    let mut scanner = Scanner::new(text, &ScannerOptions::default());
    while let Some(token) = scanner.scan().map_err(describe)? {
        let raw = text.get(scanner.token_start()..scanner.token_end()).unwrap_or_default();
        if matches!(token, Token::String(_)) && raw.contains(|c: char| c < ' ') {
            let before = text.get(..scanner.token_start()).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            return Err(format!("line {line}, column {column}: Control character in a string"));
        }
    }
    Ok(())
}

/// The error with its position first, as in the errors of other files.
#[expect(clippy::needless_pass_by_value, reason = "a function for map_err")]
fn describe(error: ParseError) -> String {
    format!("line {}, column {}: {}", error.line_display(), error.column_display(), error.kind())
}

fn put(object: &CstObject, path: &[&str], value: &Value) {
    match path {
        [] => {}
        [name] => match object.get(name) {
            Some(member) => member.set_value(input(value)),
            None => {
                object.append(name, input(value));
            }
        },
        [name, rest @ ..] => {
            if let Some(inner) = object.object_value_or_create(name) {
                put(&inner, rest, value);
            }
        }
    }
}

fn remove(object: &CstObject, path: &[&str]) {
    let Some((name, rest)) = path.split_first() else { return };
    if let (Some(inner), false) = (object.object_value(name), rest.is_empty()) {
        remove(&inner, rest);
        if !inner.properties().is_empty() {
            return;
        }
    }
    if let Some(member) = object.get(name) {
        member.remove();
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

/// The values with the member at a path set or removed; `None` if a member on the way is not an object.
fn expected(mut values: Value, path: &[&str], value: Option<&Value>) -> Option<Value> {
    let members = values.as_object_mut()?;
    let (name, rest) = path.split_first()?;
    let inner = match (rest, value) {
        ([], value) => value.cloned(),
        (rest, Some(_)) => {
            let inner = members.get(*name).cloned().unwrap_or_else(|| json!({}));
            Some(expected(inner, rest, value)?)
        }
        (rest, None) => match members.get(*name).cloned() {
            Some(inner) => Some(expected(inner, rest, value)?).filter(|inner| *inner != json!({})),
            None => None,
        },
    };
    match inner {
        Some(inner) => drop(members.insert((*name).to_owned(), inner)),
        None => drop(members.remove(*name)),
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> String {
        let (path, entry) = (["mcpServers", "rex"], json!({ "command": "/bin/rex" }));
        let changed = with(text, &path, Some(&entry)).unwrap();
        assert_eq!(with(&changed, &path, Some(&entry)).unwrap(), changed);
        changed
    }

    #[test]
    fn everything_else_stays_as_it_was_written() {
        let text = "{\n    // mine\n    \"b\": 1,\n    \"mcpServers\": {\n        \"x\": { \"command\": \"y\" } // last\n    },\n    \"a\": 2\n}\n";
        let expected = "{\n    // mine\n    \"b\": 1,\n    \"mcpServers\": {\n        \"x\": { \"command\": \"y\" }, // last\n        \"rex\": {\n            \"command\": \"/bin/rex\"\n        }\n    },\n    \"a\": 2\n}\n";
        assert_eq!(set(text), expected);
    }

    #[test]
    fn a_missing_section_is_created() {
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
            let after = parse(&set(text)).unwrap();
            assert_eq!(after["mcpServers"]["rex"]["command"], "/bin/rex", "{text}");
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
    fn an_entry_is_removed_with_the_objects_that_it_leaves_empty() {
        let text = "{\n  // mine\n  \"a\": 1\n}\n";
        let with_entry = set(text);
        let without = with(&with_entry, &["mcpServers", "rex"], None).unwrap();
        assert_eq!(parse(&without).unwrap(), json!({ "a": 1 }));
        assert!(without.contains("// mine"), "{without}");
        assert_eq!(with(&without, &["mcpServers", "rex"], None).unwrap(), without);
        let other = "{ \"mcpServers\": { \"x\": {}, \"rex\": {} } }";
        let left = with(other, &["mcpServers", "rex"], None).unwrap();
        assert_eq!(parse(&left).unwrap(), json!({ "mcpServers": { "x": {} } }));
    }

    #[test]
    fn a_file_of_another_structure_is_refused() {
        for text in
            ["[]", "{\"mcpServers\": []}", "{\"mcpServers\": ", "{\"mcpServers\": {}, \"mcpServers\": 5}"]
        {
            assert!(with(text, &["mcpServers", "rex"], Some(&json!({}))).is_err(), "{text}");
        }
    }

    #[test]
    fn comments_and_trailing_commas_are_accepted_and_an_error_has_its_line() {
        let text = "// a\n{ \"a\": [1, 2, ], /* b */ \"b\": { \"c\": \"x // y\", }, }\n// end";
        assert_eq!(parse(text).unwrap(), json!({ "a": [1, 2], "b": { "c": "x // y" } }));
        for (text, position) in [
            ("{\n  \"a\": 1\n  \"b\": 2\n}", "line 2, column 9: "),
            ("{ \"a\": { \"b\": 1 ", "line 1, column 17: "),
            ("{ \"a\": \"x\n\" }", "line 1, column 8: "),
            ("{ a: 1 }", "line 1, column 3: "),
            ("{} x", "line 1, column 4: "),
            ("/* x", "line 1, column 1: "),
            ("{ \"a\": tru }", "line 1, column 8: "),
            ("[1 2]", "line 1, column 3: "),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.starts_with(position), "{text:?}: {problem}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
