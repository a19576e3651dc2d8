//! Each rule as a test of the repository, and each rule shown to find a violation in a small example.

use super::*;
use crate::tree::File;

fn holds(rule: Rule) {
    let violations = rule(&Tree::read().unwrap());
    let report: Vec<_> =
        violations.iter().map(|it| format!("{}: {}\n  {}", it.place, it.found, it.fix)).collect();
    assert!(report.is_empty(), "{}", report.join("\n"));
}

/// What the rule finds in a tree of these files.
fn found(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
    rule(&Tree { files: files.iter().map(file).collect() })
        .into_iter()
        .map(|violation| violation.place)
        .collect()
}

/// ARCHITECTURE.md, invariant 1.
#[test]
fn the_engine_is_independent_of_protocols() {
    holds(boundaries::engine_is_independent_of_protocols);
}

/// ARCHITECTURE.md, invariant 1.
#[test]
fn the_engine_contains_no_protocol_words() {
    holds(boundaries::engine_has_no_protocol_words);
}

/// ARCHITECTURE.md, invariant 2.
#[test]
fn wire_does_no_input_or_output() {
    holds(boundaries::wire_does_no_io);
}

#[test]
fn sfmd_is_pure_and_only_the_daemon_depends_on_it() {
    holds(boundaries::sfmd_is_pure);
    let files = [
        ("crates/sfmd/src/lib.rs", "use std::fs::File;\nuse std::collections::HashMap;\n"),
        ("crates/client/Cargo.toml", "[dependencies]\nsfmd.workspace = true\n"),
        ("crates/daemon/Cargo.toml", "[dependencies]\nsfmd.workspace = true\n"),
    ];
    let places = found(boundaries::sfmd_is_pure, &files);
    assert_eq!(places, ["crates/sfmd/src/lib.rs:1", "crates/client/Cargo.toml:2"]);
}

/// ARCHITECTURE.md, invariant 3.
#[test]
fn only_the_daemon_depends_on_the_engine() {
    holds(boundaries::only_the_daemon_depends_on_the_engine);
}

/// ARCHITECTURE.md, invariant 46.
#[test]
fn a_crate_depends_only_on_crates_below_it() {
    holds(manifests::crates_depend_only_downwards);
}

#[test]
fn only_the_hub_has_a_database() {
    holds(boundaries::only_the_hub_has_a_database);
    let sqlx = "[dependencies]\nsqlx.workspace = true\n";
    let files = [
        ("crates/hub/Cargo.toml", sqlx),
        ("crates/daemon/Cargo.toml", sqlx),
        ("crates/hub/src/store/sqlite.rs", "use sqlx::Row;\n"),
        ("crates/hub/src/auth.rs", "use sqlx::Row;\n"),
    ];
    let places = found(boundaries::only_the_hub_has_a_database, &files);
    assert_eq!(places, ["crates/daemon/Cargo.toml:2", "crates/hub/src/auth.rs:1"]);
}

#[test]
fn links_in_documents_lead_to_existing_files_and_headings() {
    holds(documents::links_resolve);
}

/// ARCHITECTURE.md, invariant 3.
#[test]
fn a_face_never_names_another_face() {
    holds(boundaries::faces_are_independent);
}

/// ARCHITECTURE.md, invariant 26.
#[test]
fn unsafe_code_is_in_listed_modules_and_gives_its_reason() {
    holds(boundaries::unsafe_is_confined);
}

/// ARCHITECTURE.md, invariant 16.
#[test]
fn the_daemon_accesses_files_only_in_listed_modules() {
    holds(boundaries::daemon_accesses_files_in_listed_modules);
}

#[test]
fn every_dependency_comes_from_the_workspace() {
    holds(manifests::dependencies_come_from_the_workspace);
}

#[test]
fn the_number_of_packages_is_limited() {
    holds(manifests::packages_have_a_ceiling);
}

#[test]
fn every_source_starts_with_a_sentence() {
    holds(sources::start_with_a_sentence);
}

#[test]
fn no_source_is_longer_than_500_lines_without_its_tests() {
    holds(sources::are_short);
}

#[test]
fn no_source_contains_unfinished_code() {
    holds(sources::are_finished);
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
fn every_invariant_has_a_test() {
    holds(documents::invariants_are_tested);
}

#[test]
fn every_task_has_an_owner() {
    holds(boundaries::tasks_have_an_owner);
}

#[test]
fn a_public_type_name_is_defined_in_at_most_two_modules() {
    holds(names::type_names_are_unambiguous);
}

#[test]
fn a_doc_comment_on_a_public_type_or_function_has_at_least_four_words() {
    holds(names::comments_are_sentences);
}

#[test]
fn paths_in_documents_exist() {
    holds(paths::paths_exist);
}

#[test]
fn a_face_that_names_another_face_is_found() {
    let names = "use crate::faces::exec_server::x;\nuse crate::faces::exec_servers;\nuse crate::faces::rexd::y;\n\
                 use wire::{exec_server, rexd};\nuse wire::keeper::v1;\nlet a = wire::exec_server::v1::B;\n";
    let files = [
        ("crates/daemon/src/faces/rexd/mod.rs", names),
        ("crates/daemon/src/faces/exec_server/mod.rs", "use crate::core::x;\n"),
        ("crates/daemon/src/serve.rs", names),
    ];
    let places = ["1", "4", "6"].map(|line| format!("crates/daemon/src/faces/rexd/mod.rs:{line}"));
    assert_eq!(found(boundaries::faces_are_independent, &files), places);
}

#[test]
fn a_task_without_an_owner_is_found() {
    let spawns = "tokio::spawn(a);\ntracker.spawn(b);\nset.spawn(c);\ntask::spawn_blocking(d);\n\
                  tokio::task::spawn(e);\nHandle::current().spawn(f);\n// tokio::spawn(g)\n#[cfg(test)]\nmod tests {\n    tokio::spawn(h);\n}\n";
    let files = [
        ("crates/daemon/src/serve.rs", spawns),
        ("crates/link/src/task.rs", spawns),
        ("crates/link/tests/rpc.rs", spawns),
        ("crates/testkit/src/daemon.rs", spawns),
    ];
    let places = ["1", "5", "6"].map(|line| format!("crates/daemon/src/serve.rs:{line}"));
    assert_eq!(found(boundaries::tasks_have_an_owner, &files), places);
}

#[test]
fn a_type_name_in_three_modules_is_found() {
    let places = "pub struct Place;\npub enum Error {}\nstruct Own;\n";
    let files = [
        ("crates/a/src/a.rs", places),
        (
            "crates/a/src/b.rs",
            "pub(crate) type Place = u8;\npub struct Twice;\npub(super) enum Error {}\nstruct Own;\n",
        ),
        (
            "crates/b/src/c.rs",
            "pub(in crate::d) trait Place<T> {}\npub struct Twice;\npub enum Error {}\nstruct Own;\n",
        ),
        ("crates/b/src/d.rs", "pub struct Places;\n#[cfg(test)]\nmod tests {\n    pub struct Twice;\n}\n"),
        ("crates/wire/src/d.rs", "pub struct Twice;\n"),
        ("crates/testkit/src/d.rs", "pub struct Twice;\n"),
        ("crates/b/tests/d.rs", "pub struct Twice;\n"),
    ];
    let places = ["crates/a/src/a.rs:1", "crates/a/src/b.rs:1", "crates/b/src/c.rs:1"];
    assert_eq!(found(names::type_names_are_unambiguous, &files), places);
}

#[test]
fn a_short_comment_on_a_public_item_is_found() {
    let source = "/// Who.\npub struct A;\n/// Reads the whole file.\npub fn b() {}\n/// The name\n/// it has.\npub(crate) fn c() {}\n\
                  /// Its port.\n#[derive(Debug)]\n#[expect(\n    dead_code,\n)]\npub(crate) async fn d() {}\n\
                  /// Private.\nfn e() {}\n/// Field.\npub f: u8,\npub fn g() {}\n";
    let places = found(names::comments_are_sentences, &[("crates/a/src/a.rs", source)]);
    assert_eq!(places, ["crates/a/src/a.rs:2", "crates/a/src/a.rs:13"]);
}

#[test]
fn a_path_that_does_not_exist_is_found() {
    let page = "`crates/a/src/a.rs` `a/src/{a,b}.rs` `docs/` `crates/*/src/a.rs` `docs/*.toml`\n\
                `crates/b/src` `a/tests/x.rs:3` `b/src/x.rs` `crates/NAME/src` `text/plain` `cat docs/gone.md`\n\
                ```\n`crates/c`\n```\n";
    let files = [
        ("docs/page.md", page),
        ("docs/reference/page.md", page),
        ("docs/decisions/0001-page.md", page),
        ("crates/a/src/a.rs", ""),
    ];
    let places = ["docs/page.md:1", "docs/page.md:1", "docs/page.md:2", "docs/page.md:2", "docs/page.md:2"];
    assert_eq!(found(paths::paths_exist, &files), places);
}

#[test]
fn a_test_that_does_not_exist_is_found() {
    let page = "`crates/a/src/a.rs::holds`\n`crates/a/src/a.rs::gone` `crates/a/src/a.rs::hold`\n";
    let files = [("docs/page.md", page), ("crates/a/src/a.rs", "//! a\nfn holds() {}\n")];
    assert_eq!(found(paths::paths_exist, &files), ["docs/page.md:2", "docs/page.md:2"]);
}

#[test]
fn a_broken_boundary_is_found() {
    let engine = "crates/engine/src/a.rs";
    assert_eq!(
        found(boundaries::engine_is_independent_of_protocols, &[(engine, "//! a\n#[derive(Serialize)]")]),
        ["crates/engine/src/a.rs:2"]
    );
    let manifest = ("crates/engine/Cargo.toml", "[dependencies]\nserde_json.workspace = true");
    assert_eq!(
        found(boundaries::engine_is_independent_of_protocols, &[manifest]),
        ["crates/engine/Cargo.toml:2"]
    );
    let words = "let session_id = 1;\nlet session_ids = 1;\n// session_id\n#[cfg(test)]\nsession_id";
    assert_eq!(
        found(boundaries::engine_has_no_protocol_words, &[(engine, words)]),
        ["crates/engine/src/a.rs:1"]
    );
    assert_eq!(found(boundaries::wire_does_no_io, &[("crates/wire/src/a.rs", "use std::fs;")]).len(), 1);
    let hub = ("crates/hub/Cargo.toml", "engine.workspace = true");
    assert_eq!(found(boundaries::only_the_daemon_depends_on_the_engine, &[hub]).len(), 1);
    let bare = concat!("un", "safe { f() }");
    assert_eq!(found(boundaries::unsafe_is_confined, &[("crates/link/src/a.rs", bare)]).len(), 1);
    assert_eq!(found(boundaries::unsafe_is_confined, &[("crates/engine/src/process/a.rs", bare)]).len(), 1);
    let sound = format!("// SAFETY: nothing is shared.\n{bare}");
    assert_eq!(found(boundaries::unsafe_is_confined, &[("crates/engine/src/process/a.rs", &sound)]).len(), 0);
    let contract = concat!("/// # Safety\n/// The pointer is valid.\nun", "safe fn f() {}");
    assert_eq!(
        found(boundaries::unsafe_is_confined, &[("crates/engine/src/process/a.rs", contract)]).len(),
        0
    );
    let files = [
        ("crates/daemon/src/faces/rexd/a.rs", "std::fs::read(p)"),
        ("crates/daemon/src/config/mod.rs", "std::fs::read(p)"),
    ];
    assert_eq!(
        found(boundaries::daemon_accesses_files_in_listed_modules, &files),
        ["crates/daemon/src/faces/rexd/a.rs:1"]
    );
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
        found(manifests::crates_depend_only_downwards, &[upward, tested]),
        ["crates/client/Cargo.toml"]
    );
    assert_eq!(
        found(manifests::packages_have_a_ceiling, &[("Cargo.lock", &"[[package]]\n".repeat(431))]).len(),
        1
    );
    assert_eq!(found(sources::start_with_a_sentence, &[("a.rs", "use x;")]).len(), 1);
    let long = "x\n".repeat(501);
    let tested = format!("x\n#[cfg(test)]\n{long}");
    assert_eq!(
        found(sources::are_short, &[("a.rs", &long), ("b.rs", &tested), ("c/tests/d.rs", &long)]),
        ["a.rs"]
    );
    let undone = concat!("to", "do!()");
    assert_eq!(found(sources::are_finished, &[("a.rs", undone)]).len(), 1);
    let sleeping = concat!("sl", "eep(1)");
    let files = [("a.rs", sleeping), ("b/tests/c.rs", sleeping)];
    assert_eq!(found(sources::tests_neither_sleep_nor_are_ignored, &files), ["b/tests/c.rs:1"]);
    let home = concat!("/root", "/.cargo/bin");
    assert_eq!(found(sources::name_no_build_machine, &[("a.md", home)]).len(), 1);
}

#[test]
fn a_link_without_a_target_is_found() {
    let pages = [
        (
            "docs/a.md",
            "[b](b.md#top) [c](../c.md)\n[gone](gone.md) [far](https://example.org)\n```\n[x](y.md)\n```\n",
        ),
        ("docs/b.md", "# Top\n[here](#top) [not](#bottom)\n"),
        ("c.md", "[directory](docs/) `[code](z.md)`\n"),
    ];
    assert_eq!(found(documents::links_resolve, &pages), ["docs/a.md:2", "docs/b.md:2"]);
}

#[test]
fn an_invariant_without_a_test_is_found() {
    let row =
        |number: u32| format!("| [{number}](docs/reference/invariants.md#{number}) | Sentence {number}. |\n");
    let document = ["# Architecture\n".to_owned(), row(1), row(2)].concat();
    let marker = "/// ARCHITECTURE.md, invariant";
    let tests = format!(
        "{marker} 1.\n#[test]\nfn it_is_tested() {{}}\n{marker} 2.\nfn not_a_test() {{}}\n{marker} 3.\n#[test]\nfn unknown() {{}}\n"
    );
    let files = [("ARCHITECTURE.md", document.as_str()), ("a.rs", tests.as_str())];
    assert_eq!(found(documents::invariants_are_tested, &files), ["ARCHITECTURE.md:3", "a.rs:4", "a.rs:6"]);
}
