//! What the operator allows: rules on commands, the use of shells and of `sudo`, and what commands inherit.
//!
//! A command line is taken apart into every simple command it may run (see `seen`), and each of them is judged:
//! the first rule that matches decides, then the default. It is allowed only if all of them are. What cannot be
//! seen before it runs is never allowed by a policy that could refuse something. A program that runs files or has
//! a language of its own (`bash script.sh`, `python -c`) is judged by its name and arguments only: rules guard
//! against accidents and plain attempts, a sandbox below the shell guards against the rest.

mod classes;
mod environment;
mod judge;
mod pattern;
mod rule;
mod seen;
mod shell;
mod words;
mod wrappers;

pub use classes::Class;
pub use environment::Environment;
pub use pattern::{ArgvPattern, Glob};
pub use rule::{Example, Matcher, PolicyError, Rule};

use std::collections::HashMap;

use crate::Error;

/// A command as it was asked for.
#[derive(Debug, Clone, Copy)]
pub enum CommandLine<'a> {
    /// A program and its arguments.
    Argv(&'a [String]),
    /// Text for a shell.
    Shell {
        /// The text.
        line: &'a str,
        /// Whether the shell is a login shell.
        login: bool,
    },
}

/// What a rule, the default, or the whole policy says. Ordered from mild to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person decides. Until an approver is attached, the caller answers with [`Decision::into_result`].
    Ask,
    /// It may not run.
    Deny,
    /// It needs a shell, and the operator switched shells off.
    NoShell,
}

/// A verdict and who gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What was decided.
    pub verdict: Verdict,
    /// The rule that decided, or `default`, `unseen`, `sudo`, `shell`.
    pub rule: String,
    /// Why, for the caller to read. Empty when it is allowed.
    pub reason: String,
}

impl Decision {
    /// The decision as the error a caller gets while nobody can be asked.
    pub fn into_result(self) -> Result<(), Error> {
        match self.verdict {
            Verdict::Allow => Ok(()),
            Verdict::Deny => Err(Error::Denied { rule: self.rule, reason: self.reason }),
            Verdict::Ask => Err(Error::Denied {
                rule: self.rule,
                reason: format!("{}; it needs an approval, and no approver is attached", self.reason),
            }),
            Verdict::NoShell => Err(Error::Unsupported { what: "shell", reason: self.reason }),
        }
    }
}

/// What an operator writes down about commands.
#[derive(Debug, Clone)]
pub struct PolicySettings {
    /// In order: the first that matches decides.
    pub rules: Vec<Rule>,
    /// Decides when no rule matches.
    pub default: Verdict,
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
    uses_classes: bool,
    can_refuse: bool,
}

impl Policy {
    /// Checks the examples of every rule and prepares to decide.
    pub fn new(settings: PolicySettings) -> Result<Self, PolicyError> {
        let mut policy = Self {
            can_refuse: settings.default != Verdict::Allow
                || settings.sudo.is_some()
                || settings.rules.iter().any(|rule| rule.verdict != Verdict::Allow),
            uses_classes: settings.rules.iter().any(|rule| matches!(rule.matcher, Matcher::Class(_))),
            ..Self::default()
        };
        for (at, rule) in settings.rules.iter().enumerate() {
            rule.check_examples()?;
            match rule.program_name() {
                Some(name) => policy.named.entry(name.to_owned()).or_default().push(at),
                None => policy.unnamed.push(at),
            }
        }
        policy.settings = settings;
        Ok(policy)
    }

    /// What the operator wrote down.
    pub fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    /// What commands inherit.
    pub fn environment(&self) -> &Environment {
        &self.settings.environment
    }

    /// Whether a command may run.
    pub fn decide(&self, line: &CommandLine<'_>) -> Decision {
        if !self.settings.allow_shell && matches!(line, CommandLine::Shell { .. }) {
            return no_shell();
        }
        if !self.can_refuse && self.settings.allow_shell {
            return Decision { verdict: Verdict::Allow, rule: DEFAULT.to_owned(), reason: String::new() };
        }
        let seen = seen::look(line);
        if !self.settings.allow_shell && seen.uses_shell {
            return no_shell();
        }
        self.judge(&seen)
    }
}

/// The name of the rule that is none.
const DEFAULT: &str = "default";

fn no_shell() -> Decision {
    let reason =
        "shells are switched off here (security.allow_shell); run the program with its arguments".to_owned();
    Decision { verdict: Verdict::NoShell, rule: "shell".to_owned(), reason }
}

#[cfg(test)]
mod tests;
