//! `rex mcp install`: adds the server to the configuration of an agent.

mod clients;
mod member;
mod table;
mod write;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use serde_json::json;
use similar::TextDiff;

use self::clients::{ClientConfigFile, ServerEntry};
use crate::args::McpClient;
use crate::failure::Failure;
use crate::output;

/// The options of `rex mcp install`.
#[derive(Debug, Clone, Default)]
pub struct InstallOptions {
    /// Change the configuration of the current project instead of the user's.
    pub project: bool,
    /// Write without a prompt.
    pub yes: bool,
    /// Show the change without writing it.
    pub dry_run: bool,
    /// Print the result as one line of JSON.
    pub json: bool,
    /// The target of the server; without it, the server follows the routing rules.
    pub target: Option<String>,
}

/// Shows the change and writes it if the user agrees.
pub fn run(client: McpClient, options: &InstallOptions) -> Result<(), Failure> {
    let place = ClientConfigFile::of(client, options.project)?;
    let entry = ServerEntry { program: program()?, target: options.target.clone() };
    let before = write::read(&place.file)?;
    let after = changed(client, &place, &entry, before.as_deref().unwrap_or_default())?;
    let done = |changed: bool, written: bool| {
        output::json_line(&json!({ "file": place.file, "changed": changed, "written": written }))
    };
    if before.as_deref() == Some(after.as_str()) {
        if options.json {
            return done(false, false);
        }
        return output::line(format_args!("{} is up to date", place.file.display()));
    }
    if !options.json {
        show(&place.file, before.as_deref(), &after)?;
    }
    match (options.dry_run, options.json) {
        (true, true) => return done(true, false),
        (true, false) => return Ok(()),
        (false, _) => {}
    }
    if !options.yes && !is_wanted(&place.file)? {
        return Err(Failure::new("cancelled; nothing was written").status(1));
    }
    write::replace(&place.file, &after)?;
    if options.json {
        return done(true, true);
    }
    output::line(format_args!("wrote {}", place.file.display()))
}

/// The file with the server added and everything else unchanged.
fn changed(
    client: McpClient,
    place: &ClientConfigFile,
    entry: &ServerEntry,
    before: &str,
) -> Result<String, Failure> {
    let done = match client {
        McpClient::Codex => table::with(before, place.section, &entry.command(), &entry.arguments()),
        _ => member::with(before, place.section, "rex", &entry.to_json(client)),
    };
    done.map_err(|problem| {
        let snippet = member::snippet(place.section, "rex", &entry.to_json(client));
        let hint = match client {
            McpClient::Codex => "fix the file and try again".to_owned(),
            _ => format!("fix the file and try again, or add this by hand: {snippet}"),
        };
        Failure::new(format!("{}: {problem}", place.file.display())).hint(hint)
    })
}

/// The absolute path of this program.
fn program() -> Result<String, Failure> {
    let path = std::env::current_exe()?;
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(Failure::new(format!(
            "cannot write the path {} to a configuration: it is not UTF-8",
            path.display()
        ))),
    }
}

fn show(file: &Path, before: Option<&str>, after: &str) -> Result<(), Failure> {
    let name = file.display().to_string();
    let was = if before.is_some() { name.as_str() } else { "/dev/null" };
    let diff = TextDiff::from_lines(before.unwrap_or_default(), after);
    output::print(&diff.unified_diff().header(was, &name).to_string())
}

fn is_wanted(file: &Path) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(format!("cannot confirm the change of {}: no terminal", file.display()))
            .hint("pass --yes to write without a prompt, or --dry-run to show the change"));
    }
    // If stderr is closed, the prompt is lost and the answer is still read.
    write!(std::io::stderr(), "write {}? [y/N] ", file.display()).ok();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
