//! Sets one table of a TOML file and keeps everything else unchanged.

use toml_edit::{Array, DocumentMut, Item, Table, value};

/// The text with `[section.rex]` set.
pub(super) fn with(text: &str, section: &str, command: &str, arguments: &[String]) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let servers = document.entry(section).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let Some(servers) = servers.as_table_like_mut() else {
        return Err(format!("`{section}` is not a table"));
    };
    let arguments: Array = arguments.iter().map(String::as_str).collect();
    let server = servers.entry("rex").or_insert_with(|| Item::Table(Table::new()));
    let Some(server) = server.as_table_like_mut() else {
        return Err(format!("`{section}.rex` is not a table"));
    };
    let is_set = server.get("command").and_then(Item::as_str) == Some(command)
        && server.get("args").and_then(Item::as_array).is_some_and(|old| is_same(old, &arguments));
    if !is_set {
        server.insert("command", value(command));
        server.insert("args", value(arguments));
    }
    Ok(document.to_string())
}

fn is_same(old: &Array, new: &Array) -> bool {
    let texts = |array: &Array| array.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>();
    texts(old) == texts(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_else_is_unchanged_and_a_second_time_changes_nothing() {
        let text = "# mine\nmodel = \"x\" # here\n\n[mcp_servers.other]\ncommand = \"y\"\n";
        let once = with(text, "mcp_servers", "/bin/rex", &["mcp".to_owned()]).unwrap();
        assert!(once.starts_with(text), "{once}");
        assert!(once.contains("[mcp_servers.rex]\ncommand = \"/bin/rex\"\nargs = [\"mcp\"]"), "{once}");
        assert_eq!(with(&once, "mcp_servers", "/bin/rex", &["mcp".to_owned()]).unwrap(), once);
        assert!(with("", "mcp_servers", "/bin/rex", &[]).unwrap().starts_with("[mcp_servers.rex]"));
    }

    #[test]
    fn an_invalid_file_is_reported_with_the_line() {
        let problem = with("a = 1\nb = \n", "mcp_servers", "x", &[]).unwrap_err();
        assert!(problem.contains("line 2"), "{problem}");
        assert!(with("mcp_servers = 1", "mcp_servers", "x", &[]).is_err());
    }
}
