//! One question to the policy: what is asked, by whom, and the answer.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use engine::policy::{Access, CommandLine, PathAccess, PolicyOperation, PolicyQuery, Verdict};

use super::output;
use crate::config::{Config, ConfigArgs, Paths};
use crate::core::sandbox::real;

/// What to ask the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyTest {
    /// Which configuration.
    pub config: ConfigArgs,
    /// The front end it would come through.
    pub face: String,
    /// The name the client would give itself.
    pub client: String,
    /// Who would ask; whoever runs the command when nobody is named.
    pub caller: Option<String>,
    /// Where a command would start, and what paths are relative to; the current directory when none is named.
    pub cwd: Option<PathBuf>,
    /// As one JSON object.
    pub json: bool,
    /// What would be asked for.
    pub wanted: TestedOperation,
}

/// What would be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestedOperation {
    /// A program and its arguments.
    Argv(Vec<String>),
    /// Text for a shell.
    Shell(String),
    /// Files, each touched in its way.
    Files(Vec<(Access, PathBuf)>),
}

impl PolicyTest {
    pub(super) fn test(&self, config: &Config, paths: &Paths, out: &mut dyn Write) -> io::Result<u8> {
        let decision = self.asking(paths, |asked| config.policy.decide(asked));
        match self.json {
            true => writeln!(out, "{}", output::decision_json(&decision, config))?,
            false => output::decision(&decision, config, out)?,
        }
        Ok(status(decision.verdict))
    }

    pub(super) fn explain(&self, config: &Config, paths: &Paths, out: &mut dyn Write) -> io::Result<u8> {
        let explanation = self.asking(paths, |asked| config.policy.explain(asked));
        match self.json {
            true => writeln!(out, "{}", output::explanation_json(&explanation, config))?,
            false => output::explanation(&explanation, config, out)?,
        }
        Ok(status(explanation.decision.verdict))
    }

    /// Puts the question together and lets somebody answer it.
    fn asking<T>(&self, paths: &Paths, answer: impl FnOnce(&PolicyQuery<'_>) -> T) -> T {
        let cwd = real(&paths.current.join(self.cwd.as_deref().unwrap_or(Path::new(""))));
        let caller =
            self.caller.clone().unwrap_or_else(|| format!("uid:{}", rustix::process::getuid().as_raw()));
        let files: Vec<(Access, PathBuf)> = match &self.wanted {
            TestedOperation::Files(files) => {
                files.iter().map(|(access, path)| (*access, real(&cwd.join(path)))).collect()
            }
            TestedOperation::Argv(_) | TestedOperation::Shell(_) => Vec::new(),
        };
        // What is removed goes with everything below it.
        let touched: Vec<PathAccess<'_>> = files
            .iter()
            .map(|(access, path)| PathAccess {
                path,
                access: *access,
                is_recursive: *access == Access::Remove && path.is_dir(),
            })
            .collect();
        let operation = match &self.wanted {
            TestedOperation::Argv(argv) => PolicyOperation::Run { line: CommandLine::Argv(argv), cwd: &cwd },
            TestedOperation::Shell(line) => {
                PolicyOperation::Run { line: CommandLine::Shell { line, login: false }, cwd: &cwd }
            }
            TestedOperation::Files(_) => PolicyOperation::Files(&touched),
        };
        answer(&PolicyQuery { face: &self.face, client: &self.client, caller: &caller, operation })
    }
}

/// The status to exit with.
fn status(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Deny | Verdict::NoShell => 1,
        Verdict::Ask => 2,
    }
}
