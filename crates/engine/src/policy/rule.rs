//! Rules: what they match, what they say, and the examples that prove it when they are loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::analyze::{self, ParsedCommand};
use super::classes::{Class, Classes};
use super::evaluate::is_system_program;
use super::pattern::{ArgvPattern, Match};
use super::words::Word;
use super::{Access, CommandLine, Conditions, Decision, PathAccess, PathGlob, Verdict};

/// One rule of a policy.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What callers and the audit see.
    pub name: Arc<str>,
    /// What it says about what it matches.
    pub verdict: Verdict,
    /// Which commands or files it matches.
    pub matcher: Matcher,
    /// When it is looked at.
    pub conditions: Conditions,
    /// What the caller is told instead of a generated reason.
    pub reason: Option<String>,
    /// What it must match. Examples are tried as if the conditions held.
    pub examples_match: Vec<Example>,
    /// What it must not match.
    pub examples_no_match: Vec<Example>,
    /// The line where it stands, when it came from a file.
    pub line: Option<usize>,
}

/// Which commands or files a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matcher {
    /// By program and arguments.
    Argv(ArgvPattern),
    /// By what the command does.
    Class(Class),
    /// Files by their paths.
    Paths {
        /// One of these matches.
        globs: Vec<PathGlob>,
        /// What is to happen to them.
        access: RuleAccess,
    },
}

/// What a path rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleAccess {
    /// Looking.
    Read,
    /// Making, changing and removing.
    Write,
    /// Removing only.
    Remove,
    /// All of it.
    Any,
}

impl RuleAccess {
    /// Every one with the name operators write.
    pub const NAMES: [(&'static str, Self); 4] =
        [("read", Self::Read), ("write", Self::Write), ("remove", Self::Remove), ("any", Self::Any)];

    /// Whether an access is one of these.
    pub(super) fn covers(self, access: Access) -> bool {
        match self {
            Self::Read => access == Access::Read,
            Self::Write => access != Access::Read,
            Self::Remove => access == Access::Remove,
            Self::Any => true,
        }
    }
}

/// A command or a file in a rule's examples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Example {
    /// A program and its arguments.
    Argv(Vec<String>),
    /// Text for a shell.
    Shell(String),
    /// A file, touched in this way or in any.
    Path {
        /// The file.
        path: PathBuf,
        /// What happens to it.
        access: Option<Access>,
    },
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
    /// A rule without conditions, reason and examples.
    pub fn new(name: &str, verdict: Verdict, matcher: Matcher) -> Self {
        Self {
            name: name.into(),
            verdict,
            matcher,
            conditions: Conditions::default(),
            reason: None,
            examples_match: Vec::new(),
            examples_no_match: Vec::new(),
            line: None,
        }
    }

    /// Whether it speaks of files and not of commands.
    pub fn is_about_files(&self) -> bool {
        matches!(self.matcher, Matcher::Paths { .. })
    }

    /// The base name of the one program it can match, if there is only one.
    pub fn program_name(&self) -> Option<&str> {
        match &self.matcher {
            Matcher::Argv(pattern) => pattern.program_name(),
            Matcher::Class(_) | Matcher::Paths { .. } => None,
        }
    }

    /// The decision of a rule that does not allow.
    pub(super) fn refuses(&self, what: &str, note: &str) -> Decision {
        let reason = match &self.reason {
            Some(reason) => format!("{reason}{note}"),
            None => format!("rule {:?} matches `{what}`{note}", self.name),
        };
        Decision::new(self.verdict, self.name.clone(), reason)
    }

    /// How surely it matches a file that is to be touched, or a directory and everything below it.
    pub(super) fn touches(&self, touch: &PathAccess<'_>) -> Match {
        let Matcher::Paths { globs, access } = &self.matcher else { return Match::No };
        if !access.covers(touch.access) {
            return Match::No;
        }
        let each = globs.iter().map(|glob| match touch.is_recursive {
            true => glob.matches_tree(touch.path),
            false if glob.matches(touch.path) => Match::Yes,
            false => Match::No,
        });
        each.max().unwrap_or(Match::No)
    }

    /// How surely it matches a command whose classes are given. A rule that allows is held to a stricter reading:
    /// its bare program name means only what the system's directories hold.
    pub(super) fn matches(&self, command: &ParsedCommand, classes: Classes) -> Match {
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
            Matcher::Paths { .. } => Match::No,
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
        let seen = analyze::analyze(&line);
        seen.commands.iter().any(|command| self.matches(command, super::classes::of(command)) >= least)
    }

    fn applies_to_path(&self, path: &Path, access: Option<Access>) -> bool {
        let ways =
            Access::NAMES.iter().map(|(_, way)| *way).filter(|way| access.is_none_or(|one| one == *way));
        let mut touched = ways.map(|access| PathAccess { path, access, is_recursive: false });
        touched.any(|touch| self.touches(&touch) == Match::Yes)
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

/// The words of a command after its program.
pub(super) fn arguments(command: &ParsedCommand) -> &[Word] {
    command.words.get(1..).unwrap_or_default()
}
