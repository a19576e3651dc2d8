//! `rex mcp install` and `rex mcp uninstall`: change the configuration of an agent.

mod change;
mod clients;
mod member;
mod record;
mod table;
mod write;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use similar::TextDiff;

use self::change::{AppliedSetting, ConfigFile};
use self::clients::{ClientConfigFile, ServerEntry};
use self::record::InstallRecord;
use crate::args::McpClient;
use crate::failure::Failure;
use crate::output;
use crate::route;

/// The options of `rex mcp install` and `rex mcp uninstall`.
#[derive(Debug, Clone, Default)]
pub struct InstallOptions {
    /// The name of the server in the configuration.
    pub name: String,
    /// Turn off the agent's own shell and file tools.
    pub only: bool,
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
    check_name(&options.name)?;
    if let Some(target) = &options.target {
        // An unknown alias would only be reported by the first call of a tool.
        route::current(Some(target))?;
    }
    let place = ClientConfigFile::of(client, options.project)?;
    let entry = ServerEntry { program: program()?, target: options.target.clone() }.to_json(client);
    let server = [place.section.to_owned(), options.name.clone()];
    let mut servers = ConfigFile::read(&place.file)?;
    servers
        .put(&server, Some(&entry))
        .map_err(|problem| by_hand(client, &place, &options.name, (&entry, &problem)))?;
    let mut files = vec![servers];
    let applied = match options.only {
        true => turn_off_own_tools(client, &place.file, &mut files)?,
        false => Vec::new(),
    };
    if !confirm(&files, options)? {
        return Ok(());
    }
    if let Some((file, wanted)) = clients::own_tools_off(client, &place.file).filter(|_| options.only) {
        let mut record = InstallRecord::read()?;
        // Written first: a setting without a record could not be undone.
        if record.add(key(client, &place.file, &options.name), (&file, &wanted), applied) {
            record.write()?;
        }
    }
    finish(&files, options)
}

/// Removes the server, and undoes the settings of `--only` that no other installation needs.
pub fn uninstall(client: McpClient, options: &InstallOptions) -> Result<(), Failure> {
    check_name(&options.name)?;
    let place = ClientConfigFile::of(client, options.project)?;
    let mut servers = ConfigFile::read(&place.file)?;
    let failed = |file: &Path, problem: String| {
        Failure::new(format!("{}: {problem}", file.display())).hint("fix the file and try again")
    };
    servers
        .put(&[place.section.to_owned(), options.name.clone()], None)
        .map_err(|problem| failed(&place.file, problem))?;
    let mut files = vec![servers];
    let mut record = InstallRecord::read()?;
    let settings = record.take(&key(client, &place.file, &options.name));
    for setting in settings.iter().filter(|setting| !record.contains(setting)) {
        let at = file_at(&mut files, setting.file())?;
        let Some(file) = files.get_mut(at) else { continue };
        file.undo(setting).map_err(|problem| failed(setting.file(), problem))?;
    }
    if !confirm(&files, options)? {
        return Ok(());
    }
    finish(&files, options)?;
    if settings.is_empty() { Ok(()) } else { record.write() }
}

/// Adds the settings that turn off the agent's own tools; returns those that were not set before.
fn turn_off_own_tools(
    client: McpClient,
    servers: &Path,
    files: &mut Vec<ConfigFile>,
) -> Result<Vec<AppliedSetting>, Failure> {
    let Some((file, settings)) = clients::own_tools_off(client, servers) else {
        output::note(format_args!(
            "{client:?} has no setting that turns off its own shell and file tools; turn them off in its interface"
        ));
        return Ok(Vec::new());
    };
    if let Some(tool) = clients::own_tool_left_on(client) {
        output::note(format_args!(
            "{client:?} has no setting that turns off `{tool}`, which it offers with some models; it changes files of this machine"
        ));
    }
    let at = file_at(files, &file)?;
    let Some(config) = files.get_mut(at) else { return Ok(Vec::new()) };
    let applied = settings.iter().map(|setting| config.set(setting)).collect::<Result<Vec<_>, _>>();
    let applied = applied.map_err(|problem| {
        Failure::new(format!("{}: {problem}", file.display()))
            .hint("fix the file and try again, or run without --only")
    })?;
    Ok(applied.into_iter().flatten().collect())
}

/// The position of a file among the changed ones; it is read if it is not there yet.
fn file_at(files: &mut Vec<ConfigFile>, file: &Path) -> Result<usize, Failure> {
    if let Some(at) = files.iter().position(|known| known.file == file) {
        return Ok(at);
    }
    files.push(ConfigFile::read(file)?);
    Ok(files.len() - 1)
}

/// Shows the changes and asks for confirmation. Whether to write them and the record, which may change alone.
fn confirm(files: &[ConfigFile], options: &InstallOptions) -> Result<bool, Failure> {
    let changed: Vec<&ConfigFile> = files.iter().filter(|file| file.is_changed()).collect();
    let Some(first) = files.first() else { return Ok(false) };
    match (options.json, changed.is_empty()) {
        (true, _) => {}
        (false, true) => output::line(format_args!("{} is up to date", first.file.display()))?,
        (false, false) => {
            changed.iter().try_for_each(|file| show(&file.file, file.before.as_deref(), &file.after))?;
        }
    }
    if options.dry_run {
        if options.json {
            report(files, false)?;
        }
        return Ok(false);
    }
    if changed.is_empty() {
        return Ok(true);
    }
    let names: Vec<_> = changed.iter().map(|file| file.file.display().to_string()).collect();
    if !options.yes && !is_wanted(&names.join(" and "))? {
        return Err(Failure::new("cancelled; nothing was written").status(1));
    }
    Ok(true)
}

/// Writes the changed files.
fn finish(files: &[ConfigFile], options: &InstallOptions) -> Result<(), Failure> {
    for file in files.iter().filter(|file| file.is_changed()) {
        write::replace(&file.file, &file.after)?;
        if !options.json {
            output::line(format_args!("wrote {}", file.file.display()))?;
        }
    }
    if options.json { report(files, true) } else { Ok(()) }
}

/// Prints the result as one line of JSON.
fn report(files: &[ConfigFile], written: bool) -> Result<(), Failure> {
    let all: Vec<&PathBuf> = files.iter().filter(|file| file.is_changed()).map(|file| &file.file).collect();
    let file = files.first().map(|file| &file.file);
    let changed = !all.is_empty();
    output::json_line(
        &json!({ "file": file, "files": all, "changed": changed, "written": written && changed }),
    )
}

/// The key of an installation in the record. Two clients may share a file.
fn key(client: McpClient, file: &Path, name: &str) -> String {
    format!("{client:?} {} {name}", file.display())
}

/// Refuses names that some agent does not accept.
fn check_name(name: &str) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match !name.is_empty() && name.len() <= 32 && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(Failure::new(format!("invalid server name `{name}`"))
            .hint("use up to 32 letters, digits, `-` and `_`")),
    }
}

/// The failure for a file that cannot be changed, with the entry to add by hand.
fn by_hand(
    client: McpClient,
    place: &ClientConfigFile,
    name: &str,
    (entry, problem): (&Value, &str),
) -> Failure {
    let hint = match client {
        McpClient::Codex => "fix the file and try again".to_owned(),
        _ => {
            let snippet = member::snippet(&[place.section, name], entry);
            format!("fix the file and try again, or add this by hand: {snippet}")
        }
    };
    Failure::new(format!("{}: {problem}", place.file.display())).hint(hint)
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

fn is_wanted(files: &str) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(format!("cannot confirm the change of {files}: no terminal"))
            .hint("pass --yes to write without a prompt, or --dry-run to show the change"));
    }
    // If stderr is closed, the prompt is lost and the answer is still read.
    write!(std::io::stderr(), "write {files}? [y/N] ").ok();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
