//! Rules about the text of source files.

use super::Violation;
use crate::tree::{File, Tree};

const LONGEST: usize = 500;

pub(super) fn start_with_a_sentence(tree: &Tree) -> Vec<Violation> {
    let starts = |file: &&File| {
        file.text.lines().next().is_some_and(|line| line.starts_with("//! ") && line.len() > 8)
    };
    let others = tree.rust("").filter(|file| !starts(file));
    others
        .map(|file| {
            Violation::new(
                &file.path,
                "the first line is not a `//!` sentence",
                "start with `//! ` and the purpose of the file",
            )
        })
        .collect()
}

pub(super) fn are_short(tree: &Tree) -> Vec<Violation> {
    let length = |file: &File| file.before_tests().count();
    let long = tree.rust("").filter(|file| !file.is_test() && length(file) > LONGEST);
    long.map(|file| {
        Violation::new(
            &file.path,
            format!("{} lines", length(file)),
            "split it into two files, one purpose each",
        )
    })
    .collect()
}

pub(super) fn are_finished(tree: &Tree) -> Vec<Violation> {
    let words = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!(")];
    find(tree, &words, |_| true, "finish it, or remove it")
}

pub(super) fn tests_neither_sleep_nor_are_ignored(tree: &Tree) -> Vec<Violation> {
    let mut violations = find(tree, &[concat!("#[", "ignore")], |_| true, "repair the test or remove it");
    let fix = "wait for the event itself, or use tokio's paused clock";
    for file in tree.rust("") {
        let start = match file.is_test() {
            true => Some(0),
            false => file.text.lines().position(|line| line.starts_with("#[cfg(test)]")),
        };
        let Some(start) = start else { continue };
        for (number, line) in file.lines().skip(start) {
            if line.contains(concat!("sleep", "(")) && !line.trim_start().starts_with("//") {
                violations.push(Violation::new(format!("{}:{number}", file.path), line.trim(), fix));
            }
        }
    }
    violations
}

pub(super) fn name_no_build_machine(tree: &Tree) -> Vec<Violation> {
    let root = crate::tree::root().display().to_string();
    let mut needles = vec![concat!("/root", "/.cargo").to_owned(), concat!("/home", "/runner").to_owned()];
    // A short checkout path such as `/src` would match ordinary text.
    needles.extend(Some(root).filter(|root| root.len() >= 10));
    let mut violations = Vec::new();
    for file in &tree.files {
        for (number, line) in
            file.lines().filter(|(_, line)| needles.iter().any(|needle| line.contains(needle)))
        {
            let place = format!("{}:{number}", file.path);
            let shown: String = line.trim().chars().take(120).collect();
            violations.push(Violation::new(
                place,
                shown,
                "write a path relative to the project or take it from the environment",
            ));
        }
    }
    violations
}

fn find(tree: &Tree, words: &[&str], of: impl Fn(&File) -> bool, fix: &'static str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust("").filter(|file| of(file)) {
        for (number, line) in file.lines().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if words.iter().any(|word| line.contains(word)) {
                violations.push(Violation::new(format!("{}:{number}", file.path), line.trim(), fix));
            }
        }
    }
    violations
}
