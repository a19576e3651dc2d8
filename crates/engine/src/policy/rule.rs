//! Rules: what they match, their verdict, and the examples that are checked when they are loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::analyze::{self, ParsedCommand};
use super::classes::{Class, Classes};
use super::evaluate::is_system_program;
use super::pattern::{ArgvPattern, Glob, Match};
use super::words::Word;
use super::{Access, CommandLine, Conditions, Decision, PathAccess, PathGlob, Verdict};

/// One rule of a policy.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Name in messages and in the audit.
    pub name: Arc<str>,
    /// Verdict on what it matches.
    pub verdict: Verdict,
    /// Commands or files that it matches.
    pub matcher: Matcher,
    /// Faces, clients, callers and directories that it applies to.
    pub conditions: Conditions,
    /// Variables that may be set although they are not known to be harmless, for a rule that allows.
    pub env: Vec<Glob>,
    /// Reason for the caller; generated if there is none.
    pub reason: Option<String>,
    /// Commands or files that it must match. Conditions are ignored for examples.
    pub examples_match: Vec<Example>,
    /// Commands or files that it must not match.
    pub examples_no_match: Vec<Example>,
    /// Its line in the configuration file.
    pub line: Option<usize>,
}

/// Condition on the command or file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matcher {
    /// Commands by program and arguments.
    Argv(ArgvPattern),
    /// Commands by what they do.
    Class(Class),
    /// Files by their paths.
    Paths {
        /// The path matches one of these.
        globs: Vec<PathGlob>,
        /// The access that the rule applies to.
        access: RuleAccess,
    },
}

/// The access to files that a rule applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleAccess {
    /// Reading content, entries and attributes.
    Read,
    /// Creating, changing and removing.
    Write,
    /// Removing or moving away.
    Remove,
    /// Every access.
    Any,
}

impl RuleAccess {
    /// All values with their names in the configuration.
    pub const NAMES: [(&'static str, Self); 4] =
        [("read", Self::Read), ("write", Self::Write), ("remove", Self::Remove), ("any", Self::Any)];

    /// Whether the rule applies to this access.
    pub(super) fn covers(self, access: Access) -> bool {
        match self {
            Self::Read => access == Access::Read,
            Self::Write => access != Access::Read,
            Self::Remove => access == Access::Remove,
            Self::Any => true,
        }
    }
}

/// A command or a file in the examples of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Example {
    /// A program and its arguments.
    Argv(Vec<String>),
    /// Text that a shell interprets.
    Shell(String),
    /// A file with one access or with every access.
    Path {
        /// Absolute path of the file.
        path: PathBuf,
        /// The access; every access if there is none.
        access: Option<Access>,
    },
}

/// Why a policy cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A rule contradicts one of its examples.
    #[error("rule {rule:?} {} its example {example}", if *expected { "does not match" } else { "matches" })]
    Example {
        /// Name of the rule.
        rule: String,
        /// The example as in the configuration.
        example: String,
        /// Whether the rule should match it.
        expected: bool,
    },
}

impl Rule {
    /// A rule without conditions, reason and examples.
    pub fn new(name: &str, verdict: Verdict, matcher: Matcher) -> Self {
        Self {
            name: name.into(),
            verdict,
            matcher,
            conditions: Conditions::default(),
            env: Vec::new(),
            reason: None,
            examples_match: Vec::new(),
            examples_no_match: Vec::new(),
            line: None,
        }
    }

    /// Whether it matches files, not commands.
    pub fn is_about_files(&self) -> bool {
        matches!(self.matcher, Matcher::Paths { .. })
    }

    /// Base name of the program, if the rule names exactly one.
    pub fn program_name(&self) -> Option<&str> {
        match &self.matcher {
            Matcher::Argv(pattern) => pattern.program_name(),
            Matcher::Class(_) | Matcher::Paths { .. } => None,
        }
    }

    /// The decision of a rule that denies or asks.
    pub(super) fn refusal(&self, what: &str, note: &str) -> Decision {
        let reason = match &self.reason {
            Some(reason) => format!("{reason}{note}"),
            None => format!("rule {:?} matches `{what}`{note}", self.name),
        };
        Decision::new(self.verdict, self.name.clone(), reason)
    }

    /// How surely it matches a file, or a directory and everything below it.
    pub(super) fn matches_path(&self, access: &PathAccess<'_>) -> Match {
        let Matcher::Paths { globs, access: rule_access } = &self.matcher else { return Match::No };
        if !rule_access.covers(access.access) {
            return Match::No;
        }
        let each = globs.iter().map(|glob| match access.is_recursive {
            true => glob.matches_tree(access.path),
            false if glob.matches(access.path) => Match::Yes,
            false => Match::No,
        });
        each.max().unwrap_or(Match::No)
    }

    /// The first variable that the command line sets and that keeps the rule from allowing it.
    pub(super) fn unknown_variable<'v>(&self, variables: &'v [String]) -> Option<&'v str> {
        let is_listed = |name: &str| self.env.iter().any(|glob| glob.matches(name));
        variables.iter().map(String::as_str).find(|name| !is_listed(name))
    }

    /// How surely it matches a command of these classes. A rule that denies or asks matches with and without the options
    /// before the first argument: `git -C dir push` is a `git push`. In a rule that allows, a program name without a directory means
    /// only a program in a system directory.
    pub(super) fn matches(&self, command: &ParsedCommand, classes: Classes) -> Match {
        let is_untrusted = self.verdict == Verdict::Allow && !is_system_program(command.program());
        match &self.matcher {
            Matcher::Argv(pattern) => {
                if !pattern.program_matches(command.program())
                    || (is_untrusted && pattern.trusts_any_directory())
                {
                    return Match::No;
                }
                match self.verdict {
                    Verdict::Allow => pattern.arguments_match(arguments(command)),
                    _ => without_options(arguments(command))
                        .map(|arguments| pattern.arguments_match(arguments))
                        .max()
                        .unwrap_or(Match::No),
                }
            }
            Matcher::Class(_) if is_untrusted => Match::No,
            Matcher::Class(class) => classes.has(*class),
            Matcher::Paths { .. } => Match::No,
        }
    }

    /// Fails on the first example that the rule contradicts.
    pub(super) fn check_examples(&self) -> Result<(), PolicyError> {
        let expectations = self.examples_match.iter().map(|example| (example, true));
        for (example, expected) in
            expectations.chain(self.examples_no_match.iter().map(|example| (example, false)))
        {
            if self.applies_to(example) != expected {
                return Err(PolicyError::Example {
                    rule: self.name.to_string(),
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
            Example::Path { path, access } => return self.applies_to_path(path, *access),
        };
        let least = if self.verdict == Verdict::Allow { Match::Yes } else { Match::Maybe };
        let parsed = analyze::analyze(&line, &[]);
        parsed.commands.iter().any(|command| self.matches(command, super::classes::of(command)) >= least)
    }

    fn applies_to_path(&self, path: &Path, access: Option<Access>) -> bool {
        let kinds =
            Access::NAMES.iter().map(|(_, kind)| *kind).filter(|kind| access.is_none_or(|one| one == *kind));
        let mut accesses = kinds.map(|access| PathAccess { path, access, is_recursive: false });
        accesses.any(|access| self.matches_path(&access) == Match::Yes)
    }
}

impl Example {
    fn text(&self) -> String {
        match self {
            Self::Argv(argv) => format!("{argv:?}"),
            Self::Shell(line) => format!("{line:?}"),
            Self::Path { path, access: None } => format!("{path:?}"),
            Self::Path { path, access: Some(access) } => format!("{{ {} = {path:?} }}", access.name()),
        }
    }
}

/// Words of a command after its program.
pub(super) fn arguments(command: &ParsedCommand) -> &[Word] {
    command.words.get(1..).unwrap_or_default()
}

/// The arguments, and what remains of them without the first options. Each of these options may take the next word as
/// its value.
fn without_options(words: &[Word]) -> impl Iterator<Item = &[Word]> {
    /// Options that are removed: commands have few, and each adds a match of every rule.
    const MAX_OPTIONS: usize = 16;
    let is_option =
        |word: &Word| word.literal().is_some_and(|text| text.len() > 1 && text.starts_with(['-', '+']));
    let leading = words.iter().take(MAX_OPTIONS).enumerate().take_while({
        let mut may_be_value = false;
        move |(_, word)| {
            let is_counted = is_option(word) || may_be_value;
            may_be_value = is_option(word);
            is_counted
        }
    });
    let starts = leading.map(|(at, _)| at + 1);
    std::iter::once(0).chain(starts).map(|start| &words[start..])
}
