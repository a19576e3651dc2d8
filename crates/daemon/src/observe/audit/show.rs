//! `rexd audit show`: the records that pass the filters, newest last.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use engine::policy::Glob;
use serde_json::Value;

use super::records::{AuditEntry, printable, read_records};

/// Which records to show, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShowArgs {
    /// The file; the configured one when none is named.
    pub file: Option<PathBuf>,
    /// Whom it was asked by, as a glob.
    pub caller: Option<Glob>,
    /// The name the client gave itself, as a glob.
    pub client: Option<Glob>,
    /// The front end, as a glob.
    pub face: Option<Glob>,
    /// The session.
    pub session: Option<String>,
    /// The operation, as a glob.
    pub operation: Option<Glob>,
    /// What the policy or an approver decided.
    pub decision: Option<String>,
    /// The rule that decided, as a glob.
    pub rule: Option<Glob>,
    /// Not before this time, as it stands in the file.
    pub since: Option<String>,
    /// Before this time.
    pub until: Option<String>,
    /// Only what failed.
    pub failed: bool,
    /// Only the last so many.
    pub limit: Option<usize>,
    /// The lines as they stand in the file.
    pub json: bool,
}

/// What `--decision` takes.
pub const DECISIONS: [&str; 7] = ["allow", "deny", "ask", "approved", "denied", "timed_out", "withdrawn"];

impl ShowArgs {
    /// Prints what passes; returns the status to exit with.
    pub fn run(&self, file: &Path, colours: bool, out: &mut dyn Write) -> io::Result<u8> {
        let mut last: VecDeque<AuditEntry> = VecDeque::new();
        let odd = read_records(file, |record| {
            if !self.passes(&record) {
                return Ok(());
            }
            let Some(limit) = self.limit else { return self.print(&record, colours, out) };
            last.push_back(record);
            if last.len() > limit {
                last.pop_front();
            }
            Ok(())
        });
        let odd = match odd {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                writeln!(io::stderr(), "error: {}: {}", file.display(), engine::error::errno_text(&error))?;
                return Ok(1);
            }
            odd => odd?,
        };
        for record in &last {
            self.print(record, colours, out)?;
        }
        if odd > 0 && !self.json {
            writeln!(out, "{odd} lines are no records; `rexd audit verify` says whether that is in order")?;
        }
        Ok(0)
    }

    fn passes(&self, record: &AuditEntry) -> bool {
        let glob =
            |glob: &Option<Glob>, name| glob.as_ref().is_none_or(|glob| glob.matches(record.text(name)));
        let time = record.text("timestamp");
        glob(&self.caller, "caller")
            && glob(&self.client, "client_name")
            && glob(&self.face, "face")
            && glob(&self.operation, "method")
            && glob(&self.rule, "rule")
            && self.session.as_ref().is_none_or(|session| record.text("session_id") == session)
            && self.decision.as_ref().is_none_or(|wanted| {
                record.text("approval") == wanted || (record.decision() == wanted && is_judged(record))
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

/// Whether the policy was asked about it at all.
fn is_judged(record: &AuditEntry) -> bool {
    record.value.get("decision").is_some() || record.value.get("rule").is_some()
}

/// What came of it in a few words, and its colour.
fn outcome(record: &AuditEntry) -> (String, &'static str) {
    const RED: &str = "\u{1b}[31m";
    const YELLOW: &str = "\u{1b}[33m";
    let rule = match record.text("rule") {
        "" => String::new(),
        rule => format!(" by {rule}"),
    };
    let error = record.value.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
    match (record.text("approval"), error) {
        ("", Some(_)) if is_judged(record) && record.decision() == "deny" => (format!("denied{rule}"), RED),
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
