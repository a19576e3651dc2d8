//! Error: one variant per thing attempted. Each face translates it exhaustively, so a new variant is a decision everywhere.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::approval::Resolution;
use crate::files::Access;
use crate::process::ProcessId;

/// What the engine could not do. The message says what was tried; `source` keeps the cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process is not known to this session, or was forgotten after its retention.
    #[error("no process {0}")]
    NoSuchProcess(ProcessId),
    /// The process ended before it took the command.
    #[error("the process ended before it took the command")]
    Gone,
    /// Standard input was closed, by the caller or by the program.
    #[error("standard input is closed")]
    InputClosed,
    /// The program could not be started.
    #[error("could not start {program}: {}", errno_text(source))]
    Spawn {
        /// The program as it was asked for.
        program: String,
        /// Why the kernel refused.
        source: io::Error,
    },

    /// The path lies outside the roots, by its text or by what it resolves to.
    #[error("{} is outside the allowed roots", path.display())]
    OutsideRoots {
        /// The path that was asked for, absolute and cleaned.
        path: PathBuf,
        /// Where it leads, when links made the difference.
        resolved: Option<PathBuf>,
        /// The roots it was held against.
        roots: Vec<PathBuf>,
    },
    /// The path can name nothing: empty where a name is needed, or with a NUL inside.
    #[error("{reason}")]
    BadPath {
        /// The path that was asked for.
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
        /// The path that was asked for.
        path: PathBuf,
    },
    /// Something already exists where something new was to be made.
    #[error("{} exists already", path.display())]
    Exists {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The file is not the one the caller last saw.
    #[error("{} has changed since it was last seen", path.display())]
    Conflict {
        /// The path that was asked for.
        path: PathBuf,
        /// Milliseconds since the epoch that the caller expected.
        expected_ms: i64,
        /// Milliseconds since the epoch found, or nothing when the file is missing.
        found_ms: Option<i64>,
    },
    /// An edit that cannot be made as asked.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A patch that cannot be applied; nothing of it was.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// A glob or a regular expression that does not parse.
    #[error("bad pattern {pattern:?}: {reason}")]
    Pattern {
        /// The pattern as it was given.
        pattern: String,
        /// What the parser said.
        reason: String,
    },

    /// The process could not be confined as its profile says, so it was not started.
    #[error("sandbox {profile}: {reason}")]
    Sandbox {
        /// The profiles that were to hold.
        profile: String,
        /// What could not be done, and what to do about it.
        reason: String,
    },
    /// The program lies where its own confinement lets nobody look.
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
        /// What the rule says to the caller.
        reason: String,
    },
    /// Somebody has to be asked, and nobody can be.
    #[error("not approved: {reason}")]
    NoApprover {
        /// Name of the rule that asks.
        rule: String,
        /// Why nobody can be asked.
        reason: String,
    },
    /// Somebody was asked and said no.
    #[error("not approved: {by} said no")]
    Refused {
        /// Name of the rule that asked.
        rule: String,
        /// The question, by its name; nothing if the answer was given before for everything of its kind.
        approval: Option<Arc<str>>,
        /// Who said no.
        by: Arc<str>,
    },
    /// Somebody was asked and did not answer in time.
    #[error("not approved: nobody answered within {} ms", after.as_millis())]
    Unanswered {
        /// Name of the rule that asked.
        rule: String,
        /// The question, by its name.
        approval: Arc<str>,
        /// How long an answer was waited for.
        after: Duration,
    },
    /// No question of this name waits for this caller.
    #[error("no approval {0}")]
    NoSuchApproval(String),
    /// The question was settled before this answer came.
    #[error("the approval {id} is settled already: {outcome}")]
    AlreadySettled {
        /// The question, by its name.
        id: String,
        /// How it was settled.
        outcome: Resolution,
    },
    /// A guard on files refuses the place that the path leads to.
    #[error("{} {} is not permitted: {reason}", access.as_str(), path.display())]
    Guarded {
        /// The place, with all links resolved.
        path: PathBuf,
        /// What was to be done to it.
        access: Access,
        /// Name of the rule or profile that refuses it.
        rule: String,
        /// What the rule says to the caller.
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
    /// A configured bound was reached.
    #[error("{what} limit reached ({limit})")]
    LimitReached {
        /// What is bounded.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
    /// The operation ran past its deadline; what it changed so far is stated by the operation.
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

/// Why an edit could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// Nothing would change.
    #[error("the new text is the same as the old text")]
    Identical,
    /// The text to replace does not occur.
    #[error("the text to replace was not found")]
    NotFound,
    /// The text to replace occurs more than once and one was meant.
    #[error("the text to replace occurs {count} times and one was meant")]
    Ambiguous {
        /// How often it occurs.
        count: usize,
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
    /// A line that has no place where it stands.
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
    /// Two parts of the patch touch one file in ways that exclude each other.
    #[error("patch names {} more than once", path.display())]
    Twice {
        /// The file named twice.
        path: PathBuf,
    },
}

/// The operating system's words for an error, in lower case as C's `strerror` has them on most systems:
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
