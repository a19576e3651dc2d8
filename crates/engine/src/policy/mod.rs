//! What the operator allows: rules on commands and files, the use of shells and of `sudo`, and what commands inherit.
//!
//! Files are judged by path: the first rule that matches decides, then the default for files.
//!
//! A command line is taken apart into every simple command it may run (see `seen`), and each of them is judged:
//! the first rule that matches decides, then the default. It is allowed only if all of them are. What cannot be
//! seen before it runs is never allowed by a policy that could refuse something. A program that runs files or has
//! a language of its own (`bash script.sh`, `python -c`) is judged by its name and arguments only, where the default
//! allows: rules guard against accidents and plain attempts, a sandbox below the shell guards against the rest.

mod analyze;
mod classes;
mod conditions;
mod decision;
mod environment;
mod evaluate;
mod evaluate_files;
mod explain;
mod git;
mod languages;
mod options;
mod path_glob;
mod path_index;
mod pattern;
mod query;
mod rule;
mod sed;
mod shell;
mod tools;
mod variables;
mod words;
mod wrappers;

pub use classes::Class;
pub use conditions::Conditions;
pub use decision::{Decision, Risk, Verdict};
pub use environment::Environment;
pub use explain::{Explanation, Finding, RuleStep, Subject};
pub use path_glob::PathGlob;
pub use pattern::{ArgvPattern, Glob};
pub use query::{Access, CommandLine, PathAccess, PolicyOperation, PolicyQuery};
pub use rule::{Example, Matcher, PolicyError, Rule, RuleAccess};

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use explain::{DecisionRecorder, ExplanationRecorder, NoRecorder};
use path_index::PathIndex;

/// What an operator writes down about commands and files.
#[derive(Debug, Clone)]
pub struct PolicySettings {
    /// In order: the first that matches decides.
    pub rules: Vec<Rule>,
    /// Decides on commands when no rule matches.
    pub default: Verdict,
    /// Decides on files when no rule matches.
    pub files_default: Verdict,
    /// Whether shell text, and shells with a text, may run at all.
    pub allow_shell: bool,
    /// When given, `sudo` may run only what one of these matches.
    pub sudo: Option<Vec<ArgvPattern>>,
    /// What commands inherit.
    pub environment: Environment,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            default: Verdict::Allow,
            files_default: Verdict::Allow,
            allow_shell: true,
            sudo: None,
            environment: Environment::default(),
        }
    }
}

/// Settings whose examples hold, ready to decide.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    settings: PolicySettings,
    /// Rules by the base name of the one program they name.
    named: HashMap<String, Vec<usize>>,
    /// Rules that may match any program.
    unnamed: Vec<usize>,
    /// Rules on files.
    paths: PathIndex,
    uses_classes: bool,
    /// Whether it could refuse anybody a command, whoever asks.
    refuses_all: bool,
    /// When it could refuse a command, each condition once.
    refuses_when: Vec<Conditions>,
    restricts_files: bool,
    depends_on_cwd: bool,
}

impl Policy {
    /// Checks the examples of every rule and prepares to decide.
    pub fn new(settings: PolicySettings) -> Result<Self, PolicyError> {
        let mut policy = Self {
            refuses_all: settings.default != Verdict::Allow || settings.sudo.is_some(),
            restricts_files: settings.files_default != Verdict::Allow,
            uses_classes: settings.rules.iter().any(|rule| matches!(rule.matcher, Matcher::Class(_))),
            ..Self::default()
        };
        for (at, rule) in settings.rules.iter().enumerate() {
            rule.check_examples()?;
            policy.add(at, rule);
        }
        policy.settings = settings;
        Ok(policy)
    }

    fn add(&mut self, at: usize, rule: &Rule) {
        self.depends_on_cwd |= !rule.conditions.cwd.is_empty();
        let strict = rule.verdict != Verdict::Allow;
        if let Matcher::Paths { globs, .. } = &rule.matcher {
            globs.iter().for_each(|glob| self.paths.add(glob, at));
            self.restricts_files |= strict;
            return;
        }
        match rule.program_name() {
            Some(name) => self.named.entry(name.to_owned()).or_default().push(at),
            None => self.unnamed.push(at),
        }
        // The directory is left aside: what cannot be seen may change it.
        let conditions = Conditions { cwd: Vec::new(), ..rule.conditions.clone() };
        if strict && conditions == Conditions::default() {
            self.refuses_all = true;
        } else if strict && !self.refuses_when.contains(&conditions) {
            self.refuses_when.push(conditions);
        }
    }

    /// What the operator wrote down.
    pub fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    /// What a rule that somebody wrote is, as a number: it changes when what the rule says changes.
    pub fn rule_fingerprint(&self, name: &str) -> Option<u64> {
        let rule = self.settings.rules.iter().find(|rule| *rule.name == *name)?;
        let mut hasher = DefaultHasher::new();
        format!("{:?}", (rule.verdict, &rule.matcher, &rule.conditions)).hash(&mut hasher);
        Some(hasher.finish())
    }

    /// What commands inherit.
    pub fn environment(&self) -> &Environment {
        &self.settings.environment
    }

    /// Whether it could refuse a file operation. If not, callers need not find out the paths.
    pub fn restricts_files(&self) -> bool {
        self.restricts_files
    }

    /// Whether a rule asks where a command starts. If not, callers need not find out where that really is.
    pub fn depends_on_cwd(&self) -> bool {
        self.depends_on_cwd
    }

    /// Whether an operation may be done.
    pub fn decide(&self, asked: &PolicyQuery<'_>) -> Decision {
        match asked.operation {
            PolicyOperation::Files(_) if !self.restricts_files => Decision::allowed(DEFAULT),
            PolicyOperation::Run { .. } if self.settings.allow_shell && !self.can_refuse(asked) => {
                Decision::allowed(DEFAULT)
            }
            _ => self.decide_with(asked, &mut NoRecorder),
        }
    }

    /// The same decision, and the whole way to it.
    pub fn explain(&self, asked: &PolicyQuery<'_>) -> Explanation {
        let mut kept = ExplanationRecorder::default();
        let decision = self.decide_with(asked, &mut kept);
        Explanation { subjects: kept.subjects, unseen: kept.unseen, decision }
    }

    fn decide_with(&self, asked: &PolicyQuery<'_>, notes: &mut impl DecisionRecorder) -> Decision {
        let line = match asked.operation {
            PolicyOperation::Files(touched) => return self.evaluate_files(asked, touched, notes),
            PolicyOperation::Run { line, .. } => line,
        };
        if !self.settings.allow_shell && matches!(line, CommandLine::Shell { .. }) {
            return no_shell();
        }
        let seen = analyze::analyze(&line);
        if !self.settings.allow_shell && seen.uses_shell {
            return no_shell();
        }
        self.evaluate(
            evaluate::CommandQuery { asked, seen: &seen, can_refuse: self.can_refuse(asked) },
            notes,
        )
    }

    /// Whether any rule on commands could refuse this caller something.
    fn can_refuse(&self, asked: &PolicyQuery<'_>) -> bool {
        self.refuses_all || self.refuses_when.iter().any(|conditions| conditions.hold_for(asked))
    }
}

/// What an operation puts at stake, whatever a policy says about it.
pub fn risk(operation: &PolicyOperation<'_>) -> Risk {
    match operation {
        PolicyOperation::Run { line, .. } => decision::risk_of_commands(&analyze::analyze(line)),
        PolicyOperation::Files(touched) => decision::risk_of_files(touched),
    }
}

/// The name of the rule that is none.
const DEFAULT: &str = "default";

fn no_shell() -> Decision {
    let reason =
        "shells are switched off here (security.allow_shell); run the program with its arguments".to_owned();
    Decision::new(Verdict::NoShell, "shell", reason)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_files;
