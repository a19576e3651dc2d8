//! Explains params that do not fit their type: which member, what was expected and what was found.
//!
//! serde_json reports a mismatch as text and a position in the params. Both are read here, so that nothing is compiled once
//! more for every type of params.

use serde_json::error::Category;
use serde_json::json;

use super::RpcError;
use crate::limits::MAX_QUOTED_BYTES;

/// The error response for params that `error` was reported for.
#[cold]
pub(super) fn explain(text: &str, error: &serde_json::Error) -> RpcError {
    let message = error.to_string();
    let reason = message.rsplit_once(" at line ").map_or(message.as_str(), |(reason, _)| reason);
    let path = member_at(text.get(..offset(text, error)).unwrap_or_default());
    if let Some(name) = reason.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        let field = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        return RpcError::invalid_params(format!("invalid params: {field}: missing"))
            .with_data(json!({ "field": field, "expected": "a value" }));
    }
    let mismatch = reason.strip_prefix("invalid type: ").or_else(|| reason.strip_prefix("invalid value: "));
    match mismatch.and_then(|mismatch| mismatch.rsplit_once(", expected ")) {
        Some((got, expected)) => {
            let (expected, got) = (kind(expected), shorten(got));
            RpcError::invalid_params(format!("invalid params: {path}: expected {expected}, got {got}"))
                .with_data(json!({ "field": path, "expected": expected, "got": got }))
        }
        // Only the text is wrong, such as a member that occurs twice.
        None if path.is_empty() || error.classify() != Category::Data => {
            let reason = shorten(&message);
            RpcError::invalid_params(format!("invalid params: {reason}"))
                .with_data(json!({ "reason": reason }))
        }
        None => {
            let reason = shorten(reason);
            RpcError::invalid_params(format!("invalid params: {path}: {reason}"))
                .with_data(json!({ "field": path, "reason": reason }))
        }
    }
}

/// The kind that JSON has for a type of Rust; the description of any other type.
fn kind(expected: &str) -> &str {
    match expected {
        "a string" | "a borrowed string" => "string",
        "a boolean" => "boolean",
        "a sequence" => "array",
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" | "usize" => "integer",
        "a map" => "object",
        _ if expected.starts_with("struct ") => "object",
        _ => expected,
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_BYTES) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The number of bytes that were read when the error was found.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    lines.map(str::len).sum::<usize>() + error.column()
}

/// An array or object that is not complete.
enum Container {
    Array {
        index: usize,
    },
    /// With the name of the member whose value is being read.
    Object {
        member: Option<String>,
    },
}

/// The names and indices that lead to the last value in the beginning of a JSON text, which may be complete; empty for the
/// whole text.
fn member_at(beginning: &str) -> String {
    let mut containers: Vec<Container> = Vec::new();
    let (mut last_string, mut at) = ("", 0);
    while let Some(byte) = beginning.as_bytes().get(at) {
        let mut length = 1;
        match (byte, containers.last_mut()) {
            (b'"', _) => {
                let rest = beginning.get(at..).unwrap_or_default();
                length = string_length(rest);
                last_string = rest.get(..length).unwrap_or_default();
            }
            (b'[', _) => containers.push(Container::Array { index: 0 }),
            (b'{', _) => containers.push(Container::Object { member: None }),
            (b']' | b'}', _) => drop(containers.pop()),
            (b',', Some(Container::Array { index })) => *index += 1,
            (b',', Some(Container::Object { member })) => *member = None,
            (b':', Some(Container::Object { member })) => *member = serde_json::from_str(last_string).ok(),
            _ => {}
        }
        at += length;
    }
    let mut path = String::new();
    for container in containers {
        match container {
            Container::Array { index } => path.push_str(&format!("[{index}]")),
            Container::Object { member: None } => {}
            Container::Object { member: Some(name) } => {
                path.push_str(if path.is_empty() { "" } else { "." });
                path.push_str(&name);
            }
        }
    }
    path
}

/// The length of the string that a text begins with, with its quotes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_is_named_by_its_path() {
        for (beginning, path) in [
            ("", ""),
            ("{", ""),
            ("{\"a\":1}", ""),
            (r#"{"a""#, ""),
            (r#"{"a":"#, "a"),
            (r#"{"a": 1"#, "a"),
            (r#"{"a": 1, "b": "x"#, "b"),
            (r#"{"a": [1, {"b": tru"#, "a[1].b"),
            (r#"{"a": [1, {"b": true}"#, "a[1]"),
            (r#"{"a": [[1], ["#, "a[1][0]"),
            (r#"{"q\"uo[te": {"b,{": 1"#, "q\"uo[te.b,{"),
            (r#"{"é": "ü", "ü": {}"#, "ü"),
        ] {
            assert_eq!(member_at(beginning), path, "{beginning}");
        }
    }
}
