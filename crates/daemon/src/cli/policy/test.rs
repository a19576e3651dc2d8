//! `rexd policy test` and `explain`: one operation of one requester.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use engine::policy::{Access, CommandLine, PathAccess, PolicyOperation, PolicyQuery, Verdict};

use super::output;
use crate::config::{Config, ConfigArgs, Paths};
use crate::core::sandbox::real;

/// The operation and the requester to test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyTest {
    /// The flags that select the configuration.
    pub config: ConfigArgs,
    /// The face of the request.
    pub face: String,
    /// The name of the client.
    pub client: String,
    /// The caller; `None` means the user who runs the command.
    pub caller: Option<String>,
    /// The working directory, to which paths are relative; `None` means the current directory.
    pub cwd: Option<PathBuf>,
    /// Whether to print one JSON object.
    pub json: bool,
    /// The operation to test.
    pub operation: TestedOperation,
}

/// The operation of a policy test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestedOperation {
    /// A program and its arguments.
    Argv(Vec<String>),
    /// Text for a shell.
    Shell(String),
    /// Files with the kind of access to each.
    Files(Vec<(Access, PathBuf)>),
}

impl PolicyTest {
    pub(super) fn test(&self, config: &Config, paths: &Paths, out: &mut dyn Write) -> io::Result<u8> {
        let decision = self.query(paths, |query| config.policy.decide(query));
        match self.json {
            true => writeln!(out, "{}", output::decision_json(&decision, config))?,
            false => output::decision(&decision, config, out)?,
        }
        Ok(status(decision.verdict))
    }

    pub(super) fn explain(&self, config: &Config, paths: &Paths, out: &mut dyn Write) -> io::Result<u8> {
        let explanation = self.query(paths, |query| config.policy.explain(query));
        match self.json {
            true => writeln!(out, "{}", output::explanation_json(&explanation, config))?,
            false => output::explanation(&explanation, config, out)?,
        }
        Ok(status(explanation.decision.verdict))
    }

    /// Builds the policy query and passes it to `evaluate`.
    fn query<T>(&self, paths: &Paths, evaluate: impl FnOnce(&PolicyQuery<'_>) -> T) -> T {
        let cwd = real(&paths.current.join(self.cwd.as_deref().unwrap_or(Path::new(""))));
        let caller =
            self.caller.clone().unwrap_or_else(|| format!("uid:{}", rustix::process::getuid().as_raw()));
        let files: Vec<(Access, PathBuf)> = match &self.operation {
            TestedOperation::Files(files) => {
                files.iter().map(|(access, path)| (*access, real(&cwd.join(path)))).collect()
            }
            TestedOperation::Argv(_) | TestedOperation::Shell(_) => Vec::new(),
        };
        // Removing a directory removes everything below it.
        let accesses: Vec<PathAccess<'_>> = files
            .iter()
            .map(|(access, path)| PathAccess {
                path,
                access: *access,
                is_recursive: *access == Access::Remove && path.is_dir(),
            })
            .collect();
        let operation = match &self.operation {
            TestedOperation::Argv(argv) => {
                PolicyOperation::Run { line: CommandLine::Argv(argv), cwd: &cwd, env: &[] }
            }
            TestedOperation::Shell(line) => {
                PolicyOperation::Run { line: CommandLine::Shell { line, login: false }, cwd: &cwd, env: &[] }
            }
            TestedOperation::Files(_) => PolicyOperation::Files(&accesses),
        };
        evaluate(&PolicyQuery { face: &self.face, client: &self.client, caller: &caller, operation })
    }
}

/// The exit status for a decision.
fn status(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Deny | Verdict::NoShell => 1,
        Verdict::Ask => 2,
    }
}
