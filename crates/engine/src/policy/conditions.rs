//! Conditions of a rule: the front ends, clients, callers and directories that it applies to.

use std::path::Path;

use super::pattern::{Glob, Match};
use super::{PathGlob, PolicyOperation, PolicyQuery};

/// When a rule applies. An empty list matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// Names of front ends.
    pub faces: Vec<Glob>,
    /// Names that clients report for themselves.
    pub clients: Vec<Glob>,
    /// Authenticated names of callers, such as `token:ci`.
    pub callers: Vec<Glob>,
    /// Directories that a command starts in.
    pub cwd: Vec<PathGlob>,
}

impl Conditions {
    /// Whether all but the directory match, which a command can change.
    pub(super) fn match_caller(&self, query: &PolicyQuery<'_>) -> bool {
        let matches =
            |globs: &[Glob], text: &str| globs.is_empty() || globs.iter().any(|glob| glob.matches(text));
        matches(&self.faces, query.face)
            && matches(&self.clients, query.client)
            && matches(&self.callers, query.caller)
    }

    /// How surely they match. `moves` is true if a command may change the directory before others run.
    pub(super) fn matches(&self, query: &PolicyQuery<'_>, moves: bool) -> Match {
        if !self.match_caller(query) {
            return Match::No;
        }
        match query.operation {
            PolicyOperation::Run { cwd, .. } if !self.cwd.is_empty() => self.matches_cwd(cwd, moves),
            _ => Match::Yes,
        }
    }

    fn matches_cwd(&self, cwd: &Path, moves: bool) -> Match {
        match self.cwd.iter().any(|glob| glob.matches(cwd)) {
            _ if moves => Match::Maybe,
            true => Match::Yes,
            false => Match::No,
        }
    }
}
