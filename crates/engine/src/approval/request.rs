//! Approval requests: the operation, its requester and the reason why it needs an approval.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::policy::Risk;
use crate::process::Program;

/// An operation that needs an approval. It is shown to the approver unredacted: the approver must see what will happen.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// Caller, client and session that the operation is for.
    pub requester: Requester,
    /// Method of the front end that the caller used.
    pub method: &'static str,
    /// Id that the client gave its request, if its front end matches approvals to requests.
    pub client_request: Option<Arc<str>>,
    /// The operation that runs if it is approved.
    pub operation: Operation,
    /// Identifies all parameters of the request, including those that are too long to be shown.
    pub fingerprint: String,
    /// Name of the rule that asks.
    pub rule: String,
    /// Fingerprint of that rule, if it is in the configuration; a grant for the rule is valid while this is unchanged.
    pub rule_fingerprint: Option<u64>,
    /// Why the rule asks, for people.
    pub reason: String,
    /// Harm that the operation may do.
    pub risk: Risk,
}

/// Who makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    /// Authenticated name of the caller.
    pub caller: Arc<str>,
    /// Name that the client reports for itself; not verified.
    pub client: Arc<str>,
    /// Front end that received the request.
    pub face: &'static str,
    /// Session that the request belongs to.
    pub session: Arc<str>,
}

/// The operation that an approver sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Starts a command.
    Run {
        /// Program and arguments, or shell text.
        program: Program,
        /// Directory that the command starts in.
        cwd: PathBuf,
        /// Variables that the request sets or (`None`) removes, with their unredacted values.
        env: Vec<(String, Option<String>)>,
        /// Standard input that the request provides.
        input: InputPreview,
        /// Whether the command gets a terminal.
        has_terminal: bool,
        /// Whether the command outlives its session.
        is_detached: bool,
    },
    /// Reads or changes files.
    Files {
        /// The kind of file operation.
        action: FileAction,
        /// Affected paths with links resolved.
        paths: Vec<PathBuf>,
        /// Changes to the content, if they can be computed.
        diff: Option<Diff>,
        /// Whether everything below the paths is affected too.
        is_recursive: bool,
        /// Whether an existing destination is replaced.
        overwrites: bool,
    },
}

/// Kind of a file operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAction {
    /// Reads content, entries or attributes.
    Read,
    /// Writes content.
    Write,
    /// Creates a directory.
    MakeDirectory,
    /// Creates a symlink.
    MakeSymlink,
    /// Deletes the paths.
    Remove,
    /// Renames the first path to the second.
    Rename,
    /// Copies the first path to the second.
    Copy,
}

impl FileAction {
    /// The name used in summaries and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            FileAction::Read => "read",
            FileAction::Write => "write",
            FileAction::MakeDirectory => "make-directory",
            FileAction::MakeSymlink => "make-symlink",
            FileAction::Remove => "remove",
            FileAction::Rename => "rename",
            FileAction::Copy => "copy",
        }
    }
}

/// Changes to the content of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// Unified diff, possibly cut.
    pub text: String,
    /// Bytes of the diff that are not in `text`. An approver must see that the diff is incomplete.
    pub cut_bytes: u64,
}

/// Standard input of a command as an approver sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InputPreview {
    /// Beginning of the input as text.
    pub text: String,
    /// Bytes of the input that are not in `text`.
    pub cut_bytes: u64,
    /// Size of the whole input in bytes.
    pub bytes: u64,
}

impl Operation {
    /// All paths that the operation names.
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Operation::Run { cwd, .. } => vec![cwd],
            Operation::Files { paths, .. } => paths.iter().map(PathBuf::as_path).collect(),
        }
    }

    /// One line that describes the operation; arguments are quoted so that different commands look different.
    pub fn summary(&self) -> String {
        match self {
            Operation::Run { program: Program::Shell { line, .. }, .. } => format!("run: {line}"),
            Operation::Run { program: Program::Argv(argv), .. } => {
                let words: Vec<String> = argv.iter().map(|word| quote(word)).collect();
                format!("run: {}", words.join(" "))
            }
            Operation::Files { action, paths, is_recursive, .. } => {
                let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                let separator =
                    if matches!(action, FileAction::Rename | FileAction::Copy) { " to " } else { ", " };
                let below = if *is_recursive { " with all below" } else { "" };
                format!("{}: {}{below}", action.name(), paths.join(separator))
            }
        }
    }
}

/// Quotes a word for a POSIX shell.
fn quote(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
