//! `rex target add`: remembers a target under an alias.

use std::path::{Path, PathBuf};

use client::Target;
use client::target::SshTarget;
use serde_json::{Value, json};

use super::registry_file;
use crate::args::TargetAdd;
use crate::failure::{Failure, Status};
use crate::output;
use crate::route::registry::Ordered;
use crate::route::{Places, Registry};

/// What says where a target is and how to get in; a new place replaces all of it.
const PLACE_FIELDS: [&str; 15] = [
    "transport",
    "host",
    "user",
    "port",
    "identityFile",
    "sshOptions",
    "command",
    "homeDir",
    "path",
    "url",
    "token",
    "tokenFile",
    "caFile",
    "certFile",
    "keyFile",
];

type Fields = Vec<(&'static str, Value)>;

pub(super) fn run(json: bool, ask: &TargetAdd) -> Result<Status, Failure> {
    check_alias(&ask.alias)?;
    let target: Target = ask.place.parse().map_err(|error: client::target::ParseTargetError| {
        Failure::new(error.to_string()).hint(format!("rex target add {} ssh:[USER@]HOST[:PORT]", ask.alias))
    })?;
    let fields = fields(&target, ask)?;
    let mode = if ask.force { Mode::Replace } else { Mode::New };
    store(&registry_file(&Places::from_environment())?, &ask.alias, &fields, mode)?;
    if let Some(file) = ask.token_file.as_deref().filter(|file| !file.starts_with("~") && !file.exists()) {
        output::remark(format_args!(
            "{} is not there yet: put the token of that daemon into it",
            file.display()
        ));
    }
    match json {
        true => output::json_line(&json!({ "alias": ask.alias, "target": target.to_string() }))?,
        false => output::line(format_args!("{}  {target}   (rex target test {0} tries it)", ask.alias))?,
    }
    Ok(Status::OK)
}

/// What may be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing may be there.
    New,
    /// The place is replaced, and what is said about it otherwise stays.
    Replace,
    /// Only these fields are set.
    Amend,
}

/// Writes the fields of an alias into the registry.
pub(super) fn store(file: &Path, alias: &str, fields: &Fields, mode: Mode) -> Result<(), Failure> {
    Registry::change(file, |registry| {
        if mode == Mode::New && registry.has(alias) {
            let stands = match registry.entry(alias) {
                Some(Ok(entry)) => format!(" for {}", entry.target),
                _ => String::new(),
            };
            return Err(Failure::new(format!("the alias `{alias}` is taken{stands}"))
                .hint("--force replaces it; rex target remove forgets it; another name keeps both"));
        }
        let mut present: Ordered = registry.fields(alias).unwrap_or_default();
        if mode == Mode::Replace {
            PLACE_FIELDS.iter().for_each(|name| {
                present.remove(name);
            });
        }
        for (name, value) in fields {
            present.set(name, &value.to_string());
        }
        registry.set(alias, &present);
        Ok(())
    })
}

/// An alias must not look like a path, a target or an option.
pub(super) fn check_alias(alias: &str) -> Result<(), Failure> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/:'\"\\".contains(c);
    if alias.is_empty() || alias.contains(is_odd) || alias.starts_with(['-', '.', '~']) || alias == "local" {
        let what =
            format!("`{alias}` cannot be an alias: it must not look like a path, a target or an option");
        return Err(Failure::new(what).hint("use letters, digits, `-` and `_`, such as build-1"));
    }
    Ok(())
}

/// The fields that a target has in the registry.
fn fields(target: &Target, ask: &TargetAdd) -> Result<Fields, Failure> {
    let is_ssh = matches!(target, Target::Ssh(_));
    if !is_ssh && (ask.identity.is_some() || !ask.ssh_options.is_empty() || ask.command.is_some()) {
        return Err(Failure::new(format!(
            "--identity, --ssh-option and --command are for ssh, and {target} is not"
        )));
    }
    let is_url = matches!(target, Target::Url(_) | Target::ExecServer(_));
    if !is_url && (ask.token_file.is_some() || ask.ca_file.is_some() || ask.cert_file.is_some()) {
        return Err(Failure::new(format!(
            "tokens and certificates are for http(s), ws(s) and codex, and {target} is none of them"
        )));
    }
    let mut fields = place_fields(target)?;
    if let Some(file) = &ask.identity {
        fields.push(("identityFile", file_field(file)?));
    }
    if !ask.ssh_options.is_empty() {
        fields.push(("sshOptions", json!(ssh_options(&ask.ssh_options))));
    }
    if let Some(line) = &ask.command {
        fields.push(("command", json!(line)));
    }
    let files = [
        ("tokenFile", &ask.token_file),
        ("caFile", &ask.ca_file),
        ("certFile", &ask.cert_file),
        ("keyFile", &ask.key_file),
    ];
    for (name, file) in files {
        if let Some(file) = file {
            fields.push((name, file_field(file)?));
        }
    }
    if !ask.roots.is_empty() {
        fields.push(("workspaceRoots", json!(ask.roots)));
    }
    if let Some(cwd) = &ask.cwd {
        fields.push(("defaultCwd", json!(cwd)));
    }
    if !ask.prefixes.is_empty() {
        let prefixes = ask.prefixes.iter().map(|text| prefix(text)).collect::<Result<Vec<_>, _>>()?;
        fields.push(("pathPrefixes", json!(prefixes)));
    }
    Ok(fields)
}

/// The fields that say where a target is.
pub(super) fn place_fields(target: &Target) -> Result<Fields, Failure> {
    Ok(match target {
        Target::Local(_) => vec![("transport", json!("local"))],
        Target::Ssh(ssh) => ssh_fields(ssh),
        Target::Unix(path) => vec![("transport", json!("unix")), ("path", file_field(path)?)],
        Target::Url(url) => {
            let transport = if url.scheme.is_http() { "http" } else { "ws" };
            vec![("transport", json!(transport)), ("url", json!(url.to_text()))]
        }
        Target::ExecServer(url) => vec![("transport", json!("codex")), ("url", json!(url.to_text()))],
    })
}

fn ssh_fields(ssh: &SshTarget) -> Fields {
    let mut fields = vec![("transport", json!("ssh")), ("host", json!(ssh.host))];
    fields.extend(ssh.user.as_ref().map(|user| ("user", json!(user))));
    fields.extend(ssh.port.map(|port| ("port", json!(port))));
    fields.extend(ssh.identity.as_ref().map(|file| ("identityFile", json!(file))));
    if !ssh.options.is_empty() {
        fields.push(("sshOptions", json!(ssh.options)));
    }
    fields
}

/// Options as ssh takes them: `Port=22` is what follows `-o`.
fn ssh_options(options: &[String]) -> Vec<String> {
    let mut arguments = Vec::new();
    for option in options {
        if !option.starts_with('-') {
            arguments.push("-o".to_owned());
        }
        arguments.push(option.clone());
    }
    arguments
}

/// A file here, so that it is found from everywhere.
fn file_field(file: &Path) -> Result<Value, Failure> {
    let file = match file.starts_with("~") {
        true => file.to_owned(),
        false => std::path::absolute(file)?,
    };
    match file.to_str() {
        Some(text) => Ok(json!(text)),
        None => Err(Failure::new(format!("{} has no UTF-8 name, which JSON needs", file.display()))),
    }
}

/// `DIR` or `DIR=THERE`.
fn prefix(text: &str) -> Result<Value, Failure> {
    let (from, to) = match text.rsplit_once("=/") {
        Some((from, to)) => (from, Some(format!("/{to}"))),
        None => (text, None),
    };
    let from = PathBuf::from(from);
    // The kernel tells the current directory without links, so that is how it is compared.
    let from = file_field(&std::fs::canonicalize(&from).unwrap_or(from))?;
    Ok(match to {
        Some(to) => json!({ "from": from, "to": to }),
        None => from,
    })
}
