//! The rules of the tree. Each is a function from the tree to what breaks it, and a test named as the rule.

mod borders;
mod documents;
mod manifests;
mod sources;

use anyhow::{Result, bail};

use crate::tree::Tree;

/// Where a rule is broken, and what to do about it.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) place: String,
    pub(crate) what: String,
    pub(crate) instead: &'static str,
}

impl Broken {
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>, instead: &'static str) -> Broken {
        Broken { place: place.into(), what: what.into(), instead }
    }
}

type Rule = fn(&Tree) -> Vec<Broken>;

/// Every rule with its sentence.
const RULES: &[(&str, Rule)] = &[
    ("the engine knows no protocol", borders::engine_knows_no_protocol),
    ("the engine has no word of a protocol", borders::engine_has_no_protocol_word),
    ("wire does no input or output", borders::wire_does_no_io),
    ("only the daemon depends on the engine", borders::only_the_daemon_depends_on_the_engine),
    ("a crate knows only those below it", manifests::crates_know_only_those_below),
    ("only the hub knows a database", borders::only_the_hub_knows_a_database),
    ("a face never names another face", borders::faces_are_strangers),
    ("unsafe code stands in listed places and says why it is sound", borders::unsafe_is_confined),
    ("the daemon touches files only in listed places", borders::daemon_touches_few_files),
    ("every dependency comes from the workspace", manifests::dependencies_come_from_the_workspace),
    ("the number of packages has a ceiling", manifests::packages_have_a_ceiling),
    ("every source opens with a sentence", sources::open_with_a_sentence),
    ("no source is longer than 500 lines without its tests", sources::are_short),
    ("nothing is left to do", sources::leave_nothing_to_do),
    ("no test sleeps or is ignored", sources::tests_neither_sleep_nor_are_ignored),
    ("no file names a path of a build machine", sources::name_no_build_machine),
    ("documents link to what exists", documents::links_lead_somewhere),
    ("every invariant names a test that exists", documents::invariants_are_held),
];

/// Holds the tree to every rule and tells all that is broken.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read()?;
    let mut report = Vec::new();
    for (sentence, rule) in RULES {
        for broken in rule(&tree) {
            report.push(format!("{sentence}\n  {}: {}\n  {}", broken.place, broken.what, broken.instead));
        }
    }
    match report.is_empty() {
        true => Ok(()),
        false => bail!("{}\n\n{} places to tidy", report.join("\n\n"), report.len()),
    }
}

#[cfg(test)]
mod tests;
