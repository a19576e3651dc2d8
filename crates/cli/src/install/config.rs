//! The config of rexd on another machine: written by `rex target install`, or extended.

use crate::failure::Failure;

/// The planned change of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigChange {
    /// None: all roots are allowed already.
    Nothing,
    /// Write a new file.
    Write(String),
    /// Append these lines; `whole` is the resulting file.
    Add { lines: String, whole: String },
}

/// Plans the change that allows the roots; `present` is the existing file.
pub(crate) fn change(present: Option<&str>, roots: &[String], file: &str) -> Result<ConfigChange, Failure> {
    let Some(present) = present else {
        return match roots.is_empty() {
            true => Err(Failure::new("no root to allow: pass --root, because the machine has no config yet")
                .hint("--root DIR allows access to a directory")),
            false => Ok(ConfigChange::Write(new_config(roots))),
        };
    };
    let broken = |problem: &str| {
        Failure::new(format!("invalid config {file} on the machine: {problem}"))
            .hint("fix it on the machine; `rexd check-config` checks it")
    };
    let allowed = allowed_roots(present).map_err(|problem| broken(&problem))?;
    let missing: Vec<&String> = roots.iter().filter(|root| !allowed.contains(root)).collect();
    if missing.is_empty() {
        return Ok(ConfigChange::Nothing);
    }
    let lines: String = missing.iter().map(|root| root_lines(root)).collect();
    let whole = match present.is_empty() || present.ends_with('\n') {
        true => format!("{present}{lines}"),
        false => format!("{present}\n{lines}"),
    };
    // A table can be appended only if the file writes its roots as tables.
    match allowed_roots(&whole) {
        Ok(then) if then.len() == allowed.len() + missing.len() => Ok(ConfigChange::Add { lines, whole }),
        _ => {
            let names = missing.iter().map(|root| root.as_str()).collect::<Vec<_>>().join(", ");
            Err(Failure::new(format!(
                "cannot add {names} to {file}: its roots are not [[security.allowed_roots]] tables"
            ))
            .hint("add the roots to the file by hand"))
        }
    }
}

/// A config that allows only the roots and sets no limits except counts.
fn new_config(roots: &[String]) -> String {
    let head = "\
# Written by `rex target install`. Every key: docs/config.example.toml

[limits]                              # 0 = none
default_timeout_ms = 0
hard_timeout_ms = 0
max_output_bytes = 0
hard_output_bytes = 0
max_file_read_bytes = 67108864
max_processes_per_session = 1024
max_concurrent_sessions = 1024
";
    let roots: String = roots.iter().map(|root| root_lines(root)).collect();
    format!("{head}{roots}")
}

fn root_lines(root: &str) -> String {
    format!("\n[[security.allowed_roots]]\npath = {}\n", toml::Value::from(root))
}

/// The roots that a config allows.
fn allowed_roots(text: &str) -> Result<Vec<String>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error
            .span()
            .and_then(|span| text.get(..span.start))
            .map_or(1, |before| before.matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    let Some(roots) = table.get("security").and_then(|security| security.get("allowed_roots")) else {
        return Ok(Vec::new());
    };
    let roots = roots.as_array().ok_or("security.allowed_roots is not a list")?;
    let path = |root: &toml::Value| root.get("path").and_then(toml::Value::as_str).map(str::to_owned);
    roots.iter().map(|root| path(root).ok_or_else(|| "a root has no `path`".to_owned())).collect()
}
