//! Rules about documents: links resolve, and invariants have tests.

use std::collections::HashSet;

use super::Violation;
use crate::tree::{File, Tree};

/// An invariant is an item `1. **sentence** … held by `test_name`, `another_test`` of ARCHITECTURE.md.
pub(super) fn invariants_are_tested(tree: &Tree) -> Vec<Violation> {
    let Some(document) = tree.file("ARCHITECTURE.md") else { return Vec::new() };
    let tests = test_names(tree);
    let mut violations = Vec::new();
    for (number, item) in items(&document.text) {
        let place = format!("ARCHITECTURE.md:{number}");
        let names: Vec<&str> = match item.split_once("held by") {
            Some((_, held)) => held.split('`').skip(1).step_by(2).collect(),
            None => Vec::new(),
        };
        if names.is_empty() {
            violations.push(Violation::new(&place, item.clone(), "end it with: held by `name_of_the_test`"));
        }
        for name in names.into_iter().filter(|name| !tests.contains(name.rsplit("::").next().unwrap_or(name)))
        {
            violations.push(Violation::new(
                &place,
                format!("no test is called {name}"),
                "write the test, or name the right one",
            ));
        }
    }
    violations
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

/// Links in documents lead to files, directories and headings of the repository.
pub(super) fn links_resolve(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (number, link) in links(file) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = match path {
                "" => file.path.clone(),
                path => joined(&file.path, path),
            };
            let page = tree.file(&path);
            let has_heading = heading.is_empty() || page.is_some_and(|page| has_heading(page, heading));
            if !tree.exists(&path) || !has_heading {
                let place = format!("{}:{number}", file.path);
                violations.push(Violation::new(place, link, "correct the link, or write the page"));
            }
        }
    }
    violations
}

/// The targets of links within the repository, with their lines; code is left out.
fn links(file: &File) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut is_code = false;
    for (number, line) in file.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let texts = line.split('`').step_by(2).filter(|_| !is_code);
        for text in texts.flat_map(|text| text.split("](").skip(1)) {
            let link = text.split(')').next().unwrap_or_default();
            if !link.contains("://") {
                links.push((number, link));
            }
        }
    }
    links
}

/// A path relative to the directory of a file.
fn joined(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether a page has a heading with this anchor.
fn has_heading(page: &File, name: &str) -> bool {
    let slug = |heading: &str| -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
    };
    page.lines().any(|(_, line)| line.starts_with('#') && slug(line.trim_start_matches('#')) == name)
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
