//! The rules of the repository. Each rule is a function from the tree to its violations, and a test.

mod boundaries;
mod documents;
mod manifests;
mod names;
mod paths;
mod sources;

use anyhow::{Result, bail};

use crate::tree::Tree;

/// A place that breaks a rule.
#[derive(Debug)]
pub(crate) struct Violation {
    /// The file, with `:line` where the violation has one.
    pub(crate) place: String,
    pub(crate) found: String,
    /// What to do instead.
    pub(crate) fix: &'static str,
}

impl Violation {
    pub(crate) fn new(place: impl Into<String>, found: impl Into<String>, fix: &'static str) -> Violation {
        Violation { place: place.into(), found: found.into(), fix }
    }
}

type Rule = fn(&Tree) -> Vec<Violation>;

/// Every rule with its sentence.
const RULES: &[(&str, Rule)] = &[
    ("the engine is independent of protocols", boundaries::engine_is_independent_of_protocols),
    ("the engine contains no protocol words", boundaries::engine_has_no_protocol_words),
    ("wire does no input or output", boundaries::wire_does_no_io),
    ("sfmd is pure, and only the daemon and the bench use it", boundaries::sfmd_is_pure),
    ("only the daemon depends on the engine", boundaries::only_the_daemon_depends_on_the_engine),
    ("a crate depends only on crates below it", manifests::crates_depend_only_downwards),
    ("only the hub has a database", boundaries::only_the_hub_has_a_database),
    ("a face never names another face", boundaries::faces_are_independent),
    ("every task has an owner", boundaries::tasks_have_an_owner),
    ("unsafe code is in listed modules and gives its reason", boundaries::unsafe_is_confined),
    ("the daemon accesses files only in listed modules", boundaries::daemon_accesses_files_in_listed_modules),
    ("every dependency comes from the workspace", manifests::dependencies_come_from_the_workspace),
    ("the number of packages is limited", manifests::packages_have_a_ceiling),
    ("every source starts with a sentence", sources::start_with_a_sentence),
    ("no source is longer than 500 lines without its tests", sources::are_short),
    ("no source contains unfinished code", sources::are_finished),
    ("no test sleeps or is ignored", sources::tests_neither_sleep_nor_are_ignored),
    ("no file names a path of a build machine", sources::name_no_build_machine),
    ("a public type name is defined in at most two modules", names::type_names_are_unambiguous),
    ("a doc comment on a public type or function has at least four words", names::comments_are_sentences),
    ("links in documents lead to existing files and headings", documents::links_resolve),
    ("paths in documents exist", paths::paths_exist),
    ("every invariant has a test", documents::invariants_are_tested),
];

/// Checks every rule and reports all violations.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read()?;
    let mut report = Vec::new();
    let mut count = 0;
    for (sentence, rule) in RULES {
        let violations = rule(&tree);
        if violations.is_empty() {
            continue;
        }
        count += violations.len();
        report.push(format!("{sentence}: {} violations", violations.len()));
        report.extend(
            violations.iter().map(|it| format!("  {}: {}\n    hint: {}", it.place, it.found, it.fix)),
        );
        report.push(String::new());
    }
    match count {
        0 => Ok(()),
        _ => bail!("{}\n{count} violations", report.join("\n")),
    }
}

#[cfg(test)]
mod tests;
