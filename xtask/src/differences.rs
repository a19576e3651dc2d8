//! The page of differences between `rexd exec-server` and the released servers, from the table that a test checks.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use crate::tree::root;

/// The path of the page.
pub(crate) const PAGE: &str = "docs/reference/exec-server-differences.md";
const TABLE: &str = "spec/exec-server-v1/differences.toml";
const RELEASES: [&str; 2] = ["0.131.0", "0.166.0"];

/// Generates the text of the page.
pub(crate) fn page() -> Result<String> {
    let table = fs::read_to_string(root().join(TABLE)).context(TABLE)?;
    let table: toml::Table = table.parse().context(TABLE)?;
    let mut text = format!(
        "# exec-server: differences from the released servers\n\nWritten by `cargo xtask generate` from `{TABLE}`; do not \
         edit. A test sends the same requests to `rexd exec-server` and to `codex exec-server` of each release; \
         `crates/daemon/tests/exec_server_differences.rs` fails for a difference that is not listed and for a \
         listed one that no longer exists.\n\n| difference | from | reason |\n|---|---|---|\n"
    );
    for entry in table.get("difference").and_then(toml::Value::as_array).context("no differences")? {
        let text_of = |name: &str| {
            entry.get(name).and_then(toml::Value::as_str).with_context(|| format!("{name}: {entry}"))
        };
        let seen = entry.get("seen").and_then(toml::Value::as_array).context("seen")?;
        let occurs_in =
            |start: &str| seen.iter().filter_map(toml::Value::as_str).any(|line| line.starts_with(start));
        let from = RELEASES.into_iter().filter(|release| occurs_in(release) || occurs_in("0.1*"));
        let from: Vec<&str> = from.collect();
        writeln!(text, "| {} | {} | {} |", text_of("what")?, from.join(", "), text_of("reason")?)?;
    }
    Ok(text)
}
