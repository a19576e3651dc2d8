//! Reading an audit file back, record by record, and saying it to people.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde_json::Value;

/// One record of a file.
#[derive(Debug, Clone)]
pub struct AuditEntry {
    /// The line it stands on, from 1.
    pub number: u64,
    /// The line as it was written.
    pub line: String,
    /// What it says.
    pub value: Value,
}

/// The longest line that is read; a writer makes none that long.
const MAX_LINE: u64 = 4 * 1024 * 1024;

/// Hands every record of a file to `each`, in their order. What is no record, such as the torn line of a crash, is
/// passed over and counted; a file of nothing else is no audit file. `rexd audit verify` is there to tell whether the file is what was written.
pub fn read_records(path: &Path, mut each: impl FnMut(AuditEntry) -> io::Result<()>) -> io::Result<u64> {
    let mut reader = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let (mut number, mut odd, mut known) = (0, 0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        if io::Read::take(&mut reader, MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return match (known, odd) {
                (0, 1..) => Err(io::Error::new(io::ErrorKind::InvalidData, "this is no audit file")),
                _ => Ok(odd),
            };
        }
        number += 1;
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
        let value = serde_json::from_str::<Value>(&text).ok().filter(Value::is_object);
        known += u64::from(value.is_some());
        match value {
            Some(value) if value.get("method").is_some() => each(AuditEntry { number, line: text, value })?,
            Some(_) => {}
            None => odd += 1,
        }
    }
}

impl AuditEntry {
    /// A text of the record, empty when it has none.
    pub fn text(&self, name: &str) -> &str {
        self.value.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A parameter of the request.
    pub fn param(&self, name: &str) -> Option<&Value> {
        self.value.get("params")?.get(name)
    }

    /// What the policy said. Files from before decisions were kept hold only the rule that refused.
    pub fn decision(&self) -> &str {
        match self.text("decision") {
            "" if self.value.get("rule").is_some() => "deny",
            "" => "allow",
            decision => decision,
        }
    }

    /// What it was about, in one line: the command, the path, or whatever it was asked with.
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

/// A text of others, safe to show on a terminal and on one line.
pub fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|letter| match letter {
            _ if letter.is_control() || is_direction(letter) => letter.escape_default().collect::<Vec<_>>(),
            _ => vec![letter],
        })
        .collect()
}

/// Marks that change the direction of text, so that a line reads as what it is not.
fn is_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
