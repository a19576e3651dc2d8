//! Rules: what they match, what they say, and the examples that prove it when they are loaded.

use super::classes::{Class, Classes};
use super::judge::is_system_program;
use super::pattern::{ArgvPattern, Match};
use super::seen::{self, Command};
use super::words::Word;
use super::{CommandLine, Verdict};

/// One rule of a policy.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What callers and the audit see.
    pub name: String,
    /// What it says about commands it matches.
    pub verdict: Verdict,
    /// Which commands it matches.
    pub matcher: Matcher,
    /// What the caller is told instead of a generated reason.
    pub reason: Option<String>,
    /// Commands it must match.
    pub examples_match: Vec<Example>,
    /// Commands it must not match.
    pub examples_no_match: Vec<Example>,
}

/// Which commands a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matcher {
    /// By program and arguments.
    Argv(ArgvPattern),
    /// By what the command does.
    Class(Class),
}

/// A command in a rule's examples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Example {
    /// A program and its arguments.
    Argv(Vec<String>),
    /// Text for a shell.
    Shell(String),
}

/// Why a policy is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A rule does not do what its examples say.
    #[error("rule {rule:?} {} its example {example}", if *expected { "does not match" } else { "matches" })]
    Example {
        /// The rule.
        rule: String,
        /// The example as it was written.
        example: String,
        /// Whether it should have matched.
        expected: bool,
    },
}

impl Rule {
    /// The base name of the one program it can match, if there is only one.
    pub fn program_name(&self) -> Option<&str> {
        match &self.matcher {
            Matcher::Argv(pattern) => pattern.program_name(),
            Matcher::Class(_) => None,
        }
    }

    /// How surely it matches a command whose classes are given. A rule that allows is held to a stricter reading:
    /// its bare program name means only what the system's directories hold.
    pub(super) fn matches(&self, command: &Command, classes: Classes) -> Match {
        let foreign = self.verdict == Verdict::Allow && !is_system_program(command.program());
        match &self.matcher {
            Matcher::Argv(pattern) => {
                if !pattern.program_matches(command.program()) || (foreign && pattern.trusts_any_directory())
                {
                    return Match::No;
                }
                pattern.arguments_match(arguments(command))
            }
            Matcher::Class(_) if foreign => Match::No,
            Matcher::Class(class) => classes.has(*class),
        }
    }

    /// Every example does what it should.
    pub(super) fn check_examples(&self) -> Result<(), PolicyError> {
        let expectations = self.examples_match.iter().map(|example| (example, true));
        for (example, expected) in
            expectations.chain(self.examples_no_match.iter().map(|example| (example, false)))
        {
            if self.applies_to(example) != expected {
                return Err(PolicyError::Example {
                    rule: self.name.clone(),
                    example: example.text(),
                    expected,
                });
            }
        }
        Ok(())
    }

    fn applies_to(&self, example: &Example) -> bool {
        let line = match example {
            Example::Argv(argv) => CommandLine::Argv(argv),
            Example::Shell(line) => CommandLine::Shell { line, login: false },
        };
        let least = if self.verdict == Verdict::Allow { Match::Yes } else { Match::Maybe };
        let seen = seen::look(&line);
        seen.commands.iter().any(|command| self.matches(command, super::classes::of(command)) >= least)
    }
}

impl Example {
    fn text(&self) -> String {
        match self {
            Self::Argv(argv) => format!("{argv:?}"),
            Self::Shell(line) => format!("{line:?}"),
        }
    }
}

/// The words of a command after its program.
pub(super) fn arguments(command: &Command) -> &[Word] {
    command.words.get(1..).unwrap_or_default()
}
