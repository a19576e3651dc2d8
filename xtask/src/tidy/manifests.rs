//! Rules about dependencies.

use super::Broken;
use crate::tree::Tree;

/// More packages than this are a decision, not an accident. The MCP SDK alone brings 38, and what makes the relay's
/// bindings 20 that only xtask has. The hub's database brings 70, a third of which are for databases it does not use and
/// are never built.
const PACKAGE_CEILING: usize = 390;

pub(super) fn dependencies_come_from_the_workspace(tree: &Tree) -> Vec<Broken> {
    let instead = "write `name.workspace = true` and put the version into [workspace.dependencies]";
    let mut broken = Vec::new();
    for manifest in tree.manifests() {
        let Ok(table) = manifest.text.parse::<toml::Table>() else {
            broken.push(Broken::new(&manifest.path, "cannot be read", "mend the manifest"));
            continue;
        };
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let names = table.get(kind).and_then(toml::Value::as_table).into_iter().flatten();
            for (name, value) in names {
                if value.get("workspace").and_then(toml::Value::as_bool) != Some(true) {
                    broken.push(Broken::new(&manifest.path, format!("{kind}.{name} = {value}"), instead));
                }
            }
        }
    }
    broken
}

/// Who of ours each crate may depend on; tests may use the testkit too.
const BELOW: &[(&str, &[&str])] = &[
    ("engine", &[]),
    ("wire", &[]),
    ("link", &["wire"]),
    ("daemon", &["engine", "link", "wire"]),
    ("client", &["link", "wire"]),
    ("cli", &["client"]),
    ("exec-server", &["client", "daemon", "link"]),
    ("hub", &["link", "wire"]),
];
const OURS: &[&str] = &["engine", "wire", "link", "daemon", "client", "cli", "exec-server", "hub", "testkit"];

pub(super) fn crates_know_only_those_below(tree: &Tree) -> Vec<Broken> {
    let instead = "ARCHITECTURE.md, dependency direction: go through the crate below, or move the code down";
    let mut broken = Vec::new();
    for (name, below) in BELOW {
        let path = format!("crates/{name}/Cargo.toml");
        let Some(table) = tree.file(&path).and_then(|file| file.text.parse::<toml::Table>().ok()) else {
            continue;
        };
        let names = table.get("dependencies").and_then(toml::Value::as_table).into_iter().flatten();
        for (other, _) in names.filter(|(other, _)| OURS.contains(&other.as_str())) {
            if !below.contains(&other.as_str()) {
                broken.push(Broken::new(&path, format!("{name} depends on {other}"), instead));
            }
        }
    }
    broken
}

pub(super) fn packages_have_a_ceiling(tree: &Tree) -> Vec<Broken> {
    let count = tree.file("Cargo.lock").map_or(0, |lock| lock.text.matches("[[package]]").count());
    match count > PACKAGE_CEILING {
        true => vec![Broken::new(
            "Cargo.lock",
            format!("{count} packages, the ceiling is {PACKAGE_CEILING}"),
            "do without the newest dependency, or raise the ceiling and say why in the commit",
        )],
        false => Vec::new(),
    }
}
