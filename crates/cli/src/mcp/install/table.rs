//! Sets one value of a TOML file and keeps everything else unchanged.

use serde_json::{Value, json};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike};

/// The text with the value at a path set, or without it. An object becomes a table; tables that the removal leaves empty are
/// removed too.
pub(super) fn with(text: &str, path: &[&str], value: Option<&Value>) -> Result<String, String> {
    let mut document = parse(text)?;
    match value {
        Some(value) => put(document.as_table_mut(), path, value)?,
        None => remove(document.as_table_mut(), path),
    }
    Ok(document.to_string())
}

/// The values of a file that can be set here: strings, booleans and integers, in arrays and tables.
pub(super) fn values(text: &str) -> Result<Value, String> {
    let document = parse(text)?;
    Ok(of_table(document.as_table()))
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| error.to_string())
}

fn put(table: &mut dyn TableLike, path: &[&str], value: &Value) -> Result<(), String> {
    match path {
        [] => Ok(()),
        [name] => match value {
            Value::Object(members) => {
                members.iter().try_for_each(|(member, value)| put(table, &[name, member], value))
            }
            _ if table.get(name).map(of_item).as_ref() == Some(value) => Ok(()),
            _ => {
                table.insert(name, item(value)?);
                Ok(())
            }
        },
        [name, rest @ ..] => {
            let inner = table.entry(name).or_insert_with(|| {
                let mut table = Table::new();
                // A table that only contains tables needs no header.
                table.set_implicit(rest.len() > 1 || value.is_object());
                Item::Table(table)
            });
            match inner.as_table_like_mut() {
                Some(inner) => put(inner, rest, value),
                None => Err(format!("`{name}` is not a table")),
            }
        }
    }
}

fn remove(table: &mut dyn TableLike, path: &[&str]) {
    let Some((name, rest)) = path.split_first() else { return };
    let inner = table.get_mut(name).and_then(Item::as_table_like_mut);
    if let (Some(inner), false) = (inner, rest.is_empty()) {
        remove(inner, rest);
        if !inner.is_empty() {
            return;
        }
    }
    table.remove(name);
}

fn item(value: &Value) -> Result<Item, String> {
    match value {
        Value::Bool(flag) => Ok(toml_edit::value(*flag)),
        Value::String(text) => Ok(toml_edit::value(text.as_str())),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            Ok(toml_edit::value(items.iter().filter_map(Value::as_str).collect::<Array>()))
        }
        other => Err(format!("{other} cannot be written as TOML")),
    }
}

fn of_table(table: &dyn TableLike) -> Value {
    table.iter().map(|(name, item)| (name.to_owned(), of_item(item))).collect()
}

fn of_item(item: &Item) -> Value {
    match item.as_table_like() {
        Some(table) => of_table(table),
        None => item.as_value().map_or(Value::Null, of_value),
    }
}

fn of_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => json!(text.value()),
        toml_edit::Value::Boolean(flag) => json!(flag.value()),
        toml_edit::Value::Integer(number) => json!(number.value()),
        toml_edit::Value::Array(items) => items.iter().map(of_value).collect(),
        toml_edit::Value::InlineTable(table) => of_table(table),
        toml_edit::Value::Float(_) | toml_edit::Value::Datetime(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_server(text: &str) -> Result<String, String> {
        with(text, &["mcp_servers", "rex"], Some(&json!({ "command": "/bin/rex", "args": ["mcp"] })))
    }

    #[test]
    fn everything_else_is_unchanged_and_a_second_time_changes_nothing() {
        let text = "# mine\nmodel = \"x\" # here\n\n[mcp_servers.other]\ncommand = \"y\"\n";
        let once = with_server(text).unwrap();
        assert!(once.starts_with(text), "{once}");
        let entry = &once[text.len()..];
        assert!(entry.contains("[mcp_servers.rex]\n") && entry.contains("command = \"/bin/rex\""), "{once}");
        assert!(entry.contains("args = [\"mcp\"]"), "{once}");
        assert_eq!(with_server(&once).unwrap(), once);
        assert!(with_server("").unwrap().starts_with("[mcp_servers.rex]"));
        assert_eq!(with(&once, &["mcp_servers", "rex"], None).unwrap().trim_end(), text.trim_end());
        assert_eq!(with(text, &["mcp_servers", "rex"], None).unwrap(), text);
    }

    #[test]
    fn an_invalid_file_is_reported_with_the_line() {
        let problem = with_server("a = 1\nb = \n").unwrap_err();
        assert!(problem.contains("line 2"), "{problem}");
        assert!(with_server("mcp_servers = 1").is_err());
    }
}
