//! Rules about dependencies between modules: what each part of the code may name.

use std::collections::BTreeSet;

use super::Violation;
use crate::tree::{File, Tree};

const ENGINE_WITHOUT: &[&str] =
    &["serde", "serde_json", "axum", "prost", "tungstenite", "tokio-tungstenite", "clap", "lexopt", "sqlx"];
const HUB_ONLY: &[&str] = &["sqlx", "libsqlite3-sys", "rusqlite"];
const PROTOCOL_WORDS: &[&str] = &["process_id", "pty_id", "session_id", "run_id", "topic", "jsonrpc"];
/// Each directory in here is a face.
const FACES: &str = "crates/daemon/src/faces/";
/// The helper that ties a task to its owner: the only caller of `tokio::spawn`.
const TASK_HELPER: &str = "crates/link/src/task.rs";
const SPAWNS: &[&str] = &[
    "tokio::spawn",
    "task::spawn",
    "task::spawn_local",
    "Handle::current().spawn",
    "handle.spawn",
    "handle().spawn",
    "runtime.spawn",
];
const UNSAFE_PATHS: &[&str] = &[
    "crates/engine/src/process/",
    "crates/engine/src/files/",
    // Code that a child runs between clone and exec to confine itself, and Landlock's system calls.
    "crates/engine/src/sandbox/enter.rs",
    "crates/engine/src/sandbox/landlock.rs",
    "crates/engine/src/sandbox/script.rs",
    // Unmapping code that is not needed.
    "crates/daemon/src/core/code_pages.rs",
];
/// Modules of the daemon that access the daemon's own files, not a session's.
const DAEMON_FILE_PATHS: &[&str] = &[
    // Tests write the configuration that they check.
    "cli/policy/tests.rs",
    "core/code_pages.rs",
    "cli/args.rs",
    "cli/args/",
    "cli/doctor.rs",
    "cli/doctor/",
    "config/",
    // Approval requests and grants, in the state directory.
    "core/approvals/",
    "core/sockets.rs",
    // Temporary directories of confined commands are created before their session has any root.
    "core/sandbox/",
    "core/state.rs",
    // The engine opens the handles; this module reads from them.
    "faces/exec_server/methods/handles.rs",
    // The operator's token file of a listener.
    "faces/exec_server/listen/",
    // The identity of the host, the journals of its runs, its log and its tools.
    "faces/host/identity.rs",
    "faces/host/journal.rs",
    "faces/host/journal/",
    "faces/host/log_tail.rs",
    "faces/host/pending.rs",
    "faces/host/runs.rs",
    "faces/host/screen.rs",
    "faces/host/tools.rs",
    // The registered users and the protocol's own log, in the data directory.
    "faces/stringd/log.rs",
    "faces/stringd/users.rs",
    "keeper/",
    "net/auth/",
    "net/listen/",
    "observe/audit/",
    "observe/log.rs",
    "observe/metrics/own.rs",
    "serve.rs",
    "serve/",
];

pub(super) fn engine_is_independent_of_protocols(tree: &Tree) -> Vec<Violation> {
    let fix = "keep it in a face or in wire; the engine's types derive no serialization";
    let mut violations = Vec::new();
    if let Some(manifest) = tree.file("crates/engine/Cargo.toml") {
        let names = manifest.lines().filter(|(_, line)| ENGINE_WITHOUT.contains(&dependency(line)));
        violations.extend(names.map(|found| at(manifest, found, fix)));
    }
    for file in tree.rust("crates/engine/src/") {
        let names =
            ENGINE_WITHOUT.iter().map(|name| format!("{}::", name.replace('-', "_"))).collect::<Vec<_>>();
        let is_banned =
            |line: &str| has_word(line, "Serialize") || names.iter().any(|name| line.contains(name));
        violations.extend(file.code().filter(|(_, line)| is_banned(line)).map(|found| at(file, found, fix)));
    }
    violations
}

pub(super) fn engine_has_no_protocol_words(tree: &Tree) -> Vec<Violation> {
    let is_banned = |line: &str| PROTOCOL_WORDS.iter().any(|word| has_word(line, word));
    find(
        tree.rust("crates/engine/src/"),
        is_banned,
        "use the engine's own word; docs/glossary.md maps it to each protocol",
    )
}

pub(super) fn wire_does_no_io(tree: &Tree) -> Vec<Violation> {
    let fix = "wire is plain data; move input and output to link";
    let mut violations = Vec::new();
    if let Some(manifest) = tree.file("crates/wire/Cargo.toml") {
        let names = manifest.lines().filter(|(_, line)| dependency(line).starts_with("tokio"));
        violations.extend(names.map(|found| at(manifest, found, fix)));
    }
    let is_banned = |line: &str| ["tokio", "std::fs", "std::net"].iter().any(|word| line.contains(word));
    violations.extend(find(tree.rust("crates/wire/src/"), is_banned, fix));
    violations
}

/// Documents are text that a client sends: their code has no dependency and no access to the machine.
pub(super) fn sfmd_is_pure(tree: &Tree) -> Vec<Violation> {
    let fix = "sfmd is pure; the stringd face in the daemon loads, runs and writes";
    let words = ["tokio", "std::fs", "std::net", "std::process", "std::time", "std::env", "std::thread"];
    let is_banned = |line: &str| words.iter().any(|word| line.contains(word));
    let mut violations = find(tree.rust("crates/sfmd/src/"), is_banned, fix);
    let users = ["crates/daemon/Cargo.toml", "bench/Cargo.toml"];
    for manifest in tree.manifests().filter(|file| !users.contains(&file.path.as_str())) {
        let names = manifest.lines().filter(|(_, line)| dependency(line) == "sfmd");
        violations
            .extend(names.map(|found| at(manifest, found, "only the daemon and the bench depend on sfmd")));
    }
    violations
}

pub(super) fn only_the_daemon_depends_on_the_engine(tree: &Tree) -> Vec<Violation> {
    let allowed = ["crates/daemon/Cargo.toml", "crates/testkit/Cargo.toml", "bench/Cargo.toml"];
    let mut violations = Vec::new();
    for manifest in tree.manifests().filter(|file| !allowed.contains(&file.path.as_str())) {
        let names = manifest.lines().filter(|(_, line)| dependency(line) == "engine");
        violations.extend(
            names.map(|found| at(manifest, found, "use link and wire, or move the code into the daemon")),
        );
    }
    violations
}

pub(super) fn only_the_hub_has_a_database(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for manifest in tree.manifests().filter(|file| file.path != "crates/hub/Cargo.toml") {
        let names = manifest.lines().filter(|(_, line)| HUB_ONLY.contains(&dependency(line)));
        violations.extend(names.map(|found| at(manifest, found, "only the hub has a database; use its API")));
    }
    // In the hub, only the store uses the database.
    let names_database = |line: &str| HUB_ONLY.iter().any(|name| starts_path(line, name));
    let outside = tree.rust("crates/hub/src/").filter(|file| !file.path.starts_with("crates/hub/src/store/"));
    violations.extend(find(
        outside,
        names_database,
        "use the trait Store; SQL belongs in crates/hub/src/store",
    ));
    violations
}

pub(super) fn faces_are_independent(tree: &Tree) -> Vec<Violation> {
    let fix = "move the code that two faces share into the daemon's core, the engine or link";
    let faces = faces(tree);
    let mut violations = Vec::new();
    for face in &faces {
        let directory = format!("{FACES}{face}/");
        for other in faces.iter().filter(|other| *other != face) {
            let names_other = |line: &str| {
                ["faces", "wire"].iter().any(|parent| {
                    starts_path(line, &format!("{parent}::{other}")) || imports(line, parent, other)
                })
            };
            violations.extend(find(tree.rust(&directory), names_other, fix));
        }
    }
    violations
}

/// The names of the directories in [`FACES`].
fn faces(tree: &Tree) -> BTreeSet<&str> {
    tree.rust(FACES).filter_map(|file| Some(file.path.strip_prefix(FACES)?.split_once('/')?.0)).collect()
}

/// Whether a line imports `child` of `parent` in braces: `use crate::parent::{a, child}`.
fn imports(line: &str, parent: &str, child: &str) -> bool {
    line.split_once(&format!("{parent}::{{")).is_some_and(|(_, list)| has_word(list, child))
}

pub(super) fn tasks_have_an_owner(tree: &Tree) -> Vec<Violation> {
    let fix = "spawn on the owner's link::task::Tasks or JoinSet, or use link::task::OwnedTask";
    let files =
        tree.product_code().filter(|file| file.path != TASK_HELPER && !file.path.starts_with("xtask/"));
    find(files, |line| SPAWNS.iter().any(|call| starts_path(line, call)), fix)
}

pub(super) fn unsafe_is_confined(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust("").filter(|file| !file.path.starts_with("xtask/")) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (number, line) in file.code().filter(|(_, line)| is_unsafe(line)) {
            if !UNSAFE_PATHS.iter().any(|path| file.path.starts_with(path)) {
                let fix = "use a safe call, or move the code to engine/src/process or engine/src/files";
                violations.push(at(file, (number, line), fix));
            } else if !lines[number.saturating_sub(8)..number].iter().any(|above| gives_reason(above, line)) {
                violations.push(at(file, (number, line), "write above it, after `SAFETY:`, why it is sound"));
            }
        }
    }
    violations
}

/// Whether a line above unsafe code gives its reason, or the contract that callers of an unsafe function must keep.
fn gives_reason(above: &str, line: &str) -> bool {
    above.contains("SAFETY:") || (line.contains("unsafe fn") && above.contains("# Safety"))
}

pub(super) fn daemon_accesses_files_in_listed_modules(tree: &Tree) -> Vec<Violation> {
    let is_listed = |file: &&File| {
        let inside = file.path.trim_start_matches("crates/daemon/src/");
        DAEMON_FILE_PATHS.iter().any(|path| inside.starts_with(path))
    };
    let touches = |line: &str| line.contains("std::fs::") || line.contains("tokio::fs::");
    let fix = "access a session's files through the engine; list the daemon's own files in xtask/src/tidy/boundaries.rs";
    find(tree.rust("crates/daemon/src/").filter(|file| !is_listed(file)), touches, fix)
}

/// A violation for each line of code that `is_banned`.
fn find<'a>(
    files: impl Iterator<Item = &'a File>,
    is_banned: impl Fn(&str) -> bool,
    fix: &'static str,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files {
        violations.extend(file.code().filter(|(_, line)| is_banned(line)).map(|found| at(file, found, fix)));
    }
    violations
}

fn at(file: &File, (number, line): (usize, &str), fix: &'static str) -> Violation {
    Violation::new(format!("{}:{number}", file.path), line.trim(), fix)
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
    line.match_indices(word).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Whether a path in `line` starts with `module`.
fn starts_path(line: &str, module: &str) -> bool {
    line.match_indices(module).any(|(start, _)| {
        let after = &line[start + module.len()..];
        !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}
