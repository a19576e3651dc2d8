//! `rex mcp install`: shows an agent program's configuration with the tools in it, and writes it.

mod clients;
mod jsonc;
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

/// How it is done.
#[derive(Debug, Clone, Default)]
pub struct InstallOptions {
    /// In the project here, not for the user.
    pub project: bool,
    /// Without approval_prompt.
    pub yes: bool,
    /// Only show it.
    pub dry_run: bool,
    /// Say what was done as one line of JSON.
    pub json: bool,
    /// The target the server is to work on, if it is not to follow the rules.
    pub target: Option<String>,
}

/// Shows the change, and makes it if it is wanted.
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
        return output::line(format_args!("{} has it already: nothing to change", place.file.display()));
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
        return Err(Failure::new("nothing was written").status(1));
    }
    write::replace(&place.file, &after)?;
    if options.json {
        return done(true, true);
    }
    output::line(format_args!("wrote {}", place.file.display()))
}

/// The file with the tools in it, everything else as it was.
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
            McpClient::Codex => "mend it, then try again".to_owned(),
            _ => format!("mend it, then try again; or put this in by hand: {snippet}"),
        };
        Failure::new(format!("{}: {problem}", place.file.display())).hint(hint)
    })
}

/// Our own program, by its absolute path.
fn program() -> Result<String, Failure> {
    let path = std::env::current_exe()?;
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(Failure::new(format!("{} cannot be written into a configuration", path.display()))),
    }
}

fn show(file: &Path, before: Option<&str>, after: &str) -> Result<(), Failure> {
    let name = file.display().to_string();
    let was = if before.is_some() { name.as_str() } else { "/dev/null" };
    let diff = TextDiff::from_lines(before.unwrap_or_default(), after);
    output::write_out(diff.unified_diff().header(was, &name).to_string().as_bytes())
}

fn is_wanted(file: &Path) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(format!("{} was not written: nobody is here to say yes", file.display()))
            .hint("--yes writes without approval_prompt, --dry-run only shows"));
    }
    // Nobody is left to ask if stderr is gone.
    write!(std::io::stderr(), "write this to {}? [y/N] ", file.display()).ok();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
