//! Decisions: a verdict, who gave it and why, and what is at stake.

use std::sync::Arc;

use super::analyze::{CommandKind, ParsedCommands};
use super::classes::{Class, Classes};
use super::pattern::Match;
use super::{Access, PathAccess, classes};
use crate::Error;

/// What a rule, the default, or the whole policy says. Ordered from mild to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It may be done.
    Allow,
    /// A person decides. Until an approver is attached, the caller answers with [`Decision::into_result`].
    Ask,
    /// It may not be done.
    Deny,
    /// It needs a shell, and the operator switched shells off.
    NoShell,
}

impl Verdict {
    /// The word for people and for the audit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny | Self::NoShell => "deny",
        }
    }
}

/// How much an operation could do, for the person who is asked about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// It looks or builds.
    Low,
    /// It changes something, talks to other machines, or is not known.
    Medium,
    /// It takes away what cannot be brought back, gains rights, or cannot be seen before it runs.
    High,
}

impl Risk {
    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A verdict and who gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What was decided.
    pub verdict: Verdict,
    /// The rule that decided, or `default`, `unseen`, `sudo`, `shell`.
    pub rule: Arc<str>,
    /// Why, for the caller to read. Empty when it is allowed.
    pub reason: String,
    /// What is at stake. Only worked out for what is not allowed; [`super::risk`] tells it of anything.
    pub risk: Risk,
}

impl Decision {
    pub(super) fn allowed(rule: impl Into<Arc<str>>) -> Self {
        Self { verdict: Verdict::Allow, rule: rule.into(), reason: String::new(), risk: Risk::Low }
    }

    pub(super) fn new(verdict: Verdict, rule: impl Into<Arc<str>>, reason: impl Into<String>) -> Self {
        Self { verdict, rule: rule.into(), reason: reason.into(), risk: Risk::Low }
    }

    /// The decision as the error a caller gets while nobody can be asked.
    pub fn into_result(self) -> Result<(), Error> {
        let rule = || self.rule.to_string();
        match self.verdict {
            Verdict::Allow => Ok(()),
            Verdict::Deny => Err(Error::Denied { rule: rule(), reason: self.reason }),
            Verdict::Ask => Err(Error::Denied {
                rule: rule(),
                reason: format!("{}; it needs an approval, and no approver is attached", self.reason),
            }),
            Verdict::NoShell => Err(Error::Unsupported { what: "shell", reason: self.reason }),
        }
    }
}

/// What the commands of a line put at stake.
pub(super) fn risk_of_commands(seen: &ParsedCommands) -> Risk {
    let worst = seen.commands.iter().map(|command| match command.kind {
        CommandKind::Opaque | CommandKind::Code => Risk::High,
        CommandKind::Passes => Risk::Low,
        CommandKind::Perhaps if classes::of(command).is_nothing() => Risk::Low,
        CommandKind::Plain | CommandKind::Perhaps | CommandKind::Sudo(_) => {
            risk_of_classes(classes::of(command))
        }
    });
    let unseen = seen.unseen.as_ref().map(|_| Risk::High);
    worst.chain(unseen).max().unwrap_or(Risk::Low)
}

fn risk_of_classes(classes: Classes) -> Risk {
    let may = |class| classes.has(class) != Match::No;
    let surely = |class| classes.has(class) == Match::Yes;
    if may(Class::Destructive) || may(Class::Privilege) {
        Risk::High
    } else if !may(Class::Network)
        && !may(Class::Package)
        && (surely(Class::ReadOnly) || surely(Class::Build))
    {
        Risk::Low
    } else {
        Risk::Medium
    }
}

/// What touching these files puts at stake.
pub(super) fn risk_of_files(touched: &[PathAccess<'_>]) -> Risk {
    let each = touched.iter().map(|touch| match touch.access {
        Access::Read => Risk::Low,
        Access::Write => Risk::Medium,
        Access::Remove => Risk::High,
    });
    each.max().unwrap_or(Risk::Low)
}
