//! The method table: one row per method, for dispatch checks, audit, documents and fuzzing.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;

/// A method's params, tied to its name and to its result.
pub trait Method: Serialize + DeserializeOwned {
    /// The method name on the wire.
    const NAME: &'static str;
    /// The type of the result.
    type Result: Serialize + DeserializeOwned;
}

/// One row of [`METHODS`].
#[derive(Debug, Clone, Copy)]
pub struct MethodInfo {
    /// The method name on the wire.
    pub name: &'static str,
    /// Whether it changes files, processes or sessions.
    pub changes: bool,
    /// Where the method is specified.
    pub origin: Origin,
    /// One line for documents.
    pub summary: &'static str,
    /// The names of the params.
    pub params: fn() -> &'static [&'static str],
    /// The names of the members of the result.
    pub result: fn() -> &'static [&'static str],
}

impl MethodInfo {
    /// The params whose values must not be logged.
    pub fn secrets(&self) -> impl Iterator<Item = &'static str> {
        (self.params)().iter().copied().filter(|name| SECRET_FIELDS.contains(name))
    }
}

/// Where a method is specified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In the original text of REXD v1.
    Seed,
    /// In an addition, which clients need not use.
    Addition,
}

/// Params whose values must not be logged, in any method.
pub const SECRET_FIELDS: &[&str] = &[
    "content",
    "stdin",
    "data",
    "env",
    "old_string",
    "new_string",
    "patch_text",
    "resume_token",
    "resume_key",
];

/// Finds the row of a method.
pub fn method(name: &str) -> Option<&'static MethodInfo> {
    METHODS.iter().find(|info| info.name == name)
}

macro_rules! methods {
    ($($name:literal $params:ty => $result:ty, $changes:ident, $origin:ident, $summary:literal;)*) => {
        /// Every method of REXD v1. `$/cancel` is a notification and not among them.
        pub const METHODS: &[MethodInfo] = &[$(MethodInfo {
            name: $name,
            changes: methods!(@ $changes),
            origin: Origin::$origin,
            summary: $summary,
            params: fields_of::<$params>,
            result: fields_of::<$result>,
        }),*];

        /// Checks whether the params of a method can be decoded, for tests. Not a member of [`MethodInfo`]: every program
        /// that uses the table would contain the decoder of every method.
        pub fn check_params(method: &str, text: Option<&str>) -> Result<(), RpcError> {
            match method {
                $($name => decode_params_text::<$params>(text).map(drop),)*
                _ => Ok(()),
            }
        }

        $(impl Method for $params {
            const NAME: &'static str = $name;
            type Result = $result;
        })*
    };
    (@ changes) => { true };
    (@ reads) => { false };
}

methods! {
    "session.open" SessionOpen => SessionOpenResult, changes, Seed, "Open a session.";
    "session.close" SessionClose => OkResult, changes, Seed, "Close a session and end its attached processes.";
    "session.info" SessionInfo => SessionInfoResult, reads, Seed, "Return a session's state.";
    "session.resume" SessionResume => SessionOpenResult, changes, Addition, "Resume a session after its connection was lost.";
    "session.ack" SessionAck => OkResult, reads, Addition, "Acknowledge the events up to this one.";
    "session.set_cwd" SessionSetCwd => SessionSetCwdResult, changes, Addition, "Set the working directory.";
    "server.ping" ServerPing => ServerPingResult, reads, Addition, "Check that the server responds.";
    "exec.start" ExecStart => ExecStartResult, changes, Seed, "Start a command and stream its output.";
    "exec.wait" ExecWait => ExecWaitResult, reads, Seed, "Wait for a process to end.";
    "exec.kill" ExecKill => ExecKillResult, changes, Seed, "End a process tree, or signal it.";
    "exec.input" ExecInput => AcceptedResult, changes, Seed, "Write to a process's input.";
    "exec.list" ExecList => ExecListResult, reads, Addition, "List processes, detached ones too.";
    "exec.prune" ExecPrune => ExecPruneResult, changes, Addition, "Remove the logs of ended detached processes.";
    "exec.attach" ExecAttach => ExecAttachResult, reads, Addition, "Attach to a process from a cursor.";
    "pty.open" PtyOpen => PtyOpenResult, changes, Seed, "Start a command in a terminal.";
    "pty.input" PtyInput => AcceptedResult, changes, Seed, "Write to a terminal.";
    "pty.resize" PtyResize => OkResult, changes, Seed, "Set a terminal's size.";
    "pty.close" PtyClose => OkResult, changes, Seed, "Close a terminal and end its process.";
    "fs.read" FsRead => FsReadResult, reads, Seed, "Read a file or a range of it.";
    "fs.write" FsWrite => FsWriteResult, changes, Seed, "Create, replace or extend a file.";
    "fs.list" FsList => FsListResult, reads, Seed, "List a directory.";
    "fs.glob" FsGlob => FsGlobResult, reads, Seed, "Find paths by pattern.";
    "fs.stat" FsStat => FsStatResult, reads, Seed, "Return the metadata of a path.";
    "fs.edit" FsEdit => FsEditResult, changes, Addition, "Replace text in a file.";
    "fs.patch" FsPatch => FsPatchResult, changes, Addition, "Apply a patch completely or not at all.";
    "fs.grep" FsGrep => FsGrepResult, reads, Addition, "Search file contents.";
    "fs.watch" FsWatch => FsWatchResult, reads, Addition, "Report changes below a path.";
    "fs.unwatch" FsUnwatch => OkResult, reads, Addition, "Stop reporting changes.";
    "fs.mkdir" FsMkdir => OkResult, changes, Addition, "Create a directory.";
    "fs.symlink" FsSymlink => OkResult, changes, Addition, "Create a symlink.";
    "fs.remove" FsRemove => OkResult, changes, Addition, "Remove a file or directory.";
    "fs.rename" FsRename => OkResult, changes, Addition, "Rename a file or directory.";
    "fs.copy" FsCopy => OkResult, changes, Addition, "Copy a file or directory.";
    "approval.list" ApprovalList => ApprovalListResult, reads, Addition, "List pending approval requests.";
    "approval.answer" ApprovalAnswer => OkResult, changes, Addition, "Approve or deny a request.";
}
