//! Decisions: a verdict, the rule behind it, the reason and the risk.

use std::sync::Arc;

use super::analyze::{CommandKind, ParsedCommands};
use super::classes::{Class, Classes};
use super::pattern::Match;
use super::{Access, PathAccess, classes};
use crate::Error;

/// Verdict of a rule, of the default or of the whole policy, ordered from mild to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The operation may run.
    Allow,
    /// The operation needs an approval. Without an approver, [`Decision::into_result`] is the answer.
    Ask,
    /// The operation is refused.
    Deny,
    /// The operation needs a shell, and `security.allow_shell` is off.
    NoShell,
}

impl Verdict {
    /// The name in messages and in the audit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny | Self::NoShell => "deny",
        }
    }
}

/// Harm that an operation may do, as shown to approvers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// It reads or builds.
    Low,
    /// It changes files, uses the network, or is not known.
    Medium,
    /// It destroys data, gains privileges, or cannot be analyzed.
    High,
}

impl Risk {
    /// The name in messages and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A verdict with its rule and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The verdict of the policy.
    pub verdict: Verdict,
    /// The rule that decided, or `default`, `unseen`, `sudo`, `shell`.
    pub rule: Arc<str>,
    /// Reason for the caller; empty if the operation is allowed.
    pub reason: String,
    /// Risk of the operation. Only computed if it is not allowed; [`super::risk`] computes it for any operation.
    pub risk: Risk,
}

impl Decision {
    pub(super) fn allowed(rule: impl Into<Arc<str>>) -> Self {
        Self { verdict: Verdict::Allow, rule: rule.into(), reason: String::new(), risk: Risk::Low }
    }

    pub(super) fn new(verdict: Verdict, rule: impl Into<Arc<str>>, reason: impl Into<String>) -> Self {
        Self { verdict, rule: rule.into(), reason: reason.into(), risk: Risk::Low }
    }

    /// The decision as a result for a caller without an approver.
    pub fn into_result(self) -> Result<(), Error> {
        let rule = || self.rule.to_string();
        match self.verdict {
            Verdict::Allow => Ok(()),
            Verdict::Deny => Err(Error::Denied { rule: rule(), reason: self.reason }),
            Verdict::Ask => Err(Error::Denied {
                rule: rule(),
                reason: format!("{}; it needs an approval, and no approver is connected", self.reason),
            }),
            Verdict::NoShell => Err(Error::Unsupported { what: "shell", reason: self.reason }),
        }
    }
}

/// Risk of the commands of a line.
pub(super) fn risk_of_commands(parsed: &ParsedCommands) -> Risk {
    let worst = parsed.commands.iter().map(|command| match command.kind {
        CommandKind::Opaque | CommandKind::Code => Risk::High,
        CommandKind::Passes => Risk::Low,
        CommandKind::Perhaps if classes::of(command).is_nothing() => Risk::Low,
        CommandKind::Plain | CommandKind::Perhaps | CommandKind::Sudo(_) => {
            risk_of_classes(classes::of(command))
        }
    });
    let unseen = parsed.unseen.as_ref().map(|_| Risk::High);
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

/// Risk of a file operation.
pub(super) fn risk_of_files(accesses: &[PathAccess<'_>]) -> Risk {
    let each = accesses.iter().map(|access| match access.access {
        Access::Read => Risk::Low,
        Access::Write => Risk::Medium,
        Access::Remove => Risk::High,
    });
    each.max().unwrap_or(Risk::Low)
}
