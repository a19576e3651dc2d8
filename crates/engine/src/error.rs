//! Error: one variant per failed operation. Each face converts it exhaustively, so that a new variant must be handled everywhere.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::approval::Resolution;
use crate::files::Access;
use crate::process::ProcessId;

/// A failed operation of the engine. The message names the operation; `source` is the cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The session has no such process, or removed it after its retention.
    #[error("no process {0}")]
    NoSuchProcess(ProcessId),
    /// The process ended before it received the command.
    #[error("the process ended before it received the command")]
    Gone,
    /// Standard input was closed, by the caller or by the program.
    #[error("standard input is closed")]
    InputClosed,
    /// The program could not be started.
    #[error("could not start {program}: {}", errno_text(source))]
    Spawn {
        /// The program as it was requested.
        program: String,
        /// Why the kernel refused.
        source: io::Error,
    },

    /// The path is outside the roots, by its text or after resolution.
    #[error("{} is outside the allowed roots", path.display())]
    OutsideRoots {
        /// The requested path, absolute and normalised.
        path: PathBuf,
        /// The path it resolves to, if links lead outside.
        resolved: Option<PathBuf>,
        /// The roots of the session.
        roots: Vec<PathBuf>,
    },
    /// An invalid path: empty where a name is needed, or with a NUL byte.
    #[error("{reason}")]
    BadPath {
        /// The requested path.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The operating system refused a file operation.
    #[error("{action} {}: {}", path.display(), errno_text(source))]
    File {
        /// What was being done: `open`, `read`, `rename`…
        action: &'static str,
        /// The path it was done to, as the caller named it.
        path: PathBuf,
        /// Why the kernel refused.
        source: io::Error,
    },
    /// The path names a FIFO, socket or device where a regular file is needed.
    #[error("{} is not a regular file", path.display())]
    NotRegular {
        /// The requested path.
        path: PathBuf,
    },
    /// The file to be created exists.
    #[error("{} exists already", path.display())]
    Exists {
        /// The requested path.
        path: PathBuf,
    },
    /// The file was changed since the caller last read it.
    #[error("{} has changed since it was last seen", path.display())]
    Conflict {
        /// The requested path.
        path: PathBuf,
        /// Milliseconds since the epoch that the caller expected.
        expected_ms: i64,
        /// Milliseconds since the epoch found, or nothing when the file is missing.
        found_ms: Option<i64>,
    },
    /// An edit that cannot be applied.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A patch that cannot be applied; no file was changed.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// A glob or a regular expression that does not parse.
    #[error("bad pattern {pattern:?}: {reason}")]
    Pattern {
        /// The pattern as it was given.
        pattern: String,
        /// The message of the parser.
        reason: String,
    },

    /// The process could not be confined as its profile requires, so it was not started.
    #[error("sandbox {profile}: {reason}")]
    Sandbox {
        /// The names of the profiles.
        profile: String,
        /// The reason, and what to do about it.
        reason: String,
    },
    /// The sandbox of the program denies access to the program itself.
    #[error("{} cannot be executed inside the sandbox", path.display())]
    SandboxDenied {
        /// The program.
        path: PathBuf,
    },
    /// The operator's policy forbids it.
    #[error("denied by policy: {reason}")]
    Denied {
        /// Name of the rule that decided.
        rule: String,
        /// The reason given by the rule.
        reason: String,
    },
    /// The policy requires an approval, and no approver is available.
    #[error("not approved: {reason}")]
    NoApprover {
        /// Name of the rule that requires the approval.
        rule: String,
        /// Why no approver is available.
        reason: String,
    },
    /// An approver denied the request.
    #[error("not approved: denied by {by}{}", .reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    Refused {
        /// Name of the rule that requires the approval.
        rule: String,
        /// The id of the approval request; `None` if an earlier decision covers this request.
        approval: Option<Arc<str>>,
        /// The approver who denied it.
        by: Arc<str>,
        /// Why, in the words of the approver.
        reason: Option<Arc<str>>,
    },
    /// No approver answered in time.
    #[error("not approved: no answer within {} ms", after.as_millis())]
    Unanswered {
        /// Name of the rule that requires the approval.
        rule: String,
        /// The id of the approval request.
        approval: Arc<str>,
        /// How long the request was pending.
        after: Duration,
    },
    /// No approval request with this id is pending for this caller.
    #[error("no approval {0}")]
    NoSuchApproval(String),
    /// The approval request was settled before this answer arrived.
    #[error("approval {id} is already settled: {outcome}")]
    AlreadySettled {
        /// The id of the approval request.
        id: String,
        /// How it was settled.
        outcome: Resolution,
    },
    /// The path guard denies access to the path that this one resolves to.
    #[error("{} {} is not permitted: {reason}", access.as_str(), path.display())]
    Guarded {
        /// The path with all links resolved.
        path: PathBuf,
        /// The access that was denied.
        access: Access,
        /// Name of the rule or profile that denies it.
        rule: String,
        /// The reason given by the rule.
        reason: String,
    },
    /// The operator switched a capability off, or this build or kernel lacks it.
    #[error("{what} is not available: {reason}")]
    Unsupported {
        /// The capability.
        what: &'static str,
        /// Why, and what would enable it.
        reason: String,
    },
    /// A configured limit was reached.
    #[error("{what} limit reached ({limit})")]
    LimitReached {
        /// What is limited.
        what: &'static str,
        /// The value of the limit.
        limit: u64,
    },
    /// The operation exceeded its deadline; the operation documents what it has changed by then.
    #[error("{what} did not finish within {} ms", after.as_millis())]
    Deadline {
        /// The operation.
        what: &'static str,
        /// The deadline it was given.
        after: Duration,
    },
    /// The caller withdrew the request.
    #[error("cancelled")]
    Cancelled,
}

/// Why an edit cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// Nothing would change.
    #[error("the new text is the same as the old text")]
    Identical,
    /// The text to replace does not occur.
    #[error("the text to replace was not found")]
    NotFound,
    /// The text to replace occurs more than once, and `replace_all` is not set.
    #[error("the text to replace occurs {count} times; expected once")]
    Ambiguous {
        /// How often it occurs.
        count: usize,
        /// The lines on which the first occurrences start, from 1.
        lines: Vec<usize>,
    },
    /// There is no file to edit.
    #[error("the file does not exist, so there is no text to replace")]
    NoFile,
    /// The file is not text.
    #[error("file is not UTF-8 text")]
    NotText,
}

/// Why a patch could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The envelope is missing.
    #[error("invalid patch format: missing Begin/End markers")]
    NoEnvelope,
    /// The envelope is empty.
    #[error("patch does not contain any hunks")]
    NoHunks,
    /// An unexpected line.
    #[error("invalid patch format: line {line}: {reason}")]
    Syntax {
        /// Line number within the patch text, from 1.
        line: usize,
        /// What was expected.
        reason: &'static str,
    },
    /// The context line of a chunk does not occur in the file.
    #[error("failed to find patch context {context:?} in {}", path.display())]
    NoContext {
        /// The file being patched.
        path: PathBuf,
        /// The context sought.
        context: String,
    },
    /// The old lines of a chunk do not occur in the file.
    #[error("failed to find expected patch lines in {}: {first:?}", path.display())]
    NoLines {
        /// The file being patched.
        path: PathBuf,
        /// The first of the lines sought.
        first: String,
    },
    /// The old lines of a chunk occur more than once in the file.
    #[error("patch lines fit {} places in {} (lines {}): {first:?}", lines.len(), path.display(), joined(lines))]
    Ambiguous {
        /// The file being patched.
        path: PathBuf,
        /// The first of the lines sought.
        first: String,
        /// The lines at which they were found, from 1; the first ones if there are many.
        lines: Vec<usize>,
    },
    /// Two parts of the patch touch one file in ways that exclude each other.
    #[error("patch names {} more than once", path.display())]
    Twice {
        /// The file named twice.
        path: PathBuf,
    },
}

fn joined(lines: &[usize]) -> String {
    lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The message of the operating system for an error, in lower case as `strerror` returns it on most systems:
/// clients recognise a missing file by the text `no such file`.
pub fn errno_text(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = words.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => text,
    }
}
