//! Questions: who wants to do what, and why somebody is asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::policy::Risk;
use crate::process::Program;

/// An operation about which somebody is asked. Everything in it is true: whoever decides must see what will happen.
#[derive(Debug, Clone)]
pub struct Question {
    /// Who wants it.
    pub asker: Asker,
    /// What they want, in the word of the front end.
    pub operation: &'static str,
    /// What it is.
    pub deed: Deed,
    /// All of what was asked for, also what is too long to be shown, as a fingerprint.
    pub whole: String,
    /// The rule that wants it asked.
    pub rule: String,
    /// What the rule was when it was asked, if somebody wrote it: an answer for the rule holds while it is the same.
    pub rule_mark: Option<u64>,
    /// Why.
    pub reason: String,
    /// How much harm it may do.
    pub risk: Risk,
}

/// Who wants something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// Who they have proved to be.
    pub caller: Arc<str>,
    /// What their client calls itself.
    pub client: Arc<str>,
    /// The front end they came through.
    pub face: &'static str,
    /// Their session.
    pub session: Arc<str>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// A command.
    Run {
        /// What runs.
        program: Program,
        /// Where.
        cwd: PathBuf,
        /// The variables it sets or (`None`) takes away, with their true values.
        env: Vec<(String, Option<String>)>,
        /// What it finds on standard input from the start.
        input: Input,
        /// Whether it gets a terminal.
        has_terminal: bool,
        /// Whether it outlives its session.
        is_detached: bool,
    },
    /// Something with files.
    Files {
        /// What is done to them.
        action: Action,
        /// Which, where they really are.
        paths: Vec<PathBuf>,
        /// What changes in them, if that can be said.
        diff: Option<Diff>,
        /// Whether everything beneath them is meant too.
        is_recursive: bool,
        /// Whether what is in the way is replaced.
        overwrites: bool,
    },
}

/// What is done to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Their content or names are looked at.
    Read,
    /// Content is written.
    Write,
    /// A directory is made.
    MakeDirectory,
    /// They are deleted.
    Remove,
    /// The first becomes the second.
    Rename,
    /// The second becomes like the first.
    Copy,
}

impl Action {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Action::Read => "read",
            Action::Write => "write",
            Action::MakeDirectory => "make-directory",
            Action::Remove => "remove",
            Action::Rename => "rename",
            Action::Copy => "copy",
        }
    }
}

/// What changes in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// In unified form, for people.
    pub text: String,
    /// How many bytes of it are not shown. Whoever decides must know that there is more.
    pub cut_bytes: u64,
}

/// What a command is given to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Input {
    /// For people.
    pub text: String,
    /// How many bytes of it are not shown.
    pub cut_bytes: u64,
    /// How many bytes there are.
    pub bytes: u64,
}

impl Deed {
    /// Every path it is about.
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Deed::Run { cwd, .. } => vec![cwd],
            Deed::Files { paths, .. } => paths.iter().map(PathBuf::as_path).collect(),
        }
    }

    /// One line that says it all to a person who is in a hurry.
    pub fn summary(&self) -> String {
        match self {
            Deed::Run { program: Program::Shell { line, .. }, .. } => format!("run: {line}"),
            Deed::Run { program: Program::Argv(argv), .. } => {
                let words: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
                format!("run: {}", words.join(" "))
            }
            Deed::Files { action, paths, is_recursive, .. } => {
                let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                let between = if matches!(action, Action::Rename | Action::Copy) { " to " } else { ", " };
                let below = if *is_recursive { " with all below" } else { "" };
                format!("{}: {}{below}", action.name(), paths.join(between))
            }
        }
    }
}

/// A word as a shell would have to be given it, so that no two operations look the same.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
