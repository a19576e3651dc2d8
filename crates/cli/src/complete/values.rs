//! The values of arguments: what kind each argument has, and the candidates of that kind.

use clap::Arg;

use super::line::TypedLine;
use super::lookup::Lookup;

/// The kinds of values that can be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// A target for `-t`.
    Target,
    /// An alias of the registry.
    Alias,
    /// A process, running or ended.
    Process,
    /// A path on the target.
    RemotePath,
    /// A local path, or a path on a target with its alias.
    CopyPath,
    Other,
}

/// The candidates for a value that begins with `typed`.
pub(super) fn of(
    command: &str,
    arg: &Arg,
    line: &TypedLine<'_>,
    typed: &str,
    lookup: &Lookup,
) -> Vec<String> {
    let fixed = arg.get_possible_values();
    if !fixed.is_empty() && arg.get_action().takes_values() {
        return fixed.iter().map(|value| value.get_name().to_owned()).collect();
    }
    match kind(command, arg.get_id().as_str(), line.positionals) {
        ValueKind::Target => lookup.aliases().into_iter().chain(["local".to_owned()]).collect(),
        ValueKind::Alias => lookup.aliases(),
        ValueKind::Process => lookup.processes(),
        ValueKind::RemotePath => with_aliases(lookup.remote_paths(typed), typed, lookup),
        ValueKind::CopyPath if is_remote(typed) => lookup.remote_paths(typed),
        ValueKind::CopyPath => with_aliases(lookup.local_paths(typed), typed, lookup),
        ValueKind::Other => Vec::new(),
    }
}

fn kind(command: &str, arg: &str, positionals: usize) -> ValueKind {
    match (command, arg) {
        (_, "target") => ValueKind::Target,
        ("attach" | "logs" | "kill" | "wait", "id") => ValueKind::Process,
        ("target use" | "target remove" | "target test" | "target close", "name") => ValueKind::Alias,
        ("cp", "sources" | "destination") => ValueKind::CopyPath,
        ("read" | "write" | "edit" | "ls" | "glob" | "grep" | "stat" | "mkdir" | "watch", "path")
        | ("rm", "paths")
        | ("mv", "from" | "to")
        | ("exec" | "shell" | "patch", "cwd") => ValueKind::RemotePath,
        // The arguments of a command that is run, but not its name.
        ("exec" | "shell", "command") if positionals > 0 => ValueKind::RemotePath,
        _ => ValueKind::Other,
    }
}

/// Whether a path is on a target: `:PATH` or `ALIAS:PATH`.
fn is_remote(typed: &str) -> bool {
    typed.find(':').is_some_and(|colon| !typed.get(..colon).unwrap_or_default().contains('/'))
}

/// Adds `ALIAS:`, while no directory has been typed.
fn with_aliases(mut paths: Vec<String>, typed: &str, lookup: &Lookup) -> Vec<String> {
    if !typed.contains(['/', ':']) {
        paths.extend(lookup.aliases().into_iter().map(|alias| format!("{alias}:")));
    }
    paths
}
