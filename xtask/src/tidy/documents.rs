//! Rules about what the documents promise.

use std::collections::HashSet;

use super::Broken;
use crate::tree::Tree;

/// An invariant is an item `1. **sentence** … held by `test_name`, `another_test`` of ARCHITECTURE.md.
pub(super) fn invariants_are_held(tree: &Tree) -> Vec<Broken> {
    let Some(document) = tree.file("ARCHITECTURE.md") else { return Vec::new() };
    let tests = test_names(tree);
    let mut broken = Vec::new();
    for (number, item) in items(&document.text) {
        let place = format!("ARCHITECTURE.md:{number}");
        let names: Vec<&str> = match item.split_once("held by") {
            Some((_, held)) => held.split('`').skip(1).step_by(2).collect(),
            None => Vec::new(),
        };
        if names.is_empty() {
            broken.push(Broken::new(&place, item.clone(), "end it with: held by `name_of_the_test`"));
        }
        for name in names.into_iter().filter(|name| !tests.contains(name.rsplit("::").next().unwrap_or(name)))
        {
            broken.push(Broken::new(
                &place,
                format!("no test is called {name}"),
                "write the test, or name the one that holds it",
            ));
        }
    }
    broken
}

/// Numbered items that begin in bold, each with its continuation lines.
fn items(text: &str) -> Vec<(usize, String)> {
    let mut items: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (index, line) in text.lines().enumerate() {
        let is_start = line.split_once(". **").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if is_start {
            items.push((index + 1, line.to_owned()));
            is_open = true;
        } else if line.starts_with("   ") && is_open {
            if let Some((_, item)) = items.last_mut() {
                item.push(' ');
                item.push_str(line.trim());
            }
        } else {
            is_open = false;
        }
    }
    items
}

/// The names of all functions that follow a test attribute, and of those inside `proptest!`.
fn test_names(tree: &Tree) -> HashSet<&str> {
    let mut names = HashSet::new();
    for file in tree.rust("") {
        let mut is_test = false;
        for line in file.text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
                names.extend(rest.split('(').next());
                is_test = false;
            }
        }
    }
    names
}
