//! Conditions: through which front end, for whom and where a rule holds at all.

use std::path::Path;

use super::pattern::{Glob, Match};
use super::{PathGlob, PolicyOperation, PolicyQuery};

/// When a rule is looked at. An empty list leaves that open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// Front ends.
    pub faces: Vec<Glob>,
    /// Names that clients give themselves.
    pub clients: Vec<Glob>,
    /// Callers by what they proved, such as `token:ci`.
    pub callers: Vec<Glob>,
    /// Directories in which a command starts.
    pub cwd: Vec<PathGlob>,
}

impl Conditions {
    /// Whether they hold, the directory left aside: a command can change it.
    pub(super) fn hold_for(&self, asked: &PolicyQuery<'_>) -> bool {
        let holds =
            |globs: &[Glob], text: &str| globs.is_empty() || globs.iter().any(|glob| glob.matches(text));
        holds(&self.faces, asked.face)
            && holds(&self.clients, asked.client)
            && holds(&self.callers, asked.caller)
    }

    /// How surely they hold. `moves` says that a command changes the directory before others run.
    pub(super) fn hold(&self, asked: &PolicyQuery<'_>, moves: bool) -> Match {
        if !self.hold_for(asked) {
            return Match::No;
        }
        match asked.operation {
            PolicyOperation::Run { cwd, .. } if !self.cwd.is_empty() => self.starts_in(cwd, moves),
            _ => Match::Yes,
        }
    }

    fn starts_in(&self, cwd: &Path, moves: bool) -> Match {
        match self.cwd.iter().any(|glob| glob.matches(cwd)) {
            _ if moves => Match::Maybe,
            true => Match::Yes,
            false => Match::No,
        }
    }
}
