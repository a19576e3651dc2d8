//! Rules about dependencies.

use super::Violation;
use crate::tree::Tree;

/// The limit on packages in `Cargo.lock`; raising it is a decision. The MCP SDK brings 38 packages, the generator of the
/// relay's bindings 20 (used by xtask only), and the hub's database 70, of which a third are for databases that are never
/// built.
const PACKAGE_CEILING: usize = 430;

pub(super) fn dependencies_come_from_the_workspace(tree: &Tree) -> Vec<Violation> {
    let fix = "write `name.workspace = true` and put the version into [workspace.dependencies]";
    let mut violations = Vec::new();
    for manifest in tree.manifests() {
        let Ok(table) = manifest.text.parse::<toml::Table>() else {
            violations.push(Violation::new(&manifest.path, "not valid TOML", "correct the manifest"));
            continue;
        };
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let names = table.get(kind).and_then(toml::Value::as_table).into_iter().flatten();
            for (name, value) in names {
                if value.get("workspace").and_then(toml::Value::as_bool) != Some(true) {
                    violations.push(Violation::new(&manifest.path, format!("{kind}.{name} = {value}"), fix));
                }
            }
        }
    }
    violations
}

/// The crates of this workspace that each crate may depend on; tests may use the testkit too.
const BELOW: &[(&str, &[&str])] = &[
    ("engine", &[]),
    ("wire", &[]),
    ("sfmd", &[]),
    ("link", &["wire"]),
    ("daemon", &["engine", "link", "sfmd", "wire"]),
    ("client", &["link", "wire"]),
    ("cli", &["client", "link"]),
    ("exec-server", &["client", "daemon", "link"]),
    ("hub", &["link", "wire"]),
];
const OURS: &[&str] =
    &["engine", "wire", "link", "daemon", "client", "cli", "exec-server", "hub", "sfmd", "testkit"];

pub(super) fn crates_depend_only_downwards(tree: &Tree) -> Vec<Violation> {
    let fix = "see ARCHITECTURE.md, dependency direction; use the crate below, or move the code down";
    let mut violations = Vec::new();
    for (name, below) in BELOW {
        let path = format!("crates/{name}/Cargo.toml");
        let Some(table) = tree.file(&path).and_then(|file| file.text.parse::<toml::Table>().ok()) else {
            continue;
        };
        let names = table.get("dependencies").and_then(toml::Value::as_table).into_iter().flatten();
        for (other, _) in names.filter(|(other, _)| OURS.contains(&other.as_str())) {
            if !below.contains(&other.as_str()) {
                violations.push(Violation::new(&path, format!("{name} depends on {other}"), fix));
            }
        }
    }
    violations
}

pub(super) fn packages_have_a_ceiling(tree: &Tree) -> Vec<Violation> {
    let count = tree.file("Cargo.lock").map_or(0, |lock| lock.text.matches("[[package]]").count());
    match count > PACKAGE_CEILING {
        true => vec![Violation::new(
            "Cargo.lock",
            format!("{count} packages (limit {PACKAGE_CEILING})"),
            "remove the newest dependency, or raise the limit and give the reason in the commit",
        )],
        false => Vec::new(),
    }
}
