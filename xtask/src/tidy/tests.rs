//! Every rule as a test of the tree, and each rule shown to find what it is for.

use super::*;
use crate::tree::File;

fn holds(rule: Rule) {
    let broken = rule(&Tree::read().unwrap());
    let report: Vec<_> =
        broken.iter().map(|it| format!("{}: {}\n  {}", it.place, it.what, it.instead)).collect();
    assert!(report.is_empty(), "{}", report.join("\n"));
}

/// What the rule finds in a tree of these files.
fn found(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
    rule(&Tree { files: files.iter().map(file).collect() }).into_iter().map(|broken| broken.place).collect()
}

#[test]
fn the_engine_knows_no_protocol() {
    holds(borders::engine_knows_no_protocol);
}

#[test]
fn the_engine_has_no_word_of_a_protocol() {
    holds(borders::engine_has_no_protocol_word);
}

#[test]
fn wire_does_no_input_or_output() {
    holds(borders::wire_does_no_io);
}

#[test]
fn only_the_daemon_depends_on_the_engine() {
    holds(borders::only_the_daemon_depends_on_the_engine);
}

#[test]
fn a_crate_knows_only_those_below_it() {
    holds(manifests::crates_know_only_those_below);
}

#[test]
fn only_the_hub_knows_a_database() {
    holds(borders::only_the_hub_knows_a_database);
    let sqlx = "[dependencies]\nsqlx.workspace = true\n";
    let files = [
        ("crates/hub/Cargo.toml", sqlx),
        ("crates/daemon/Cargo.toml", sqlx),
        ("crates/hub/src/store/sqlite.rs", "use sqlx::Row;\n"),
        ("crates/hub/src/auth.rs", "use sqlx::Row;\n"),
    ];
    let places = found(borders::only_the_hub_knows_a_database, &files);
    assert_eq!(places, ["crates/daemon/Cargo.toml:2", "crates/hub/src/auth.rs:1"]);
}

#[test]
fn documents_link_to_what_exists() {
    holds(documents::links_lead_somewhere);
}

#[test]
fn a_face_never_names_another_face() {
    holds(borders::faces_are_strangers);
}

#[test]
fn unsafe_code_stands_in_listed_places_and_says_why_it_is_sound() {
    holds(borders::unsafe_is_confined);
}

#[test]
fn the_daemon_touches_files_only_in_listed_places() {
    holds(borders::daemon_touches_few_files);
}

#[test]
fn every_dependency_comes_from_the_workspace() {
    holds(manifests::dependencies_come_from_the_workspace);
}

#[test]
fn the_number_of_packages_has_a_ceiling() {
    holds(manifests::packages_have_a_ceiling);
}

#[test]
fn every_source_opens_with_a_sentence() {
    holds(sources::open_with_a_sentence);
}

#[test]
fn no_source_is_longer_than_500_lines_without_its_tests() {
    holds(sources::are_short);
}

#[test]
fn nothing_is_left_to_do() {
    holds(sources::leave_nothing_to_do);
}

#[test]
fn no_test_sleeps_or_is_ignored() {
    holds(sources::tests_neither_sleep_nor_are_ignored);
}

#[test]
fn no_file_names_a_path_of_a_build_machine() {
    holds(sources::name_no_build_machine);
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    holds(documents::invariants_are_held);
}

#[test]
fn a_broken_border_is_found() {
    let engine = "crates/engine/src/a.rs";
    assert_eq!(
        found(borders::engine_knows_no_protocol, &[(engine, "//! a\n#[derive(Serialize)]")]),
        ["crates/engine/src/a.rs:2"]
    );
    let manifest = ("crates/engine/Cargo.toml", "[dependencies]\nserde_json.workspace = true");
    assert_eq!(found(borders::engine_knows_no_protocol, &[manifest]), ["crates/engine/Cargo.toml:2"]);
    let words = "let session_id = 1;\nlet session_ids = 1;\n// session_id\n#[cfg(test)]\nsession_id";
    assert_eq!(found(borders::engine_has_no_protocol_word, &[(engine, words)]), ["crates/engine/src/a.rs:1"]);
    assert_eq!(found(borders::wire_does_no_io, &[("crates/wire/src/a.rs", "use std::fs;")]).len(), 1);
    let hub = ("crates/hub/Cargo.toml", "engine.workspace = true");
    assert_eq!(found(borders::only_the_daemon_depends_on_the_engine, &[hub]).len(), 1);
    let face = "use crate::codex::x;\nuse crate::codexes;\nuse crate::rexd::y;";
    assert_eq!(found(borders::faces_are_strangers, &[("crates/daemon/src/rexd/mod.rs", face)]).len(), 1);
    let bare = concat!("un", "safe { f() }");
    assert_eq!(found(borders::unsafe_is_confined, &[("crates/link/src/a.rs", bare)]).len(), 1);
    assert_eq!(found(borders::unsafe_is_confined, &[("crates/engine/src/process/a.rs", bare)]).len(), 1);
    let sound = format!("// SAFETY: nothing is shared.\n{bare}");
    assert_eq!(found(borders::unsafe_is_confined, &[("crates/engine/src/process/a.rs", &sound)]).len(), 0);
    let contract = concat!("/// # Safety\n/// The pointer is valid.\nun", "safe fn f() {}");
    assert_eq!(found(borders::unsafe_is_confined, &[("crates/engine/src/process/a.rs", contract)]).len(), 0);
    let files = [
        ("crates/daemon/src/rexd/a.rs", "std::fs::read(p)"),
        ("crates/daemon/src/config.rs", "std::fs::read(p)"),
    ];
    assert_eq!(found(borders::daemon_touches_few_files, &files), ["crates/daemon/src/rexd/a.rs:1"]);
}

#[test]
fn a_broken_manifest_or_source_is_found() {
    let manifest = (
        "crates/a/Cargo.toml",
        "[dependencies]\na = \"1\"\nb.workspace = true\n[dev-dependencies]\nc = { path = \"c\" }",
    );
    assert_eq!(found(manifests::dependencies_come_from_the_workspace, &[manifest]).len(), 2);
    let upward =
        ("crates/client/Cargo.toml", "[dependencies]\nlink.workspace = true\nengine.workspace = true");
    let tested = (
        "crates/cli/Cargo.toml",
        "[dependencies]\nclient.workspace = true\n[dev-dependencies]\ntestkit.workspace = true",
    );
    assert_eq!(
        found(manifests::crates_know_only_those_below, &[upward, tested]),
        ["crates/client/Cargo.toml"]
    );
    assert_eq!(
        found(manifests::packages_have_a_ceiling, &[("Cargo.lock", &"[[package]]\n".repeat(400))]).len(),
        1
    );
    assert_eq!(found(sources::open_with_a_sentence, &[("a.rs", "use x;")]).len(), 1);
    let long = "x\n".repeat(501);
    let tested = format!("x\n#[cfg(test)]\n{long}");
    assert_eq!(
        found(sources::are_short, &[("a.rs", &long), ("b.rs", &tested), ("c/tests/d.rs", &long)]),
        ["a.rs"]
    );
    let undone = concat!("to", "do!()");
    assert_eq!(found(sources::leave_nothing_to_do, &[("a.rs", undone)]).len(), 1);
    let sleeping = concat!("sl", "eep(1)");
    let files = [("a.rs", sleeping), ("b/tests/c.rs", sleeping)];
    assert_eq!(found(sources::tests_neither_sleep_nor_are_ignored, &files), ["b/tests/c.rs:1"]);
    let home = concat!("/root", "/.cargo/bin");
    assert_eq!(found(sources::name_no_build_machine, &[("a.md", home)]).len(), 1);
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let pages = [
        (
            "docs/a.md",
            "[b](b.md#top) [c](../c.md)\n[gone](gone.md) [far](https://example.org)\n```\n[x](y.md)\n```\n",
        ),
        ("docs/b.md", "# Top\n[here](#top) [not](#bottom)\n"),
        ("c.md", "[folder](docs/) `[code](z.md)`\n"),
    ];
    assert_eq!(found(documents::links_lead_somewhere, &pages), ["docs/a.md:2", "docs/b.md:2"]);
}

#[test]
fn an_invariant_without_its_test_is_found() {
    let document = "1. **Held.** Yes,\n   held by `it_is`.\n2. **Not held.** By nothing.\n3. **Gone.** held by `it_was`.\n";
    let test = ("a.rs", "#[test]\nfn it_is() {}");
    let places = found(documents::invariants_are_held, &[("ARCHITECTURE.md", document), test]);
    assert_eq!(places, ["ARCHITECTURE.md:3", "ARCHITECTURE.md:4"]);
}
