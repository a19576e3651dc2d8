//! `rex target add`: adds a target to the registry.

use std::path::{Path, PathBuf};

use client::Target;
use client::target::SshTarget;
use serde_json::{Value, json};

use super::registry_file;
use crate::args::TargetAddArgs;
use crate::failure::{CommandStatus, Failure};
use crate::hub::logins::hub_address;
use crate::output;
use crate::route::registry::RawObject;
use crate::route::{Paths, Registry};

/// The fields of an address and its credentials; a new address replaces all of them.
const ADDRESS_FIELDS: [&str; 16] = [
    "transport",
    "host",
    "user",
    "port",
    "identityFile",
    "sshOptions",
    "share",
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

pub(super) fn run(json: bool, args: &TargetAddArgs) -> Result<CommandStatus, Failure> {
    check_alias(&args.alias)?;
    let target: Target = args.address.parse().map_err(|error: client::target::ParseTargetError| {
        Failure::new(error.to_string()).hint(format!("rex target add {} ssh:[USER@]HOST[:PORT]", args.alias))
    })?;
    let fields = fields(&target, args)?;
    let mode = if args.force { StoreMode::Replace } else { StoreMode::New };
    store(&registry_file(&Paths::from_environment())?, &args.alias, &fields, mode)?;
    if let Some(file) = args.token_file.as_deref().filter(|file| !file.starts_with("~") && !file.exists()) {
        output::note(format_args!(
            "the token file {} does not exist yet: write the token of the daemon to it",
            file.display()
        ));
    }
    match json {
        true => output::json_line(&json!({ "alias": args.alias, "target": target.to_string() }))?,
        false => {
            output::line(format_args!("added {}  {target}   (`rex target test {0}` tests it)", args.alias))?
        }
    }
    Ok(CommandStatus::OK)
}

/// What happens to an existing entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreMode {
    /// An existing entry is an error.
    New,
    /// The address is replaced; other fields stay.
    Replace,
    /// Only the given fields are set.
    Amend,
}

/// Writes the fields of an alias to the registry.
pub(super) fn store(file: &Path, alias: &str, fields: &Fields, mode: StoreMode) -> Result<(), Failure> {
    Registry::change(file, |registry| {
        if mode == StoreMode::New && registry.has(alias) {
            let stands = match registry.entry(alias) {
                Some(Ok(entry)) => format!(": {}", entry.target),
                _ => String::new(),
            };
            return Err(Failure::new(format!("alias `{alias}` exists{stands}"))
                .hint("--force replaces it, `rex target remove` removes it"));
        }
        let mut present: RawObject = registry.fields(alias).unwrap_or_default();
        if mode == StoreMode::Replace {
            ADDRESS_FIELDS.iter().for_each(|name| {
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
        let what = format!("invalid alias `{alias}`: it must not look like a path, a target or an option");
        return Err(Failure::new(what).hint("use letters, digits, `-` and `_`, such as build-1"));
    }
    Ok(())
}

/// The registry fields for the arguments.
fn fields(target: &Target, args: &TargetAddArgs) -> Result<Fields, Failure> {
    let is_ssh = matches!(target, Target::Ssh(_));
    if !is_ssh && (args.identity.is_some() || !args.ssh_options.is_empty() || args.command.is_some()) {
        return Err(Failure::new(format!(
            "conflicting options: --identity, --ssh-option and --command need an ssh target, not {target}"
        )));
    }
    let is_hub = matches!(target, Target::Hub(_));
    if args.hub.is_some() && !is_hub {
        return Err(Failure::new(format!(
            "conflicting options: --hub needs the target hub:HOST, not {target}"
        )));
    }
    let is_url = matches!(target, Target::Url(_) | Target::ExecServer(_)) || (is_hub && args.hub.is_some());
    if !is_url && (args.token_file.is_some() || args.ca_file.is_some() || args.cert_file.is_some()) {
        return Err(Failure::new(format!(
            "conflicting options: tokens and certificates need an http(s), ws(s) or codex target, or hub:HOST with --hub, not {target}"
        )));
    }
    let mut fields = address_fields(target)?;
    if let Some(url) = &args.hub {
        fields.push(("url", json!(hub_address(url)?)));
    }
    if let Some(file) = &args.identity {
        fields.push(("identityFile", file_field(file)?));
    }
    if !args.ssh_options.is_empty() {
        fields.push(("sshOptions", json!(ssh_options(&args.ssh_options))));
    }
    if let Some(line) = &args.command {
        fields.push(("command", json!(line)));
    }
    let files = [
        ("tokenFile", &args.token_file),
        ("caFile", &args.ca_file),
        ("certFile", &args.cert_file),
        ("keyFile", &args.key_file),
    ];
    for (name, file) in files {
        if let Some(file) = file {
            fields.push((name, file_field(file)?));
        }
    }
    if !args.roots.is_empty() {
        fields.push(("workspaceRoots", json!(args.roots)));
    }
    if let Some(cwd) = &args.cwd {
        fields.push(("defaultCwd", json!(cwd)));
    }
    if !args.prefixes.is_empty() {
        let prefixes = args.prefixes.iter().map(|text| prefix(text)).collect::<Result<Vec<_>, _>>()?;
        fields.push(("pathPrefixes", json!(prefixes)));
    }
    Ok(fields)
}

/// The registry fields of an address.
pub(super) fn address_fields(target: &Target) -> Result<Fields, Failure> {
    Ok(match target {
        Target::Local(_) => vec![("transport", json!("local"))],
        Target::Ssh(ssh) => ssh_fields(ssh),
        Target::Unix(path) => vec![("transport", json!("unix")), ("path", file_field(path)?)],
        Target::Url(url) => {
            let transport = if url.scheme.is_http() { "http" } else { "ws" };
            vec![("transport", json!(transport)), ("url", json!(url.to_text()))]
        }
        Target::ExecServer(url) => vec![("transport", json!("codex")), ("url", json!(url.to_text()))],
        Target::Hub(hub) => {
            let host = hub.host.as_ref().map(|host| ("host", json!(host)));
            std::iter::once(("transport", json!("hub"))).chain(host).collect()
        }
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

/// SessionOptions as arguments of ssh: `Port=22` becomes `-o Port=22`.
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

/// A local path, made absolute so that it is valid in every directory.
fn file_field(file: &Path) -> Result<Value, Failure> {
    let file = match file.starts_with("~") {
        true => file.to_owned(),
        false => std::path::absolute(file)?,
    };
    match file.to_str() {
        Some(text) => Ok(json!(text)),
        None => Err(Failure::new(format!("cannot store {}: its name is not UTF-8", file.display()))),
    }
}

/// Parses `DIR` or `DIR=REMOTE`.
fn prefix(text: &str) -> Result<Value, Failure> {
    let (from, to) = match text.rsplit_once("=/") {
        Some((from, to)) => (from, Some(format!("/{to}"))),
        None => (text, None),
    };
    let from = PathBuf::from(from);
    // The kernel reports the current directory without symbolic links, and prefixes are compared with that.
    let from = file_field(&std::fs::canonicalize(&from).unwrap_or(from))?;
    Ok(match to {
        Some(to) => json!({ "from": from, "to": to }),
        None => from,
    })
}
