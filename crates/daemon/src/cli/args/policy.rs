//! The arguments of `rexd policy` and `rexd audit`.

use std::ffi::OsString;
use std::path::PathBuf;

use engine::policy::{Access, Glob};
use jiff::{SignedDuration, Timestamp};

use super::{CliCommand, ParsedFlags, UsageError};
use crate::cli::policy::{PolicyCommand, PolicyTest, Replay, TestedOperation};
use crate::observe::audit::{DECISIONS, ShowArgs};

const POLICY_HINT: &str =
    "use `rexd policy test|explain [FLAGS] -- COMMAND...` or `rexd policy replay AUDIT`";
const AUDIT_HINT: &str = "use `rexd audit verify FILE` or `rexd audit show [FILE] [FLAGS]`";

impl ParsedFlags {
    /// Parses `rexd policy …`.
    pub(super) fn policy(&self, operands: &[OsString]) -> Result<CliCommand, UsageError> {
        let Some((verb, rest)) = operands.split_first() else {
            return Err(UsageError::new("missing subcommand of `rexd policy`", POLICY_HINT));
        };
        let verb = verb.to_string_lossy();
        let command = match (verb.as_ref(), rest) {
            ("test", words) => PolicyCommand::Test(self.policy_test(words)?),
            ("explain", words) => PolicyCommand::Explain(self.policy_test(words)?),
            ("replay", [file]) => PolicyCommand::Replay(Replay {
                config: self.config(&[])?,
                file: file.into(),
                json: self.has("json"),
            }),
            ("replay", _) => {
                return Err(UsageError::new("`rexd policy replay` takes one audit file", POLICY_HINT));
            }
            _ => return Err(UsageError::new(format!("unknown command \"policy {verb}\""), POLICY_HINT)),
        };
        Ok(CliCommand::Policy(Box::new(command)))
    }

    fn policy_test(&self, words: &[OsString]) -> Result<PolicyTest, UsageError> {
        Ok(PolicyTest {
            config: self.config(&[])?,
            face: self.text("face")?.unwrap_or_else(|| "rexd".to_owned()),
            client: self.text("client")?.unwrap_or_default(),
            caller: self.text("caller")?,
            cwd: self.last("cwd").map(PathBuf::from),
            json: self.has("json"),
            operation: self.tested_operation(words)?,
        })
    }

    /// The operation to test: a command, a shell text or files.
    fn tested_operation(&self, words: &[OsString]) -> Result<TestedOperation, UsageError> {
        let files: Vec<(Access, PathBuf)> = self
            .flags
            .iter()
            .filter_map(|(flag, value)| {
                let (_, access) = Access::NAMES.iter().find(|(name, _)| name == flag)?;
                Some((*access, PathBuf::from(value)))
            })
            .collect();
        let argv: Option<Vec<String>> = words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
        let Some(mut argv) = argv else {
            return Err(UsageError::new("the command is not UTF-8", "use UTF-8"));
        };
        match (self.text("shell")?, argv.len(), files.is_empty()) {
            (Some(text), 0, true) => Ok(TestedOperation::Shell(text)),
            (None, 0, false) => Ok(TestedOperation::Files(files)),
            // One word with spaces is a quoted shell line.
            (None, 1, true) if argv[0].contains(char::is_whitespace) => {
                Ok(TestedOperation::Shell(argv.remove(0)))
            }
            (None, 1.., true) => Ok(TestedOperation::Argv(argv)),
            (None, 0, true) => Err(UsageError::new("missing command", POLICY_HINT)),
            _ => {
                let message = "conflicting operations: a command, --shell and files";
                Err(UsageError::new(message, "test one of them at a time"))
            }
        }
    }

    /// Parses `rexd audit …`.
    pub(super) fn audit(&self, operands: &[OsString]) -> Result<CliCommand, UsageError> {
        let is_show = operands.first().is_some_and(|verb| verb == "show");
        if let Some((name, _)) = self.flags.first().filter(|_| !is_show) {
            let message = format!("unexpected flag --{name} for `rexd audit verify`");
            return Err(UsageError::new(message, AUDIT_HINT));
        }
        match operands {
            [verb, file] if verb == "verify" => Ok(CliCommand::AuditVerify(file.into())),
            [verb, files @ ..] if verb == "show" && files.len() < 2 => Ok(CliCommand::AuditShow {
                show: Box::new(self.show(files.first())?),
                config: self.config(&[])?,
            }),
            _ => Err(UsageError::new("missing or unknown subcommand of `rexd audit`", AUDIT_HINT)),
        }
    }

    fn show(&self, file: Option<&OsString>) -> Result<ShowArgs, UsageError> {
        let glob = |name| Ok::<_, UsageError>(self.text(name)?.map(Glob::new));
        let decision = self.text("decision")?;
        if let Some(unknown) = decision.as_deref().filter(|decision| !DECISIONS.contains(decision)) {
            let hint = format!("--decision expects one of {}", DECISIONS.join(", "));
            return Err(UsageError::new(format!("unknown decision {unknown:?}"), hint));
        }
        Ok(ShowArgs {
            file: file.map(PathBuf::from),
            caller: glob("caller")?,
            client: glob("client")?,
            face: glob("face")?,
            session: self.text("session")?,
            operation: glob("operation")?,
            decision,
            rule: glob("rule")?,
            since: self.time("since")?,
            until: self.time("until")?,
            failed: self.has("failed"),
            limit: self.number("limit", "number", "a count")?,
            json: self.has("json"),
        })
    }

    /// A time, a date or an age, in the format of the audit file.
    fn time(&self, name: &str) -> Result<Option<String>, UsageError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let parsed = text.parse::<Timestamp>().ok().or_else(|| day(&text)).or_else(|| ago(&text));
        let hint = "use a time (2026-11-15T08:00:00Z), a date (2026-11-15) or an age (30m, 2h, 7d)";
        let parsed = parsed.ok_or_else(|| UsageError::new(format!("invalid time {text:?}"), hint))?;
        Ok(Some(format!("{parsed:.9}")))
    }
}

fn day(text: &str) -> Option<Timestamp> {
    // A time zone or a time of day would make it another text.
    let is_date = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_date.then(|| format!("{text}T00:00:00Z").parse().ok())?
}

/// The time before now by an age such as `90s`, `2h` or `1d12h`.
fn ago(text: &str) -> Option<Timestamp> {
    let (mut rest, mut age) = (text, SignedDuration::ZERO);
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let count: i64 = rest[..digits].parse().ok()?;
        let unit = match rest.as_bytes()[digits] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 24 * 3600,
            b'w' => 7 * 24 * 3600,
            _ => return None,
        };
        age = age.checked_add(SignedDuration::from_secs(count.checked_mul(unit)?))?;
        rest = &rest[digits + 1..];
    }
    (!text.is_empty()).then(|| Timestamp::now().checked_sub(age).ok())?
}
