//! Generated files: reference pages, the schema next to the spec, the description of the hub's API, manual pages and completions, the bindings of the
//! relay's frames, and the web application.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::json;
use wire::rexd::v1::{METHODS, Origin, PROTOCOL, codes};

use crate::command_line;
use crate::differences;
use crate::reference;
use crate::relay;
use crate::tree::root;
use crate::web;

/// Whether to write the files or only compare them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Write,
    Check,
}

/// Writes every generated file, or fails if one would change.
pub(crate) fn run(mode: Mode) -> Result<()> {
    let mut stale = Vec::new();
    for (path, text) in files()? {
        let target = root().join(&path);
        if fs::read_to_string(&target).is_ok_and(|present| present == text) {
            continue;
        }
        if mode == Mode::Check {
            stale.push(path);
            continue;
        }
        if let Some(directory) = target.parent() {
            fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        }
        fs::write(&target, text).with_context(|| path.clone())?;
    }
    for path in command_line::stale_pages()? {
        match mode {
            Mode::Check => stale.push(path),
            Mode::Write => fs::remove_file(root().join(&path)).with_context(|| path.clone())?,
        }
    }
    match mode {
        Mode::Check => stale.extend(web::stale()?),
        Mode::Write => web::generate()?,
    }
    match stale.is_empty() {
        true => Ok(()),
        false => {
            bail!("generated files are out of date: {}\nhint: run `cargo xtask generate`", stale.join(", "))
        }
    }
}

fn files() -> Result<Vec<(String, String)>> {
    let mut files = command_line::files()?;
    files.append(&mut reference::files()?);
    files.push((differences::PAGE.to_owned(), differences::page()?));
    files.push((relay::BINDINGS.to_owned(), relay::bindings()?));
    files.push(("spec/rexd-v1/schema.json".to_owned(), schema()?));
    let openapi = serde_json::to_string_pretty(&hub::openapi())? + "\n";
    files.push(("spec/hub-v1/openapi.json".to_owned(), openapi));
    Ok(files)
}

fn schema() -> Result<String> {
    let methods: Vec<_> = METHODS
        .iter()
        .map(|info| {
            json!({
                "name": info.name,
                "changes": info.changes,
                "addition": info.origin == Origin::Addition,
                "params": (info.params)(),
                "secret_params": info.secrets().collect::<Vec<_>>(),
                "result": (info.result)(),
            })
        })
        .collect();
    let codes: Vec<_> =
        codes::ALL.iter().map(|code| json!({ "code": code, "name": codes::name(*code) })).collect();
    let schema = json!({ "protocol": PROTOCOL, "methods": methods, "errors": codes });
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARCHITECTURE.md, invariant 54.
    #[test]
    fn generated_files_are_up_to_date() {
        run(Mode::Check).unwrap();
    }
}
