//! Reads the records of an audit file and prepares them for display.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde_json::Value;

/// One record of an audit file.
#[derive(Debug, Clone)]
pub struct AuditEntry {
    /// The number of its line, from 1.
    pub number: u64,
    /// The line as it is in the file.
    pub line: String,
    /// The parsed line.
    pub value: Value,
}

/// The maximal length of a line; the writer's lines are shorter.
const MAX_LINE_BYTES: u64 = 4 * 1024 * 1024;

/// Calls `each` for every record of a file, in order. Returns the number of lines that are not records, such as the
/// incomplete line of a crash. A file without any record is not an audit file. Hashes are not checked here.
pub fn read_records(path: &Path, mut each: impl FnMut(AuditEntry) -> io::Result<()>) -> io::Result<u64> {
    let mut reader = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let (mut number, mut skipped, mut known) = (0, 0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        if io::Read::take(&mut reader, MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            return match (known, skipped) {
                (0, 1..) => Err(io::Error::new(io::ErrorKind::InvalidData, "not an audit file")),
                (0, 0) | (1.., _) => Ok(skipped),
            };
        }
        number += 1;
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
        let value = serde_json::from_str::<Value>(&text).ok().filter(Value::is_object);
        known += u64::from(value.is_some());
        match value {
            Some(value) if value.get("method").is_some() => each(AuditEntry { number, line: text, value })?,
            Some(_) => {}
            None => skipped += 1,
        }
    }
}

impl AuditEntry {
    /// A string field of the record; empty if it is absent.
    pub fn text(&self, name: &str) -> &str {
        self.value.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A parameter of the request, if it was recorded.
    pub fn param(&self, name: &str) -> Option<&Value> {
        self.value.get("params")?.get(name)
    }

    /// The policy's decision. Old files contain only the name of the rule that denied the request.
    pub fn decision(&self) -> &str {
        match self.text("decision") {
            "" if self.value.get("rule").is_some() => "deny",
            "" => "allow",
            decision => decision,
        }
    }

    /// The subject of the request in one line: its command, path or id.
    pub fn subject(&self) -> String {
        let one = |name: &str| self.param(name).and_then(Value::as_str).map(str::to_owned);
        let argv = || {
            let words = self.param("argv")?.as_array()?.iter();
            Some(words.filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        };
        let moved = || Some(format!("{} -> {}", one("from")?, one("to")?));
        let named =
            || ["path", "pattern", "process_id", "pty_id", "approval_id"].iter().find_map(|name| one(name));
        one("command").or_else(argv).or_else(moved).or_else(named).unwrap_or_default()
    }
}

/// Untrusted text in a form that is safe to print on a terminal, on one line.
pub fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|letter| match letter.is_control() || is_direction(letter) {
            true => letter.escape_default().collect::<Vec<_>>(),
            false => vec![letter],
        })
        .collect()
}

/// Whether a character changes the direction of text, which can disguise a line.
fn is_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
