//! Rules about documents: links resolve, and invariants have tests.

use super::Violation;
use crate::reference::invariants::{self, InvariantMarker};
use crate::tree::{File, Tree};

/// Every invariant has a test, and every comment on a test names an invariant.
pub(super) fn invariants_are_tested(tree: &Tree) -> Vec<Violation> {
    let (invariants, markers) = (invariants::invariants(tree), invariants::markers(tree));
    let mut violations = Vec::new();
    for invariant in &invariants {
        let is_tested =
            |marker: &InvariantMarker<'_>| marker.number == Some(invariant.number) && marker.test.is_some();
        if !markers.iter().any(is_tested) {
            let fix = "write `/// ARCHITECTURE.md, invariant N.` above the test that holds it";
            violations.push(Violation::new(
                &invariant.place,
                format!("no test for: {}", invariant.sentence),
                fix,
            ));
        }
    }
    for marker in &markers {
        let place = format!("{}:{}", marker.file.path, marker.line);
        if !invariants.iter().any(|invariant| Some(invariant.number) == marker.number) {
            violations.push(Violation::new(
                place,
                "no such invariant in ARCHITECTURE.md",
                "correct the number",
            ));
        } else if marker.test.is_none() {
            violations.push(Violation::new(
                place,
                "the function below is not a test",
                "move the comment to a test",
            ));
        }
    }
    violations
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
