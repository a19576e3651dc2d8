//! Rules about the names of public types and the comments that describe them.

use std::collections::BTreeMap;

use super::Violation;
use crate::tree::{File, Tree};

/// More modules than this with a type of one name make the name ambiguous.
const MODULES_PER_NAME: usize = 2;
/// Names that their module path qualifies by convention.
const QUALIFIED_BY_MODULE: &[&str] = &["Error", "Config", "Limits", "Session", "Connection"];
/// Types in here have the names of a specification.
const SPECIFIED: &str = "crates/wire/";
const SHORTEST_COMMENT: usize = 4;

/// A type name with any `pub` is defined in at most two modules of the workspace.
pub(super) fn type_names_are_unambiguous(tree: &Tree) -> Vec<Violation> {
    let mut definitions: BTreeMap<&str, Vec<(&File, usize)>> = BTreeMap::new();
    for file in tree.product_code().filter(|file| !file.path.starts_with(SPECIFIED)) {
        for (number, line) in file.code() {
            if let Some(name) = public_type(line).filter(|name| !QUALIFIED_BY_MODULE.contains(name)) {
                let places = definitions.entry(name).or_default();
                if places.last().is_none_or(|(last, _)| last.path != file.path) {
                    places.push((file, number));
                }
            }
        }
    }
    let ambiguous = definitions.into_iter().filter(|(_, places)| places.len() > MODULES_PER_NAME);
    ambiguous
        .flat_map(|(name, places)| {
            let count = places.len();
            places.into_iter().map(move |(file, number)| {
                let found = format!("`{name}` is defined in {count} modules (limit {MODULES_PER_NAME})");
                Violation::new(
                    format!("{}:{number}", file.path),
                    found,
                    "rename or qualify it: `SessionMessage`, not `Message`",
                )
            })
        })
        .collect()
}

/// A doc comment on a public type or function has at least four words.
pub(super) fn comments_are_sentences(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.product_code() {
        let mut comment = String::new();
        let mut is_attribute = false;
        for (number, line) in file.before_tests() {
            let text = line.trim();
            is_attribute |= text.starts_with("#[");
            if let Some(words) = text.strip_prefix("///") {
                comment.push_str(words);
                comment.push(' ');
            } else if is_attribute {
                is_attribute = !text.ends_with(']');
            } else {
                let words = comment.split_whitespace().count();
                let is_item = public_type(line).or_else(|| public_function(line)).is_some();
                if is_item && (1..SHORTEST_COMMENT).contains(&words) {
                    let found =
                        format!("{words} words on `{}`: {}", text.trim_end_matches(" {"), comment.trim());
                    let place = format!("{}:{number}", file.path);
                    violations.push(Violation::new(
                        place,
                        found,
                        "write at least four words that add to the name",
                    ));
                }
                comment.clear();
            }
        }
    }
    violations
}

/// The name of the type that a line defines with any `pub`.
fn public_type(line: &str) -> Option<&str> {
    let rest = after_pub(line)?;
    let rest =
        ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    Some(identifier(rest)).filter(|name| !name.is_empty())
}

/// The name of the function that a line defines with any `pub`.
fn public_function(line: &str) -> Option<&str> {
    let mut rest = after_pub(line)?;
    while let Some(next) = ["const ", "async ", "unsafe "].iter().find_map(|word| rest.strip_prefix(word)) {
        rest = next;
    }
    Some(identifier(rest.strip_prefix("fn ")?))
}

/// The rest of a line that starts with `pub`, `pub(crate)`, `pub(super)` or `pub(in …)`.
fn after_pub(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(inside) => inside.split_once(')')?.1,
        None => rest,
    };
    rest.strip_prefix(' ')
}

fn identifier(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}
