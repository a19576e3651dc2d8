//! The method table: one row per method, for dispatch checks, audit, documents and fuzzing.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;

/// A method's params, tied to its name and to its result.
pub trait Method: Serialize + DeserializeOwned {
    /// What it is called on the wire.
    const NAME: &'static str;
    /// What it answers.
    type Result: Serialize + DeserializeOwned;
}

/// One row of [`METHODS`].
#[derive(Debug, Clone, Copy)]
pub struct MethodInfo {
    /// What it is called on the wire.
    pub name: &'static str,
    /// Whether it changes files, processes or sessions; what only looks does not.
    pub changes: bool,
    /// Where it is specified.
    pub origin: Origin,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Names of its params.
    pub params: fn() -> &'static [&'static str],
    /// Names of its result's members.
    pub result: fn() -> &'static [&'static str],
    /// Decodes params and forgets them: tells whether they fit.
    pub check: fn(Option<&str>) -> Result<(), RpcError>,
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
    /// In the first text of REXD v1.
    Seed,
    /// Beyond it; a client may do without.
    Addition,
}

/// Params whose values must not be logged, in any method.
pub const SECRET_FIELDS: &[&str] =
    &["content", "stdin", "data", "env", "old_string", "new_string", "patch_text", "resume_token"];

/// The row of a method.
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
            check: |text| decode_params_text::<$params>(text).map(drop),
        }),*];
        $(impl Method for $params {
            const NAME: &'static str = $name;
            type Result = $result;
        })*
    };
    (@ changes) => { true };
    (@ looks) => { false };
}

methods! {
    "session.open" SessionOpen => SessionOpenResult, changes, Seed, "Open a session.";
    "session.close" SessionClose => OkResult, changes, Seed, "Close a session and end its attached processes.";
    "session.info" SessionInfo => SessionInfoResult, looks, Seed, "Tell a session's state.";
    "session.resume" SessionResume => SessionOpenResult, changes, Addition, "Take a session up again after a cut.";
    "session.set_cwd" SessionSetCwd => SessionSetCwdResult, changes, Addition, "Set where relative paths start.";
    "server.ping" ServerPing => ServerPingResult, looks, Addition, "Tell that the server is there.";
    "exec.start" ExecStart => ExecStartResult, changes, Seed, "Start a command and stream its output.";
    "exec.wait" ExecWait => ExecWaitResult, looks, Seed, "Wait for a process to end.";
    "exec.kill" ExecKill => ExecKillResult, changes, Seed, "End a process tree, or signal it.";
    "exec.input" ExecInput => AcceptedResult, changes, Seed, "Write to a process's input.";
    "exec.list" ExecList => ExecListResult, looks, Addition, "List processes, detached ones too.";
    "exec.attach" ExecAttach => ExecAttachResult, looks, Addition, "Follow a process from a cursor.";
    "pty.open" PtyOpen => PtyOpenResult, changes, Seed, "Start a command in a terminal.";
    "pty.input" PtyInput => AcceptedResult, changes, Seed, "Type into a terminal.";
    "pty.resize" PtyResize => OkResult, changes, Seed, "Set a terminal's size.";
    "pty.close" PtyClose => OkResult, changes, Seed, "Close a terminal and end its process.";
    "fs.read" FsRead => FsReadResult, looks, Seed, "Read a file or a range of it.";
    "fs.write" FsWrite => FsWriteResult, changes, Seed, "Create, replace or extend a file.";
    "fs.list" FsList => FsListResult, looks, Seed, "List a directory.";
    "fs.glob" FsGlob => FsGlobResult, looks, Seed, "Find paths by pattern.";
    "fs.stat" FsStat => FsStatResult, looks, Seed, "Tell what a path is.";
    "fs.edit" FsEdit => FsEditResult, changes, Addition, "Replace text in a file.";
    "fs.patch" FsPatch => FsPatchResult, changes, Addition, "Apply a patch, whole or not at all.";
    "fs.grep" FsGrep => FsGrepResult, looks, Addition, "Search file contents.";
    "fs.watch" FsWatch => FsWatchResult, looks, Addition, "Report changes below a path.";
    "fs.unwatch" FsUnwatch => OkResult, looks, Addition, "Stop reporting changes.";
    "fs.mkdir" FsMkdir => OkResult, changes, Addition, "Make a directory.";
    "fs.remove" FsRemove => OkResult, changes, Addition, "Remove a file or directory.";
    "fs.rename" FsRename => OkResult, changes, Addition, "Rename a file or directory.";
    "fs.copy" FsCopy => OkResult, changes, Addition, "Copy a file or directory.";
    "approval.list" ApprovalList => ApprovalListResult, looks, Addition, "List what waits for a decision.";
    "approval.answer" ApprovalAnswer => OkResult, changes, Addition, "Approve or deny.";
}
