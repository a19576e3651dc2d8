//! The rule that a path in a document exists, and the test that it names there.

use super::Violation;
use crate::tree::{File, Tree};

/// A backticked path that begins with one of these is a path of this repository.
const TOP: &[&str] = &["crates", "docs", "spec", "xtask", "bench", "fuzz", "packaging", "examples", ".ci"];
/// A path may leave out `crates/`: `daemon/src/main.rs`.
const INSIDE_CRATES: &[&str] = &["src", "tests", "examples"];
/// Documents about the past, and generated ones.
const UNCHECKED: &[&str] = &["docs/decisions/", "docs/reference/", "CHANGELOG.md"];
/// Text that marks a path as a pattern to fill in.
const PLACEHOLDERS: &[&str] = &["NAME", "<", "…", "$"];

/// A backticked path of a document is a file or directory of the repository.
pub(super) fn paths_exist(tree: &Tree) -> Vec<Violation> {
    let documents = tree.files.iter().filter(|file| {
        file.path.ends_with(".md") && !UNCHECKED.iter().any(|path| file.path.starts_with(path))
    });
    let mut violations = Vec::new();
    for file in documents {
        for (number, word) in code_spans(file) {
            let Some(path) = repository_path(tree, word) else { continue };
            if let Some(test) = missing_test(tree, &path, word) {
                violations.push(Violation::new(
                    format!("{}:{number}", file.path),
                    format!("no function {test} in {path}"),
                    "correct the name of the test, or remove it",
                ));
            }
            for path in alternatives(&path).into_iter().filter(|path| !matches_any(tree, path)) {
                violations.push(Violation::new(
                    format!("{}:{number}", file.path),
                    format!("no file or directory {path}"),
                    "correct the path, or remove it",
                ));
            }
        }
    }
    violations
}

/// The function that `path::function` names, if the file does not contain it.
fn missing_test<'a>(tree: &Tree, path: &str, word: &'a str) -> Option<&'a str> {
    let (_, name) = word.split_once(".rs::")?;
    let file = tree.file(path)?;
    let head = format!("fn {name}(");
    (!file.lines().any(|(_, line)| line.contains(&head))).then_some(name)
}

/// The words of inline code with their lines; fenced blocks are left out.
fn code_spans(file: &File) -> Vec<(usize, &str)> {
    let mut spans = Vec::new();
    let mut is_fenced = false;
    for (number, line) in file.lines() {
        is_fenced ^= line.trim_start().starts_with("```");
        if !is_fenced {
            let words = line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
            spans.extend(words.map(|word| (number, word)));
        }
    }
    spans
}

/// The path from the root of the repository, if the word has the form of one.
fn repository_path(tree: &Tree, word: &str) -> Option<String> {
    let word = word.trim_matches(['"', '\'', '(', ')', ',', ';', '.']).split(['#', ':']).next()?;
    let (first, rest) = word.split_once('/')?;
    if PLACEHOLDERS.iter().any(|mark| word.contains(mark)) {
        return None;
    }
    let inside = rest.split('/').next().unwrap_or_default();
    if TOP.contains(&first) {
        Some(word.to_owned())
    } else if INSIDE_CRATES.contains(&inside) && tree.exists(&format!("crates/{first}")) {
        Some(format!("crates/{word}"))
    } else {
        None
    }
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn alternatives(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (list, after))) => {
            list.split(',').flat_map(|each| alternatives(&format!("{before}{each}{after}"))).collect()
        }
        None => vec![path.to_owned()],
    }
}

/// Whether a path exists, where `*` stands for any part of a name.
fn matches_any(tree: &Tree, path: &str) -> bool {
    match path.contains('*') {
        false => tree.exists(path),
        true => {
            let pattern: Vec<&str> = path.trim_end_matches('/').split('/').collect();
            tree.files.iter().any(|file| {
                let names: Vec<&str> = file.path.split('/').collect();
                names.len() >= pattern.len()
                    && pattern.iter().zip(&names).all(|(pattern, name)| matches_name(pattern, name))
            })
        }
    }
}

fn matches_name(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => pattern == name,
    }
}
