//! The table of limits: every queue, buffer and wait with its value and the behaviour when it is reached.
//!
//! A constant or a field is in the table if its doc comment has a line `When reached: …`. The name is the first sentence of the
//! comment; the value is read from the code.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::arithmetic::{self, Value};
use crate::tree::{File, Tree};

/// The path of the page.
pub(crate) const PAGE: &str = "docs/reference/limits.md";
const MARKER: &str = "When reached: ";

/// Generates the text of the page.
pub(crate) fn page(tree: &Tree) -> Result<String> {
    let mut text = String::from(
        "# Limits\n\nEvery queue, buffer and wait has a limit. Written by `cargo xtask generate` from the doc comments of constants \
         and fields that have a line `When reached:`; do not edit.\n",
    );
    let constants = constants(tree);
    let mut last = "";
    for file in tree.product_code() {
        let package = file.path.split("/src/").next().unwrap_or_default();
        for limit in limits(file) {
            let value = limit
                .value(file, &constants)
                .with_context(|| format!("{}: no value for `{}`", file.path, limit.item))?;
            if package != last {
                write!(
                    text,
                    "\n## {package}\n\n| limit | value | when reached | in `{package}/` |\n|---|---|---|---|\n"
                )?;
                last = package;
            }
            let path = file.path.strip_prefix(package).unwrap_or(&file.path).trim_start_matches('/');
            writeln!(
                text,
                "| {} | {} | {} | `{}` in `{path}` |",
                limit.name,
                value.show(&limit.item),
                limit.reached,
                limit.item
            )?;
        }
    }
    Ok(text)
}

/// A constant or field with a line `When reached:`.
#[derive(Debug)]
struct Limit {
    /// The first sentence of its comment, without the full stop.
    name: String,
    reached: String,
    /// The name of the constant or field.
    item: String,
    /// The right-hand side of a constant.
    expression: Option<String>,
}

impl Limit {
    /// The value of a constant, or the one that a constructor in the same file gives a field.
    fn value(&self, file: &File, constants: &BTreeMap<String, String>) -> Option<Value> {
        let expression = match &self.expression {
            Some(expression) => expression.clone(),
            None => initialiser(file, &self.item)?,
        };
        arithmetic::evaluate(&expression, constants).or(Some(Value::Text(expression)))
    }
}

fn limits(file: &File) -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for (_, line) in file.before_tests() {
        let text = line.trim();
        if let Some(words) = text.strip_prefix("///") {
            comment.push(words.trim());
        } else if !text.starts_with("#[") {
            limits.extend(limit(&comment, text));
            comment.clear();
        }
    }
    limits
}

fn limit(comment: &[&str], item: &str) -> Option<Limit> {
    let start = comment.iter().position(|line| line.starts_with(MARKER))?;
    let name = comment[..start].join(" ");
    let name = name.split(". ").next().unwrap_or_default().trim().trim_end_matches('.').to_owned();
    let reached = comment[start..].join(" ");
    let reached = reached.strip_prefix(MARKER)?.trim_end_matches('.').to_owned();
    let item = item.split_once("const ").map_or(item, |(_, rest)| rest).trim_start_matches("pub ");
    let item = item.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
    let (item_name, rest) = item.split_once(':')?;
    let expression = rest.split_once(" = ").map(|(_, value)| value.trim_end_matches(';').to_owned());
    Some(Limit { name, reached, item: item_name.to_owned(), expression })
}

/// The value that a constructor in the file gives a field: `field: value,`.
fn initialiser(file: &File, field: &str) -> Option<String> {
    let values = file.code().filter_map(|(_, line)| line.trim().strip_prefix(field)?.strip_prefix(": "));
    let values = values.filter_map(|value| value.strip_suffix(','));
    // The definition of the field has a type instead of a value.
    values
        .filter(|value| value.contains(|c: char| c.is_ascii_digit() || c == '(' || c.is_lowercase()))
        .last()
        .map(str::to_owned)
}

/// The right-hand side of every constant of the workspace, by name; constants of one name with two values are left out.
fn constants(tree: &Tree) -> BTreeMap<String, String> {
    let mut constants: BTreeMap<String, String> = BTreeMap::new();
    let mut ambiguous = Vec::new();
    for (_, line) in tree.product_code().flat_map(File::code) {
        let Some((_, rest)) = line.split_once("const ") else { continue };
        let (Some((name, _)), Some((_, value))) = (rest.split_once(':'), rest.split_once(" = ")) else {
            continue;
        };
        let value = value.trim_end_matches(';').to_owned();
        if constants.insert(name.to_owned(), value.clone()).is_some_and(|before| before != value) {
            ambiguous.push(name.to_owned());
        }
    }
    constants.retain(|name, _| !ambiguous.contains(name));
    constants
}
