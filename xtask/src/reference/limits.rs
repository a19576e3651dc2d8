//! The table of limits: every queue, buffer and wait with its value and the behaviour when it is reached.
//!
//! A constant, or a field of a struct `Limits`, is in the table if its doc comment has the form `what is limited; what happens
//! when the limit is reached`. For a field and a constant `MAX_…` the second half may be the second sentence. The value is read
//! from the code.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;

use super::arithmetic::{self, Value};
use crate::tree::{File, Tree};

/// The path of the page.
pub(crate) const PAGE: &str = "docs/reference/limits.md";
/// The second half of a comment names an effect with one of these words; otherwise the constant is not a limit.
const EFFECTS: &[&str] = &[
    "beyond",
    "past",
    "full",
    "next",
    "more",
    "longer",
    "larger",
    "then",
    "oldest",
    "refused",
    "rejected",
    "dropped",
    "cut",
    "truncated",
    "reset",
    "wait",
    "waits",
    "close",
    "closed",
    "ends",
    "error",
];
/// Types of limits, optional ones without their `Option`.
const TYPES: &[&str] = &["usize", "u64", "u32", "u16", "Duration"];

/// Generates the text of the page.
pub(crate) fn page(tree: &Tree) -> Result<String> {
    let mut text = String::from(
        "# Limits\n\nEvery queue, buffer and wait has a limit. Written by `cargo xtask generate` from the doc comments of constants \
         and of the fields of `Limits`, in the form `what is limited; what happens when the limit is reached`; do not edit.\n",
    );
    let constants = constants(tree);
    let mut last = "";
    for file in tree.product_code() {
        let Some((package, path)) =
            file.path.split_once("/src/").filter(|(package, _)| package.starts_with("crates/"))
        else {
            continue;
        };
        for limit in limits(file) {
            let Some(value) = limit.value(file, &constants) else { continue };
            if package != last {
                write!(
                    text,
                    "\n## {package}\n\n| limit | value | when reached | in `{package}/src/` |\n|---|---|---|---|\n"
                )?;
                last = package;
            }
            let Limit { name, reached, item, .. } = &limit;
            writeln!(text, "| {name} | {} | {reached} | `{item}` in `{path}` |", value.show(item, name))?;
        }
    }
    Ok(text)
}

/// A documented constant or field.
#[derive(Debug)]
struct Limit {
    /// What is limited.
    name: String,
    /// What happens when the limit is reached.
    reached: String,
    /// The name of the constant or field.
    item: String,
    /// The right-hand side of a constant.
    expression: Option<String>,
}

impl Limit {
    /// The value of a constant, or the one that a constructor in the same file gives a field; `None` if it is not a limit.
    fn value(&self, file: &File, constants: &BTreeMap<String, String>) -> Option<Value> {
        match &self.expression {
            Some(expression) => arithmetic::evaluate(expression, constants),
            None => Some(default(file, &self.item, constants).unwrap_or(Value::Configured)),
        }
    }
}

fn limits(file: &File) -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut is_limits = false;
    for (_, line) in file.before_tests() {
        let text = line.trim();
        if let Some(words) = text.strip_prefix("///") {
            comment.push(words.trim());
        } else if !text.starts_with("#[") {
            is_limits = (is_limits && line != "}") || text.ends_with("struct Limits {");
            limits.extend(limit(&comment, text).filter(|limit| is_limits || limit.expression.is_some()));
            comment.clear();
        }
    }
    limits
}

fn limit(comment: &[&str], item: &str) -> Option<Limit> {
    let item = item.strip_prefix("pub").map_or(item, |rest| match rest.strip_prefix('(') {
        Some(inside) => inside.split_once(") ").map_or(rest, |(_, rest)| rest),
        None => rest.trim_start(),
    });
    let (item, rest) = item.trim_start_matches("const ").split_once(": ")?;
    let (kind, expression) = match rest.split_once(" = ") {
        Some((kind, value)) => (kind, Some(value.trim_end_matches(';').to_owned())),
        None => (rest.trim_end_matches(','), None),
    };
    let kind = kind.trim_start_matches("Option<").trim_end_matches('>');
    let is_identifier = item.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !TYPES.contains(&kind) || !is_identifier {
        return None;
    }
    let is_limit = expression.is_none() || item.starts_with("MAX_");
    let (name, reached) = halves(&comment.join(" "), is_limit)?;
    Some(Limit { name, reached, item: item.to_owned(), expression })
}

/// What is limited, and what happens when the limit is reached.
fn halves(comment: &str, may_be_two_sentences: bool) -> Option<(String, String)> {
    let (first, rest) = comment.split_once(". ").unwrap_or((comment, ""));
    let second = rest.split(". ").next().filter(|_| may_be_two_sentences);
    let (name, reached) = first.split_once("; ").or_else(|| Some((first, second?)))?;
    let mut words = reached.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let has_effect = words.any(|word| EFFECTS.contains(&word.as_str()));
    has_effect.then(|| (name.trim_end_matches('.').to_owned(), reached.trim_end_matches('.').to_owned()))
}

/// The value that a constructor in the file gives a field: `field: value,`.
fn default(file: &File, field: &str, constants: &BTreeMap<String, String>) -> Option<Value> {
    let values = file
        .code()
        .filter_map(|(_, line)| line.trim().strip_prefix(field)?.strip_prefix(": ")?.strip_suffix(','));
    let values =
        values.map(|value| value.strip_prefix("Some(").and_then(|it| it.strip_suffix(')')).unwrap_or(value));
    values.into_iter().find_map(|value| arithmetic::evaluate(value, constants))
}

/// The right-hand side of every constant, as `NAME` and as `module::NAME`; names with two values are left out.
fn constants(tree: &Tree) -> BTreeMap<String, String> {
    let mut constants: BTreeMap<String, String> = BTreeMap::new();
    let mut ambiguous = Vec::new();
    for file in tree.product_code() {
        let module = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        for (_, line) in file.code() {
            let Some((_, rest)) = line.split_once("const ") else { continue };
            let (Some((name, _)), Some((_, value))) = (rest.split_once(':'), rest.split_once(" = ")) else {
                continue;
            };
            for name in [name.to_owned(), format!("{module}::{name}")] {
                let value = value.trim_end_matches(';').to_owned();
                if constants.insert(name.clone(), value.clone()).is_some_and(|before| before != value) {
                    ambiguous.push(name);
                }
            }
        }
    }
    constants.retain(|name, _| !ambiguous.contains(name));
    constants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_found_by_their_comments_and_have_the_value_of_the_code() {
        let text = "/// Messages in the inbox; senders wait when it is full.\npub const INBOX: usize = 256;\n\
                    /// The first id; ids count from there.\nconst FIRST_ID: u64 = 1;\n\
                    /// Bytes of a line. A longer line is refused.\nconst MAX_LINE: usize = 64 << 20;\n\
                    pub struct Limits {\n    /// How long a session is kept; then it ends.\n    pub kept: Duration,\n}\n\
                    Limits {\n    kept: Duration::from_secs(30),\n}\n";
        let file = File { path: "crates/a/src/b.rs".to_owned(), text: text.to_owned() };
        let page = page(&Tree { files: vec![file] }).unwrap();
        let rows: Vec<&str> = page.lines().filter(|line| line.contains(" in `b.rs` |")).collect();
        assert_eq!(
            rows,
            [
                "| Messages in the inbox | 256 | senders wait when it is full | `INBOX` in `b.rs` |",
                "| Bytes of a line | 64 MiB | A longer line is refused | `MAX_LINE` in `b.rs` |",
                "| How long a session is kept | 30 s | then it ends | `kept` in `b.rs` |",
            ]
        );
    }
}
