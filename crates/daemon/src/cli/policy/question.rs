//! One question to the policy: what is asked, by whom, and the answer.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use engine::policy::{Access, CommandLine, PathAccess, PolicyOperation, PolicyQuery, Verdict};

use super::said;
use crate::config::{Config, ConfigArgs, Places};
use crate::core::sandbox::real;

/// What to ask the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
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
    pub wanted: Wanted,
}

/// What would be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A program and its arguments.
    Argv(Vec<String>),
    /// Text for a shell.
    Shell(String),
    /// Files, each touched in its way.
    Files(Vec<(Access, PathBuf)>),
}

impl Question {
    pub(super) fn test(&self, config: &Config, places: &Places, out: &mut dyn Write) -> io::Result<u8> {
        let decision = self.asking(places, |asked| config.policy.decide(asked));
        match self.json {
            true => writeln!(out, "{}", said::decision_json(&decision, config))?,
            false => said::decision(&decision, config, out)?,
        }
        Ok(status(decision.verdict))
    }

    pub(super) fn explain(&self, config: &Config, places: &Places, out: &mut dyn Write) -> io::Result<u8> {
        let explanation = self.asking(places, |asked| config.policy.explain(asked));
        match self.json {
            true => writeln!(out, "{}", said::explanation_json(&explanation, config))?,
            false => said::explanation(&explanation, config, out)?,
        }
        Ok(status(explanation.decision.verdict))
    }

    /// Puts the question together and lets somebody answer it.
    fn asking<T>(&self, places: &Places, answer: impl FnOnce(&PolicyQuery<'_>) -> T) -> T {
        let cwd = real(&places.current.join(self.cwd.as_deref().unwrap_or(Path::new(""))));
        let caller =
            self.caller.clone().unwrap_or_else(|| format!("uid:{}", rustix::process::getuid().as_raw()));
        let files: Vec<(Access, PathBuf)> = match &self.wanted {
            Wanted::Files(files) => {
                files.iter().map(|(access, path)| (*access, real(&cwd.join(path)))).collect()
            }
            Wanted::Argv(_) | Wanted::Shell(_) => Vec::new(),
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
            Wanted::Argv(argv) => PolicyOperation::Run { line: CommandLine::Argv(argv), cwd: &cwd },
            Wanted::Shell(line) => {
                PolicyOperation::Run { line: CommandLine::Shell { line, login: false }, cwd: &cwd }
            }
            Wanted::Files(_) => PolicyOperation::Files(&touched),
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
