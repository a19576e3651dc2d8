//! The arguments of `rexd policy` and `rexd audit`.

use std::ffi::OsString;
use std::path::PathBuf;

use engine::policy::{Access, Glob};

use super::{CliCommand, ParsedFlags, UsageError};
use crate::cli::policy::{PolicyCommand, PolicyTest, Replay, TestedOperation};
use crate::observe::audit::{DECISIONS, ShowArgs};

const POLICY_HINT: &str = "rexd policy test|explain [FLAGS] -- COMMAND..., or rexd policy replay AUDIT";
const AUDIT_HINT: &str = "rexd audit verify FILE, or rexd audit show [FILE] [FLAGS]";

impl ParsedFlags {
    /// `rexd policy …`.
    pub(super) fn policy(&self, operands: &[OsString]) -> Result<CliCommand, UsageError> {
        let (verb, rest) = match operands.split_first() {
            Some((verb, rest)) => (verb.to_string_lossy(), rest),
            None => return Err(UsageError::new("`rexd policy` needs to know what to do", POLICY_HINT)),
        };
        let command = match (verb.as_ref(), rest) {
            ("test", words) => PolicyCommand::Test(self.question(words)?),
            ("explain", words) => PolicyCommand::Explain(self.question(words)?),
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

    fn question(&self, words: &[OsString]) -> Result<PolicyTest, UsageError> {
        Ok(PolicyTest {
            config: self.config(&[])?,
            face: self.text("face")?.unwrap_or_else(|| "rexd".to_owned()),
            client: self.text("client")?.unwrap_or_default(),
            caller: self.text("caller")?,
            cwd: self.last("cwd").map(PathBuf::from),
            json: self.has("json"),
            wanted: self.wanted(words)?,
        })
    }

    /// A command, a shell text or files: exactly one of them.
    fn wanted(&self, words: &[OsString]) -> Result<TestedOperation, UsageError> {
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
            return Err(UsageError::new("the command is not UTF-8", "check its spelling"));
        };
        match (self.text("shell")?, argv.len(), files.is_empty()) {
            (Some(text), 0, true) => Ok(TestedOperation::Shell(text)),
            (None, 0, false) => Ok(TestedOperation::Files(files)),
            // One word with spaces is no program: somebody quoted a whole line.
            (None, 1, true) if argv[0].contains(char::is_whitespace) => {
                Ok(TestedOperation::Shell(argv.remove(0)))
            }
            (None, 1.., true) => Ok(TestedOperation::Argv(argv)),
            (None, 0, true) => Err(UsageError::new("there is nothing to ask the policy about", POLICY_HINT)),
            _ => Err(UsageError::new(
                "a command, --shell and files do not go together",
                "ask about them one by one",
            )),
        }
    }

    /// `rexd audit …`.
    pub(super) fn audit(&self, operands: &[OsString]) -> Result<CliCommand, UsageError> {
        let is_show = operands.first().is_some_and(|verb| verb == "show");
        if let Some((name, _)) = self.flags.first().filter(|_| !is_show) {
            return Err(UsageError::new(format!("`rexd audit verify` takes no --{name}"), AUDIT_HINT));
        }
        match operands {
            [verb, file] if verb == "verify" => Ok(CliCommand::AuditVerify(file.into())),
            [verb, files @ ..] if verb == "show" && files.len() < 2 => Ok(CliCommand::AuditShow {
                show: Box::new(self.show(files.first())?),
                config: self.config(&[])?,
            }),
            _ => Err(UsageError::new("`rexd audit` needs to know what to do", AUDIT_HINT)),
        }
    }

    fn show(&self, file: Option<&OsString>) -> Result<ShowArgs, UsageError> {
        let glob = |name| Ok::<_, UsageError>(self.text(name)?.map(Glob::new));
        let decision = self.text("decision")?;
        if let Some(odd) = decision.as_deref().filter(|decision| !DECISIONS.contains(decision)) {
            let hint = format!("--decision takes {}", DECISIONS.join(", "));
            return Err(UsageError::new(format!("{odd:?} is no decision"), hint));
        }
        let limit = self.text("limit")?.map(|limit| {
            limit
                .parse()
                .map_err(|_| UsageError::new(format!("{limit:?} is no number"), "--limit takes a count"))
        });
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
            limit: limit.transpose()?,
            json: self.has("json"),
        })
    }

    /// A time as it stands in the file: given as one, as a date, or as how long ago.
    fn time(&self, name: &str) -> Result<Option<String>, UsageError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let parsed =
            text.parse::<jiff::Timestamp>().ok().or_else(|| day(&text)).or_else(|| ago(&text)).ok_or_else(
                || {
                    let hint = "write 2026-11-15T08:00:00Z, 2026-11-15, or how long ago: 30m, 2h, 7d";
                    UsageError::new(format!("{text:?} is no time"), hint)
                },
            )?;
        Ok(Some(format!("{parsed:.9}")))
    }
}

fn day(text: &str) -> Option<jiff::Timestamp> {
    let day: jiff::civil::Date = text.parse().ok()?;
    day.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|midnight| midnight.timestamp())
}

fn ago(text: &str) -> Option<jiff::Timestamp> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let count: i64 = text.strip_suffix(unit)?.parse().ok()?;
    let ago = jiff::SignedDuration::from_secs(count.checked_mul(seconds)?);
    jiff::Timestamp::now().checked_sub(ago).ok()
}
