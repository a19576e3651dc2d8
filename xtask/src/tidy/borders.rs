//! Rules about who may know whom.

use super::Broken;
use crate::tree::{File, Tree};

const ENGINE_WITHOUT: &[&str] =
    &["serde", "serde_json", "axum", "prost", "tungstenite", "tokio-tungstenite", "clap", "lexopt", "sqlx"];
const HUB_ONLY: &[&str] = &["sqlx", "libsqlite3-sys", "rusqlite"];
const PROTOCOL_WORDS: &[&str] = &["process_id", "pty_id", "session_id", "run_id", "topic", "jsonrpc"];
const FACES: &[&str] = &["rexd", "codex", "stringd", "host"];
const UNSAFE_PLACES: &[&str] = &[
    "crates/engine/src/process/",
    "crates/engine/src/files/",
    // What a child does between clone and exec, in its namespaces or to confine itself, and Landlock's calls.
    "crates/engine/src/sandbox/enter.rs",
    "crates/engine/src/sandbox/landlock.rs",
    "crates/engine/src/sandbox/script.rs",
];
/// Where the daemon reads or writes files that are its own, not a session's.
const DAEMON_FILE_PLACES: &[&str] = &[
    // Questions and grants, in the state folder.
    "approvals/",
    "args.rs",
    "audit.rs",
    "audit/",
    "auth.rs",
    "auth/",
    // Handles are opened by the engine; the token of a listener is the operator's.
    "codex/blocks.rs",
    "codex/listen/gate.rs",
    "config.rs",
    "config/",
    "doctor.rs",
    "doctor/",
    "keeper.rs",
    "keeper/",
    "linger/landing.rs",
    "listen/",
    "main.rs",
    "metrics/own.rs",
    // Temporary directories of confined commands are made before there is a session to make them in.
    "sandbox/",
    // Tests write the configuration they ask about.
    "policy_cli/tests.rs",
    "state.rs",
    "state/",
    "serve.rs",
    "serve/",
];

pub(super) fn engine_knows_no_protocol(tree: &Tree) -> Vec<Broken> {
    let instead = "keep it in a face or in wire; the engine's types derive no serialization";
    let mut broken = Vec::new();
    if let Some(manifest) = tree.file("crates/engine/Cargo.toml") {
        let names = manifest.lines().filter(|(_, line)| ENGINE_WITHOUT.contains(&dependency(line)));
        broken.extend(names.map(|found| at(manifest, found, instead)));
    }
    for file in tree.rust("crates/engine/src/") {
        let names =
            ENGINE_WITHOUT.iter().map(|name| format!("{}::", name.replace('-', "_"))).collect::<Vec<_>>();
        let is_banned =
            |line: &str| has_word(line, "Serialize") || names.iter().any(|name| line.contains(name));
        broken.extend(file.code().filter(|(_, line)| is_banned(line)).map(|found| at(file, found, instead)));
    }
    broken
}

pub(super) fn engine_has_no_protocol_word(tree: &Tree) -> Vec<Broken> {
    let is_banned = |line: &str| PROTOCOL_WORDS.iter().any(|word| has_word(line, word));
    find(tree.rust("crates/engine/src/"), is_banned, "use the engine's own word; docs/glossary.md maps them")
}

pub(super) fn wire_does_no_io(tree: &Tree) -> Vec<Broken> {
    let instead = "wire is plain data; input and output belong into link";
    let mut broken = Vec::new();
    if let Some(manifest) = tree.file("crates/wire/Cargo.toml") {
        let names = manifest.lines().filter(|(_, line)| dependency(line).starts_with("tokio"));
        broken.extend(names.map(|found| at(manifest, found, instead)));
    }
    let is_banned = |line: &str| ["tokio", "std::fs", "std::net"].iter().any(|word| line.contains(word));
    broken.extend(find(tree.rust("crates/wire/src/"), is_banned, instead));
    broken
}

pub(super) fn only_the_daemon_depends_on_the_engine(tree: &Tree) -> Vec<Broken> {
    let allowed = ["crates/daemon/Cargo.toml", "crates/testkit/Cargo.toml", "bench/Cargo.toml"];
    let mut broken = Vec::new();
    for manifest in tree.manifests().filter(|file| !allowed.contains(&file.path.as_str())) {
        let names = manifest.lines().filter(|(_, line)| dependency(line) == "engine");
        broken.extend(names.map(|found| {
            at(manifest, found, "go through a link and wire, or move the code into the daemon")
        }));
    }
    broken
}

pub(super) fn only_the_hub_knows_a_database(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for manifest in tree.manifests().filter(|file| file.path != "crates/hub/Cargo.toml") {
        let names = manifest.lines().filter(|(_, line)| HUB_ONLY.contains(&dependency(line)));
        broken.extend(names.map(|found| at(manifest, found, "ask the hub; rexd and rex stay small")));
    }
    // Inside the hub, only the store.
    let names_it = |line: &str| HUB_ONLY.iter().any(|name| starts_path(line, name));
    let outside = tree.rust("crates/hub/src/").filter(|file| !file.path.starts_with("crates/hub/src/store/"));
    broken.extend(find(outside, names_it, "keep SQL behind the trait in hub/src/store"));
    broken
}

pub(super) fn faces_are_strangers(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for face in FACES {
        let folder = format!("crates/daemon/src/{face}/");
        for other in FACES.iter().filter(|other| *other != face) {
            let (module, wire) = (format!("crate::{other}"), format!("wire::{other}"));
            let names_other = |line: &str| starts_path(line, &module) || starts_path(line, &wire);
            let instead = "what two faces share belongs into the engine, link or the daemon's root";
            broken.extend(find(tree.rust(&folder), names_other, instead));
        }
    }
    broken
}

pub(super) fn unsafe_is_confined(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for file in tree.rust("").filter(|file| !file.path.starts_with("xtask/")) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (number, line) in file.code().filter(|(_, line)| is_unsafe(line)) {
            if !UNSAFE_PLACES.iter().any(|place| file.path.starts_with(place)) {
                let instead = "find a safe call, or move it to engine/process or engine/files";
                broken.push(at(file, (number, line), instead));
            } else if !lines[number.saturating_sub(8)..number].iter().any(|above| says_why(above, line)) {
                broken.push(at(file, (number, line), "say above it, after `SAFETY:`, why it is sound"));
            }
        }
    }
    broken
}

/// Code says why it is sound; a function that is unsafe to call says, as Rust's own do, what its caller must see to.
fn says_why(above: &str, line: &str) -> bool {
    above.contains("SAFETY:") || (line.contains("unsafe fn") && above.contains("# Safety"))
}

pub(super) fn daemon_touches_few_files(tree: &Tree) -> Vec<Broken> {
    let is_listed = |file: &&File| {
        let inside = file.path.trim_start_matches("crates/daemon/src/");
        DAEMON_FILE_PLACES.iter().any(|place| inside.starts_with(place))
    };
    let touches = |line: &str| line.contains("std::fs::") || line.contains("tokio::fs::");
    let instead =
        "files of a session go through the engine; the daemon's own are listed in xtask/src/tidy/borders.rs";
    find(tree.rust("crates/daemon/src/").filter(|file| !is_listed(file)), touches, instead)
}

/// Every line of code that `is_banned`.
fn find<'a>(
    files: impl Iterator<Item = &'a File>,
    is_banned: impl Fn(&str) -> bool,
    instead: &'static str,
) -> Vec<Broken> {
    let mut broken = Vec::new();
    for file in files {
        broken.extend(file.code().filter(|(_, line)| is_banned(line)).map(|found| at(file, found, instead)));
    }
    broken
}

fn at(file: &File, (number, line): (usize, &str), instead: &'static str) -> Broken {
    Broken::new(format!("{}:{number}", file.path), line.trim(), instead)
}

/// The name of the dependency that a line of a manifest adds.
fn dependency(line: &str) -> &str {
    line.split(['.', '=', ' ']).next().unwrap_or_default()
}

fn is_unsafe(line: &str) -> bool {
    has_word(line, "unsafe") && !line.contains('"')
}

/// Whether `word` stands in `line` by itself.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(place, _)| {
        let (before, after) = (&line[..place], &line[place + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Whether a path in `line` starts with `module`.
fn starts_path(line: &str, module: &str) -> bool {
    line.match_indices(module).any(|(place, _)| {
        let after = &line[place + module.len()..];
        !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}
