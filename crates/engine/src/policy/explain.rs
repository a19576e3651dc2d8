//! Explanations: every command, rule and finding behind a decision, for `rexd policy explain`.

use std::sync::Arc;

use super::analyze::{CommandKind, ParsedCommand};
use super::classes::{Class, Classes};
use super::evaluate_files::describe;
use super::pattern::Match;
use super::rule::Matcher;
use super::{Decision, PathAccess, Rule};

/// How a decision was made. All rules are checked in order, without the index that a decision uses.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// All commands or files that were evaluated, in the order in which they were found.
    pub subjects: Vec<Subject>,
    /// Why the commands are not fully known before they run, if that affected the decision.
    pub unseen: Option<String>,
    /// The strictest decision on a subject.
    pub decision: Decision,
}

/// A command or file that was evaluated.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The command, or the access and the path.
    pub what: String,
    /// How the command uses its arguments.
    pub note: Option<&'static str>,
    /// Names of its classes; `?` follows a class that depends on words only known at run time.
    pub classes: Vec<String>,
    /// Rules that were checked, up to the one that decided.
    pub steps: Vec<RuleStep>,
    /// Decision on this command or file.
    pub decision: Option<Decision>,
}

/// A rule that was checked.
#[derive(Debug, Clone)]
pub struct RuleStep {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Its line in the configuration file.
    pub line: Option<usize>,
    /// Whether it matched, and why not.
    pub finding: Finding,
}

/// Why a rule did or did not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// It is the first rule that matches.
    Decides,
    /// It may match words that are only known at run time; a rule that denies or asks then counts as matching.
    MayMatch,
    /// It may match; a rule that allows must match with certainty.
    NotCertain,
    /// It matches without naming the program, and the program may run any command.
    NamesNoProgram,
    /// It matches, but a variable is set that is not known to be harmless.
    UnknownVariable,
    /// It applies to other front ends, clients or callers.
    OtherCaller,
    /// It applies to other working directories.
    OtherDirectory,
    /// It names another program, or the same one in another directory.
    OtherProgram,
    /// It names the program with other arguments.
    OtherArguments,
    /// It applies to another class of commands.
    OtherClass,
    /// It applies to other paths.
    OtherPath,
    /// It applies to another kind of access.
    OtherAccess,
}

impl Finding {
    /// The finding as a predicate: `rule X` and this text form a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Self::Decides => "matches and decides",
            Self::MayMatch => "may match words that are only known at run time, and counts as matching",
            Self::NotCertain => "may match, but a rule that allows must match with certainty",
            Self::NamesNoProgram => {
                "matches, but the program may run any command and the rule does not name it"
            }
            Self::UnknownVariable => "matches, but a variable is set that may change what the command runs",
            Self::OtherCaller => "applies to other faces, clients or callers",
            Self::OtherDirectory => "applies to other working directories",
            Self::OtherProgram => "names another program",
            Self::OtherArguments => "names other arguments",
            Self::OtherClass => "applies to another class of commands",
            Self::OtherPath => "applies to other paths",
            Self::OtherAccess => "applies to another kind of access",
        }
    }

    pub(super) fn no(rule: &Rule, command: &ParsedCommand, conditions: Match) -> Self {
        match &rule.matcher {
            _ if conditions == Match::No && rule.conditions.cwd.is_empty() => Self::OtherCaller,
            _ if conditions == Match::No => Self::OtherDirectory,
            Matcher::Argv(pattern) if pattern.program_matches(command.program()) => Self::OtherArguments,
            Matcher::Argv(_) => Self::OtherProgram,
            Matcher::Class(_) => Self::OtherClass,
            Matcher::Paths { .. } => Self::OtherPath,
        }
    }

    pub(super) fn no_path(rule: &Rule, path_access: &PathAccess<'_>, conditions: Match) -> Self {
        match &rule.matcher {
            _ if conditions == Match::No => Self::OtherCaller,
            Matcher::Paths { access, .. } if !access.covers(path_access.access) => Self::OtherAccess,
            _ => Self::OtherPath,
        }
    }
}

/// Records the steps of a decision. [`NoRecorder`] records nothing.
pub(super) trait DecisionRecorder {
    /// Whether all rules are checked, including those that the index excludes.
    fn needs_all_rules(&self) -> bool {
        false
    }
    fn command(&mut self, _command: &ParsedCommand, _classes: Classes) {}
    fn file(&mut self, _touch: &PathAccess<'_>) {}
    fn rule(&mut self, _rule: &Rule, _finding: Finding) {}
    fn decided(&mut self, _decision: &Decision) {}
    fn unseen(&mut self, _why: &str) {}
}

/// For decisions without an explanation.
pub(super) struct NoRecorder;

impl DecisionRecorder for NoRecorder {}

/// Records each step of a policy decision.
#[derive(Default)]
pub(super) struct ExplanationRecorder {
    pub(super) subjects: Vec<Subject>,
    pub(super) unseen: Option<String>,
}

impl ExplanationRecorder {
    fn subject(&mut self, what: String, note: Option<&'static str>, classes: Vec<String>) {
        self.subjects.push(Subject { what, note, classes, steps: Vec::new(), decision: None });
    }
}

impl DecisionRecorder for ExplanationRecorder {
    fn needs_all_rules(&self) -> bool {
        true
    }

    fn command(&mut self, command: &ParsedCommand, classes: Classes) {
        let names = Class::NAMES.iter().filter_map(|(name, class)| match classes.has(*class) {
            Match::Yes => Some((*name).to_owned()),
            Match::Maybe => Some(format!("{name}?")),
            Match::No => None,
        });
        let note = match command.kind {
            CommandKind::Plain => None,
            CommandKind::Passes => Some("runs another command, which is evaluated separately"),
            CommandKind::Sudo(_) => Some("runs another command with other privileges"),
            CommandKind::Opaque => Some("may run any command"),
            CommandKind::Code => Some("may run code, which is not analyzed"),
            CommandKind::Perhaps => Some("may be run by the command before it"),
        };
        self.subject(command.text(), note, names.collect());
    }

    fn file(&mut self, access: &PathAccess<'_>) {
        self.subject(describe(access), None, Vec::new());
    }

    fn rule(&mut self, rule: &Rule, finding: Finding) {
        if let Some(subject) = self.subjects.last_mut() {
            subject.steps.push(RuleStep { rule: rule.name.clone(), line: rule.line, finding });
        }
    }

    fn decided(&mut self, decision: &Decision) {
        if let Some(subject) = self.subjects.last_mut() {
            subject.decision = Some(decision.clone());
        }
    }

    fn unseen(&mut self, why: &str) {
        self.unseen = Some(why.to_owned());
    }
}
