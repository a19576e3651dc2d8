//! `rexd audit show`: prints the records that match the filters, newest last.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use engine::policy::Glob;
use serde_json::Value;

use super::records::{AuditEntry, printable, read_records};

/// The filters and the output format.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShowArgs {
    /// The file; `None` means the configured one.
    pub file: Option<PathBuf>,
    /// The caller, as a glob.
    pub caller: Option<Glob>,
    /// The client's name, as a glob.
    pub client: Option<Glob>,
    /// The face, as a glob.
    pub face: Option<Glob>,
    /// The id of the session.
    pub session: Option<String>,
    /// The method, as a glob.
    pub operation: Option<Glob>,
    /// The decision of the policy or of an approver.
    pub decision: Option<String>,
    /// The rule that decided, as a glob.
    pub rule: Option<Glob>,
    /// The earliest time, in the format of the file.
    pub since: Option<String>,
    /// The time before which records are shown.
    pub until: Option<String>,
    /// Show only failed requests.
    pub failed: bool,
    /// The maximal number of records, counted from the end.
    pub limit: Option<usize>,
    /// Print the lines as they are in the file.
    pub json: bool,
}

/// The values of `--decision`.
pub const DECISIONS: [&str; 7] = ["allow", "deny", "ask", "approved", "denied", "timed_out", "withdrawn"];

impl ShowArgs {
    /// Prints the matching records and returns the exit status.
    pub fn run(&self, file: &Path, colours: bool, out: &mut dyn Write) -> io::Result<u8> {
        let mut last: VecDeque<AuditEntry> = VecDeque::new();
        let skipped = read_records(file, |record| {
            if !self.matches(&record) {
                return Ok(());
            }
            let Some(limit) = self.limit else { return self.print(&record, colours, out) };
            last.push_back(record);
            if last.len() > limit {
                last.pop_front();
            }
            Ok(())
        });
        let skipped = match skipped {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                writeln!(io::stderr(), "error: {}: {}", file.display(), engine::error::errno_text(&error))?;
                return Ok(1);
            }
            skipped => skipped?,
        };
        for record in &last {
            self.print(record, colours, out)?;
        }
        if skipped > 0 && !self.json {
            writeln!(
                out,
                "skipped {skipped} lines that are not records; run `rexd audit verify` to check the file"
            )?;
        }
        Ok(0)
    }

    fn matches(&self, record: &AuditEntry) -> bool {
        let glob =
            |glob: &Option<Glob>, name| glob.as_ref().is_none_or(|glob| glob.matches(record.text(name)));
        let time = record.text("timestamp");
        glob(&self.caller, "caller")
            && glob(&self.client, "client_name")
            && glob(&self.face, "face")
            && glob(&self.operation, "method")
            && glob(&self.rule, "rule")
            && self.session.as_ref().is_none_or(|session| record.text("session_id") == session)
            && self.decision.as_ref().is_none_or(|decision| {
                record.text("approval") == decision || (record.decision() == decision && has_decision(record))
            })
            && self.since.as_ref().is_none_or(|since| time >= since.as_str())
            && self.until.as_ref().is_none_or(|until| time < until.as_str())
            && (!self.failed || record.value.get("error").is_some())
    }

    fn print(&self, record: &AuditEntry, colours: bool, out: &mut dyn Write) -> io::Result<()> {
        if self.json {
            return writeln!(out, "{}", record.line);
        }
        let time = record.text("timestamp").get(..19).unwrap_or_default().replace('T', " ");
        let (outcome, colour) = outcome(record);
        let (before, after) = if colours && !colour.is_empty() { (colour, "\u{1b}[0m") } else { ("", "") };
        let client = match record.text("client_name") {
            "" => record.text("caller").to_owned(),
            client => format!("{} ({client})", record.text("caller")),
        };
        writeln!(
            out,
            "{time}  {:<24}  {:<6}  {:<16}  {before}{}{after}  {}",
            printable(&client),
            printable(record.text("face")),
            printable(record.text("method")),
            printable(&outcome),
            printable(&record.subject()),
        )
    }
}

/// Whether the record contains a decision of the policy.
fn has_decision(record: &AuditEntry) -> bool {
    record.value.get("decision").is_some() || record.value.get("rule").is_some()
}

/// The outcome of the request in a few words, and its colour.
fn outcome(record: &AuditEntry) -> (String, &'static str) {
    const RED: &str = "\u{1b}[31m";
    const YELLOW: &str = "\u{1b}[33m";
    let rule = match record.text("rule") {
        "" => String::new(),
        rule => format!(" by {rule}"),
    };
    let error = record.value.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
    match (record.text("approval"), error) {
        ("", Some(_)) if has_decision(record) && record.decision() == "deny" => {
            (format!("denied{rule}"), RED)
        }
        ("", Some(message)) => (format!("failed: {message}"), RED),
        ("", None) => match (record.value.get("exit_code"), record.value.get("signal")) {
            (_, Some(signal)) => (format!("signal {signal}"), YELLOW),
            (Some(code), None) => (format!("exit {code}"), if *code == 0 { "" } else { YELLOW }),
            (None, None) => (format!("ok{rule}"), ""),
        },
        (approval, _) => {
            let approver = record.text("approver");
            let by = if approver.is_empty() { rule } else { format!(" by {approver}") };
            (format!("{approval}{by}"), if approval == "approved" { YELLOW } else { RED })
        }
    }
}
