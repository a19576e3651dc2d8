//! The grammar of `/set`: assignments on lines and in fenced blocks.

use crate::scan::{LineKind, is_name, lines};

/// Where a variable is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableKind {
    /// Until the topic is closed: `{x}`.
    Session,
    /// On disk: `$X`.
    Persistent,
}

/// One variable and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableAssignment {
    /// Where the variable is kept.
    pub kind: VariableKind,
    /// The name without `{ }` or `$`.
    pub name: String,
    /// The new value.
    pub value: String,
    /// Whether a fenced block holds the value.
    pub is_block: bool,
}

/// Assignments in the order in which they apply, and the line that ends them if it is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignments {
    /// Lines first, then blocks.
    pub valid: Vec<VariableAssignment>,
    /// The first line that is not an assignment; nothing after it applies.
    pub invalid: Option<String>,
}

/// Reads the arguments and the body of `/set`.
pub fn parse(args: &str, body: Option<&str>) -> Assignments {
    let mut found = Assignments::default();
    let mut blocks: Vec<VariableAssignment> = Vec::new();
    let mut plain = vec![args];
    let mut is_named = false;
    for line in lines(body.unwrap_or_default()) {
        match line.kind {
            LineKind::Text => plain.push(line.text),
            LineKind::Opening(info) => {
                is_named = target(info).is_some();
                match target(info) {
                    Some((kind, name)) => {
                        let name = name.to_owned();
                        blocks.push(VariableAssignment { kind, name, value: String::new(), is_block: true });
                    }
                    None => plain.push(line.text),
                }
            }
            LineKind::Inside => {
                if let Some(block) = blocks.last_mut().filter(|_| is_named) {
                    block.value.push_str(line.text);
                    block.value.push('\n');
                }
            }
            LineKind::Closing => {}
        }
    }
    for line in plain.into_iter().map(str::trim).filter(|line| !line.is_empty()) {
        match assignment(line) {
            Some(assignment) => found.valid.push(assignment),
            None => {
                found.invalid = Some(line.to_owned());
                return found;
            }
        }
    }
    for block in &mut blocks {
        block.value = block.value.trim().to_owned();
    }
    found.valid.extend(blocks);
    found
}

fn assignment(line: &str) -> Option<VariableAssignment> {
    let (left, right) = line.split_once('=')?;
    let left = left.trim();
    let (kind, name) = target(left).or_else(|| is_name(left).then_some((VariableKind::Session, left)))?;
    let value = unquoted(right.trim())?;
    Some(VariableAssignment { kind, name: name.to_owned(), value: value.to_owned(), is_block: false })
}

/// `{x}` or `$X`.
fn target(text: &str) -> Option<(VariableKind, &str)> {
    let session = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let session = session.map(|name| (VariableKind::Session, name));
    let persistent = text.strip_prefix('$').map(|name| (VariableKind::Persistent, name));
    session.or(persistent).filter(|(_, name)| is_name(name))
}

/// A quoted value without its quotes, if they enclose all of it and do not occur inside.
fn unquoted(value: &str) -> Option<&str> {
    if value.is_empty() {
        return None;
    }
    let inside =
        |quote: char| value.strip_prefix(quote)?.strip_suffix(quote).filter(|text| !text.contains(quote));
    Some(inside('"').or_else(|| inside('\'')).unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(args: &str, body: Option<&str>) -> (Vec<String>, Option<String>) {
        let found = parse(args, body);
        let show = |it: &VariableAssignment| match it.kind {
            VariableKind::Session => format!("{{{}}}={}", it.name, it.value),
            VariableKind::Persistent => format!("${}={}", it.name, it.value),
        };
        (found.valid.iter().map(show).collect(), found.invalid)
    }

    #[test]
    fn assignments_have_names_and_values() {
        let table = [
            ("{x} = \"v\"", "{x}=v"),
            ("x = 'a b'", "{x}=a b"),
            ("x=v w ", "{x}=v w"),
            ("$X = \"\"", "$X="),
            ("x = \"a\" b", "{x}=\"a\" b"),
            ("x = \"a\"b\"", "{x}=\"a\"b\""),
            ("x = a=b", "{x}=a=b"),
        ];
        for (args, expected) in table {
            assert_eq!(shown(args, None), (vec![expected.to_owned()], None), "{args}");
        }
        for args in ["NAME value", "1x = 2", "{x = 1", "x =", "${x} = 1"] {
            assert_eq!(shown(args, None), (vec![], Some(args.to_owned())), "{args}");
        }
    }

    #[test]
    fn lines_apply_before_blocks() {
        let body = "a = 1\n````{t}\none\n```\ntwo\n````\n\n```$K\nx\n```\nb = 2";
        let expected = ["{a}=1", "{b}=2", "{t}=one\n```\ntwo", "$K=x"].map(str::to_owned).to_vec();
        assert_eq!(shown("", Some(body)), (expected, None));
        assert_eq!(shown("a = 1", Some("bad\nc = 2")), (vec!["{a}=1".to_owned()], Some("bad".to_owned())));
    }
}
