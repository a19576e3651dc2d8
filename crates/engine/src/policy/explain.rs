//! Explanations: the whole way to a decision, for the person who writes the rules.

use std::sync::Arc;

use super::analyze::{CommandKind, ParsedCommand};
use super::classes::{Class, Classes};
use super::evaluate_files::describe;
use super::pattern::Match;
use super::rule::Matcher;
use super::{Decision, PathAccess, Rule};

/// How a decision came about. Every rule is looked at in order, without the index that a decision uses.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// Every command or file that was judged, in the order in which they were found.
    pub subjects: Vec<Subject>,
    /// What could not be seen before it runs, when that counted.
    pub unseen: Option<String>,
    /// The strictest of all.
    pub decision: Decision,
}

/// One command or file that was judged.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The command or the file, for people.
    pub what: String,
    /// What is known about a command besides its words, for people.
    pub note: Option<&'static str>,
    /// Its classes; a name that ends with `?` depends on words only known when it runs.
    pub classes: Vec<String>,
    /// The rules looked at, up to the one that decided.
    pub steps: Vec<RuleStep>,
    /// What was decided about it.
    pub decision: Option<Decision>,
}

/// One rule that was looked at.
#[derive(Debug, Clone)]
pub struct RuleStep {
    /// Its name.
    pub rule: Arc<str>,
    /// The line where it stands, when it came from a file.
    pub line: Option<usize>,
    /// What was found.
    pub finding: Finding,
}

/// Why a rule did or did not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// It matches, and is the first to do so.
    Decides,
    /// It may match what is only known later, and is strict.
    MayMatch,
    /// It may match, but only certainty allows.
    NotCertain,
    /// It matches, but does not name the program, and what that runs cannot be seen.
    NamesNoProgram,
    /// It matches, but a variable is changed that makes names mean other programs.
    LookupChanged,
    /// It is for another front end, client or caller.
    OtherCaller,
    /// It is for another directory.
    OtherDirectory,
    /// It is about another program, or that program in another place.
    OtherProgram,
    /// It is about the program with other arguments.
    OtherArguments,
    /// The command is not of its class.
    OtherClass,
    /// It is about another path.
    OtherPath,
    /// It is about another access.
    OtherAccess,
}

impl Finding {
    /// The finding as a sentence without its subject.
    pub fn text(self) -> &'static str {
        match self {
            Self::Decides => "matches and decides",
            Self::MayMatch => "may match what is only known later, and counts as matching",
            Self::NotCertain => "may match, but only certainty allows",
            Self::NamesNoProgram => {
                "matches, but what it runs cannot be seen, and the rule does not name the program"
            }
            Self::LookupChanged => "matches, but a variable is set that makes names mean other programs",
            Self::OtherCaller => "is for other faces, clients or callers",
            Self::OtherDirectory => "is for other working directories",
            Self::OtherProgram => "is about another program",
            Self::OtherArguments => "is about other arguments",
            Self::OtherClass => "is about another class of command",
            Self::OtherPath => "is about other paths",
            Self::OtherAccess => "is about another kind of access",
        }
    }

    pub(super) fn no(rule: &Rule, command: &ParsedCommand, held: Match) -> Self {
        match &rule.matcher {
            _ if held == Match::No && rule.conditions.cwd.is_empty() => Self::OtherCaller,
            _ if held == Match::No => Self::OtherDirectory,
            Matcher::Argv(pattern) if pattern.program_matches(command.program()) => Self::OtherArguments,
            Matcher::Argv(_) => Self::OtherProgram,
            Matcher::Class(_) => Self::OtherClass,
            Matcher::Paths { .. } => Self::OtherPath,
        }
    }

    pub(super) fn no_path(rule: &Rule, touch: &PathAccess<'_>, held: Match) -> Self {
        match &rule.matcher {
            _ if held == Match::No => Self::OtherCaller,
            Matcher::Paths { access, .. } if !access.covers(touch.access) => Self::OtherAccess,
            _ => Self::OtherPath,
        }
    }
}

/// Takes notes while a decision is made. A decision that nobody wants explained takes none.
pub(super) trait DecisionRecorder {
    /// Whether every rule is to be looked at, also those an index rules out.
    fn every_rule(&self) -> bool {
        false
    }
    fn command(&mut self, _command: &ParsedCommand, _classes: Classes) {}
    fn file(&mut self, _touch: &PathAccess<'_>) {}
    fn rule(&mut self, _rule: &Rule, _finding: Finding) {}
    fn decided(&mut self, _decision: &Decision) {}
    fn unseen(&mut self, _why: &str) {}
}

/// Takes no notes.
pub(super) struct NoRecorder;

impl DecisionRecorder for NoRecorder {}

/// Keeps everything.
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
    fn every_rule(&self) -> bool {
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
            CommandKind::Passes => Some("runs another command, which is judged on its own"),
            CommandKind::Sudo(_) => Some("runs another command with other rights"),
            CommandKind::Opaque => Some("may run anything"),
            CommandKind::Code => Some("is given code, which is not looked into"),
            CommandKind::Perhaps => Some("is perhaps run by the command before it"),
        };
        self.subject(command.text(), note, names.collect());
    }

    fn file(&mut self, touch: &PathAccess<'_>) {
        self.subject(describe(touch), None, Vec::new());
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
