//! `rexd policy replay`: an audit file decided anew, and what would change.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use engine::policy::{Access, CommandLine, Decision, PathAccess, Policy, PolicyOperation, PolicyQuery};
use serde_json::{Value, json};

use crate::config::{Config, ConfigArgs};
use crate::observe::audit::{AuditEntry, printable, read_records};

/// What to decide anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// Which configuration.
    pub config: ConfigArgs,
    /// The audit file.
    pub file: PathBuf,
    /// As one JSON object.
    pub json: bool,
}

/// How many changes are listed one by one; the rest is only counted.
const MAX_LISTED: usize = 10_000;

/// What came of it.
#[derive(Default)]
struct ReplayCounts {
    judged: u64,
    changed: u64,
    /// Judged although a secret was hidden or a long text was cut.
    incomplete: u64,
    /// Not judged: what they touched is not in the record.
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
        let odd = match read {
            Ok(odd) => odd,
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
            true => writeln!(out, "{}", counts.json(odd))?,
            false => counts.print(odd, out)?,
        }
        Ok(u8::from(counts.changed > 0))
    }
}

impl ReplayCounts {
    fn record(&mut self, policy: &Policy, record: &AuditEntry) {
        let decision = match judge(policy, record) {
            ReplayOutcome::NotAsked => return,
            ReplayOutcome::Unknown => {
                self.unknown += 1;
                return;
            }
            ReplayOutcome::Decided(decision) => decision,
        };
        self.judged += 1;
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

    fn print(&self, odd: u64, out: &mut dyn Write) -> io::Result<()> {
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
        writeln!(out, "{} of {} would change{colon}{changes}", self.changed, self.judged)?;
        if self.incomplete > 0 {
            writeln!(
                out,
                "{} were judged with secrets hidden or long texts cut, and may differ",
                self.incomplete
            )?;
        }
        if self.unknown > 0 {
            writeln!(
                out,
                "{} could not be judged: the record does not hold what they touched",
                self.unknown
            )?;
        }
        if odd > 0 {
            writeln!(out, "{odd} lines are no records; `rexd audit verify` says whether that is in order")?;
        }
        Ok(())
    }

    fn json(&self, odd: u64) -> Value {
        json!({
            "judged": self.judged,
            "changed": self.changed,
            "incomplete": self.incomplete,
            "unknown": self.unknown,
            "no_records": odd,
            "changes": self.listed,
        })
    }
}

enum ReplayOutcome {
    /// No policy is asked about such a request.
    NotAsked,
    /// The record does not say what was touched.
    Unknown,
    Decided(Decision),
}

fn judge(policy: &Policy, record: &AuditEntry) -> ReplayOutcome {
    let decide = |operation| {
        ReplayOutcome::Decided(policy.decide(&PolicyQuery {
            face: record.text("face"),
            client: record.text("client_name"),
            caller: record.text("caller"),
            operation,
        }))
    };
    let touched = match record.text("method") {
        "exec.start" | "pty.open" => {
            let argv = words(record);
            let line = match record.param("command").and_then(Value::as_str) {
                Some(line) => CommandLine::Shell { line, login: false },
                None if argv.is_empty() => return ReplayOutcome::Unknown,
                None => CommandLine::Argv(&argv),
            };
            return decide(PolicyOperation::Run { line, cwd: path(record, "cwd").unwrap_or(Path::new("/")) });
        }
        "fs.read" | "fs.list" | "fs.stat" | "fs.watch" => touch(record, &[("path", Access::Read, false)]),
        "fs.write" | "fs.edit" | "fs.mkdir" => touch(record, &[("path", Access::Write, false)]),
        "fs.remove" => touch(record, &[("path", Access::Remove, true)]),
        "fs.rename" => touch(record, &[("from", Access::Remove, true), ("to", Access::Write, false)]),
        "fs.copy" => touch(record, &[("from", Access::Read, true), ("to", Access::Write, false)]),
        "fs.patch" | "fs.glob" | "fs.grep" => None,
        _ => return ReplayOutcome::NotAsked,
    };
    match touched {
        Some(touched) => decide(PolicyOperation::Files(&touched)),
        None => ReplayOutcome::Unknown,
    }
}

/// The files of a request; nothing when one of them is not known or not absolute.
fn touch<'r>(record: &'r AuditEntry, names: &[(&str, Access, bool)]) -> Option<Vec<PathAccess<'r>>> {
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

/// Whether something was left out of the record that the policy would have seen.
fn is_incomplete(record: &AuditEntry) -> bool {
    let left_out = |text: &str| text.contains(crate::observe::audit::HIDDEN) || text.ends_with(" more");
    let mut texts = words(record);
    texts.extend(record.param("command").and_then(Value::as_str).map(str::to_owned));
    texts.iter().any(|text| left_out(text))
}
