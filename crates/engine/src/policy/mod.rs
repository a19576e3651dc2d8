//! The operator's policy: rules on commands and files, the use of shells and of `sudo`, and the environment of commands.
//!
//! Files are evaluated by path: the first rule that matches decides, then the default for files.
//!
//! A command line is split into all simple commands that it may run (see `analyze`), and each is evaluated: the first
//! rule that matches decides, then the default. The line is allowed only if all its commands are. A policy that could
//! refuse a command never allows a line that cannot be analyzed. Scripts and code of other languages (`bash script.sh`,
//! `python -c`) are evaluated by name and arguments only, if the default allows: rules prevent accidents and simple
//! attempts, the sandbox prevents the rest.

mod analyze;
mod assignments;
mod classes;
mod command_index;
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

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use command_index::CommandIndex;
use explain::{DecisionRecorder, ExplanationRecorder, NoRecorder};
use path_index::PathIndex;

/// Settings of a policy as in the configuration.
#[derive(Debug, Clone)]
pub struct PolicySettings {
    /// Rules in order; the first that matches decides.
    pub rules: Vec<Rule>,
    /// Verdict on commands that no rule matches.
    pub default: Verdict,
    /// Verdict on files that no rule matches.
    pub files_default: Verdict,
    /// Whether shell text may run, directly or as an argument of a shell.
    pub allow_shell: bool,
    /// Commands that `sudo` may run; every command if there is no list.
    pub sudo: Option<Vec<ArgvPattern>>,
    /// Variables that commands inherit.
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

/// Settings with checked examples and an index for decisions.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    settings: PolicySettings,
    /// Index of rules on commands.
    commands: CommandIndex,
    /// Index of rules on files.
    paths: PathIndex,
    uses_classes: bool,
    /// Whether it could refuse a command of any caller.
    refuses_all: bool,
    /// Conditions under which it could refuse a command, without duplicates.
    refuses_when: Vec<Conditions>,
    restricts_files: bool,
    depends_on_cwd: bool,
}

impl Policy {
    /// Checks the examples of all rules and builds the index.
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
        let is_strict = rule.verdict != Verdict::Allow;
        if let Matcher::Paths { globs, .. } = &rule.matcher {
            globs.iter().for_each(|glob| self.paths.add(glob, at));
            self.restricts_files |= is_strict;
            return;
        }
        self.commands.add(rule, at);
        // The directory is ignored: commands that cannot be analyzed may change it.
        let conditions = Conditions { cwd: Vec::new(), ..rule.conditions.clone() };
        if is_strict && conditions == Conditions::default() {
            self.refuses_all = true;
        } else if is_strict && !self.refuses_when.contains(&conditions) {
            self.refuses_when.push(conditions);
        }
    }

    /// The settings that the policy was created from.
    pub fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    /// Hash of a configured rule, which changes when its verdict, matcher or conditions change.
    pub fn rule_fingerprint(&self, name: &str) -> Option<u64> {
        let rule = self.settings.rules.iter().find(|rule| *rule.name == *name)?;
        let mut hasher = DefaultHasher::new();
        format!("{:?}", (rule.verdict, &rule.matcher, &rule.conditions, &rule.env)).hash(&mut hasher);
        Some(hasher.finish())
    }

    /// Variables that commands inherit.
    pub fn environment(&self) -> &Environment {
        &self.settings.environment
    }

    /// Whether it could refuse a file operation. If not, callers need not resolve the paths.
    pub fn restricts_files(&self) -> bool {
        self.restricts_files
    }

    /// Whether a rule depends on the working directory. If not, callers need not resolve it.
    pub fn depends_on_cwd(&self) -> bool {
        self.depends_on_cwd
    }

    /// Decides whether an operation may run.
    pub fn decide(&self, query: &PolicyQuery<'_>) -> Decision {
        match query.operation {
            PolicyOperation::Files(_) if !self.restricts_files => Decision::allowed(DEFAULT),
            PolicyOperation::Run { .. } if self.settings.allow_shell && !self.can_refuse(query) => {
                Decision::allowed(DEFAULT)
            }
            _ => self.decide_with(query, &mut NoRecorder),
        }
    }

    /// Makes the same decision as [`Policy::decide`] and records every step.
    pub fn explain(&self, query: &PolicyQuery<'_>) -> Explanation {
        let mut recorder = ExplanationRecorder::default();
        let decision = self.decide_with(query, &mut recorder);
        Explanation { subjects: recorder.subjects, unseen: recorder.unseen, decision }
    }

    fn decide_with(&self, query: &PolicyQuery<'_>, recorder: &mut impl DecisionRecorder) -> Decision {
        let (line, env) = match query.operation {
            PolicyOperation::Files(accesses) => return self.evaluate_files(query, accesses, recorder),
            PolicyOperation::Run { line, env, .. } => (line, env),
        };
        if !self.settings.allow_shell && matches!(line, CommandLine::Shell { .. }) {
            return no_shell();
        }
        let parsed = analyze::analyze(&line, env);
        if !self.settings.allow_shell && parsed.uses_shell {
            return no_shell();
        }
        self.evaluate(
            evaluate::CommandQuery { query, parsed: &parsed, can_refuse: self.can_refuse(query) },
            recorder,
        )
    }

    /// Whether a rule on commands could refuse this caller a command.
    fn can_refuse(&self, query: &PolicyQuery<'_>) -> bool {
        self.refuses_all || self.refuses_when.iter().any(|conditions| conditions.match_caller(query))
    }
}

/// Risk of an operation, independent of any policy.
pub fn risk(operation: &PolicyOperation<'_>) -> Risk {
    match operation {
        PolicyOperation::Run { line, env, .. } => decision::risk_of_commands(&analyze::analyze(line, env)),
        PolicyOperation::Files(accesses) => decision::risk_of_files(accesses),
    }
}

/// Name of the rule in decisions that no rule made.
const DEFAULT: &str = "default";

fn no_shell() -> Decision {
    let reason = "shells are off (security.allow_shell = false); run the program with its arguments instead"
        .to_owned();
    Decision::new(Verdict::NoShell, "shell", reason)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_files;
#[cfg(test)]
mod tests_variables;
