//! `rexd policy replay`: applies the current policy to an audit file and prints the differences.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use engine::policy::{Access, CommandLine, Decision, PathAccess, Policy, PolicyOperation, PolicyQuery};
use serde_json::{Value, json};

use crate::config::{Config, ConfigArgs};
use crate::observe::audit::{AuditEntry, printable, read_records};

/// The arguments of `rexd policy replay`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// The flags that select the configuration.
    pub config: ConfigArgs,
    /// The path of the audit file.
    pub file: PathBuf,
    /// Whether to print one JSON object.
    pub json: bool,
}

/// The maximal number of listed changes; the others are counted.
const MAX_LISTED: usize = 10_000;

/// The result of a replay.
#[derive(Default)]
struct ReplayCounts {
    decided: u64,
    changed: u64,
    /// Decided, although the record has a replaced secret or a cut text.
    incomplete: u64,
    /// Not decided: the record does not contain the files of the request.
    unknown: u64,
    /// `allow -> deny` by rule.
    by_change: BTreeMap<(String, &'static str), BTreeMap<String, u64>>,
    listed: Vec<Value>,
}

impl Replay {
    pub(super) fn run(&self, config: &Config, out: &mut dyn Write) -> io::Result<u8> {
        let mut counts = ReplayCounts::default();
        let read = read_records(&self.file, |record| {
            counts.record(&config.policy, &record);
            Ok(())
        });
        let skipped = match read {
            Ok(skipped) => skipped,
            Err(error) => {
                writeln!(
                    io::stderr(),
                    "error: {}: {}",
                    self.file.display(),
                    engine::error::errno_text(&error)
                )?;
                return Ok(super::BAD_CONFIGURATION);
            }
        };
        match self.json {
            true => writeln!(out, "{}", counts.json(skipped))?,
            false => counts.print(skipped, out)?,
        }
        Ok(u8::from(counts.changed > 0))
    }
}

impl ReplayCounts {
    fn record(&mut self, policy: &Policy, record: &AuditEntry) {
        let decision = match decide(policy, record) {
            ReplayOutcome::NotApplicable => return,
            ReplayOutcome::Unknown => {
                self.unknown += 1;
                return;
            }
            ReplayOutcome::Decided(decision) => decision,
        };
        self.decided += 1;
        self.incomplete += u64::from(is_incomplete(record));
        let (before, now) = (record.decision(), decision.verdict.name());
        if before == now {
            return;
        }
        self.changed += 1;
        let by_rule = self.by_change.entry((before.to_owned(), now)).or_default();
        *by_rule.entry(decision.rule.to_string()).or_default() += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(json!({
                "line": record.number,
                "timestamp": record.text("timestamp"),
                "caller": record.text("caller"),
                "method": record.text("method"),
                "what": record.subject(),
                "before": before,
                "now": now,
                "rule": &*decision.rule,
                "reason": decision.reason,
            }));
        }
    }

    fn print(&self, skipped: u64, out: &mut dyn Write) -> io::Result<()> {
        for change in &self.listed {
            let text = |name: &str| printable(change[name].as_str().unwrap_or_default());
            writeln!(
                out,
                "line {}: {} {} {}: {} -> {} ({}): {}",
                change["line"],
                text("timestamp").get(..19).unwrap_or_default(),
                text("caller"),
                text("method"),
                text("before"),
                text("now"),
                text("rule"),
                text("what"),
            )?;
        }
        if self.changed > self.listed.len() as u64 {
            writeln!(out, "and {} more", self.changed - self.listed.len() as u64)?;
        }
        let changes = self.by_change.iter().map(|((before, now), rules)| {
            let by: Vec<String> = rules.iter().map(|(rule, count)| format!("{rule} {count}")).collect();
            format!("{before} -> {now} {} ({})", rules.values().sum::<u64>(), by.join(", "))
        });
        let changes = changes.collect::<Vec<_>>().join(", ");
        let colon = if changes.is_empty() { "" } else { ": " };
        writeln!(out, "{} of {} would change{colon}{changes}", self.changed, self.decided)?;
        if self.incomplete > 0 {
            writeln!(
                out,
                "{} were decided without replaced secrets or cut texts and may differ",
                self.incomplete
            )?;
        }
        if self.unknown > 0 {
            writeln!(out, "{} could not be decided: the record does not contain the files", self.unknown)?;
        }
        if skipped > 0 {
            writeln!(
                out,
                "skipped {skipped} lines that are not records; run `rexd audit verify` to check the file"
            )?;
        }
        Ok(())
    }

    fn json(&self, skipped: u64) -> Value {
        json!({
            "judged": self.decided,
            "changed": self.changed,
            "incomplete": self.incomplete,
            "unknown": self.unknown,
            "no_records": skipped,
            "changes": self.listed,
        })
    }
}

enum ReplayOutcome {
    /// The policy does not apply to such a request.
    NotApplicable,
    /// The record does not contain the files of the request.
    Unknown,
    Decided(Decision),
}

fn decide(policy: &Policy, record: &AuditEntry) -> ReplayOutcome {
    let with = |operation| {
        ReplayOutcome::Decided(policy.decide(&PolicyQuery {
            face: record.text("face"),
            client: record.text("client_name"),
            caller: record.text("caller"),
            operation,
        }))
    };
    let accesses = match record.text("method") {
        "exec.start" | "pty.open" => {
            let argv = words(record);
            let line = match record.param("command").and_then(Value::as_str) {
                Some(line) => CommandLine::Shell { line, login: false },
                None if argv.is_empty() => return ReplayOutcome::Unknown,
                None => CommandLine::Argv(&argv),
            };
            // The audit has the names of the variables only.
            let names = record.param("env").and_then(Value::as_array).into_iter().flatten();
            let names = names.filter_map(Value::as_str);
            let env: Vec<_> = names.map(|name| (name.to_owned(), Some(String::new()))).collect();
            let cwd = path(record, "cwd").unwrap_or(Path::new("/"));
            return with(PolicyOperation::Run { line, cwd, env: &env });
        }
        "fs.read" | "fs.list" | "fs.stat" | "fs.watch" => {
            path_accesses(record, &[("path", Access::Read, false)])
        }
        "fs.write" | "fs.edit" | "fs.mkdir" => path_accesses(record, &[("path", Access::Write, false)]),
        "fs.remove" => path_accesses(record, &[("path", Access::Remove, true)]),
        "fs.rename" => path_accesses(record, &[("from", Access::Remove, true), ("to", Access::Write, false)]),
        "fs.copy" => path_accesses(record, &[("from", Access::Read, true), ("to", Access::Write, false)]),
        "fs.patch" | "fs.glob" | "fs.grep" => None,
        _ => return ReplayOutcome::NotApplicable,
    };
    match accesses {
        Some(accesses) => with(PolicyOperation::Files(&accesses)),
        None => ReplayOutcome::Unknown,
    }
}

/// The files of a request; `None` if one of them is missing or not absolute.
fn path_accesses<'r>(record: &'r AuditEntry, names: &[(&str, Access, bool)]) -> Option<Vec<PathAccess<'r>>> {
    let one = |(name, access, tree): &(&str, Access, bool)| {
        let path = path(record, name).filter(|path| path.is_absolute())?;
        Some(PathAccess { path, access: *access, is_recursive: *tree })
    };
    names.iter().map(one).collect()
}

fn path<'r>(record: &'r AuditEntry, name: &str) -> Option<&'r Path> {
    record.param(name).and_then(Value::as_str).map(Path::new)
}

fn words(record: &AuditEntry) -> Vec<String> {
    let argv = record.param("argv").and_then(Value::as_array);
    argv.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Whether the record omits a part of the command that the policy would check.
fn is_incomplete(record: &AuditEntry) -> bool {
    let left_out = |text: &str| text.contains(crate::observe::audit::HIDDEN) || text.ends_with(" more");
    let mut texts = words(record);
    texts.extend(record.param("command").and_then(Value::as_str).map(str::to_owned));
    texts.iter().any(|text| left_out(text))
}
