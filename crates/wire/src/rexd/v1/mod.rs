//! REXD v1: methods, params, results, events and error codes, with the names of the spec.
//!
//! Params are as loose as the spec: unknown members are ignored, `null` counts as absent, and numbers are signed so
//! that the face can reject a negative one by name. [`decode_params`] names the member that does not fit.

pub mod codes;
mod decode;
mod events;
mod fields;
mod methods;
mod mismatch;
mod output;
mod params_exec;
mod params_fs;
mod params_session;
mod read;
mod results_exec;
mod results_fs;
mod results_session;
mod write;

pub use crate::jsonrpc::RpcError;
pub use decode::{decode_params, decode_params_text};
pub use events::{
    ApprovalDecided, ApprovalRequested, Change, Event, ExecError, ExecExit, ExecLost, FsChanged, PtyExit,
    SandboxDenied, SessionClosing, SessionLost, encode_event,
};
pub use fields::fields_of;
pub use methods::{METHODS, Method, MethodInfo, Origin, SECRET_FIELDS, check_params, method};
pub use output::{Encoding, Output, OutputEvent};
pub use params_exec::{
    ExecAttach, ExecInput, ExecKill, ExecList, ExecPrune, ExecStart, ExecWait, PtyClose, PtyInput, PtyOpen,
    PtyResize, Signal,
};
pub use params_fs::{
    FsCopy, FsEdit, FsGlob, FsGrep, FsList, FsMkdir, FsPatch, FsRead, FsRemove, FsRename, FsStat, FsSymlink,
    FsUnwatch, FsWatch, FsWrite,
};
pub use params_session::{
    ApprovalAnswer, ApprovalList, Cancel, RequestedLimits, ServerPing, SessionAck, SessionClose, SessionInfo,
    SessionOpen, SessionResume, SessionSetCwd,
};
pub use read::{ReadContent, ReadResponse};
pub use results_exec::{
    AcceptedResult, ExecAttachResult, ExecKillResult, ExecListResult, ExecPruneResult, ExecStartResult,
    ExecWaitResult, KilledProcess, ListedProcess, PtyOpenResult, TerminalScreen,
};
pub use results_fs::{
    FsEditResult, FsGlobResult, FsGrepResult, FsListResult, FsPatchResult, FsReadResult, FsStatResult,
    FsWatchResult, FsWriteResult, GrepMatch, ListEntry, Move,
};
pub use results_session::{
    Approval, ApprovalListResult, AskedBy, HostInfo, LimitsReport, OkResult, SandboxReport, ServerPingResult,
    SessionInfoResult, SessionOpenResult, SessionSetCwdResult,
};
pub use write::{PayloadEncoding, PayloadMethod, payload_request};

/// The value of `protocol` in the result of `session.open`.
pub const PROTOCOL: &str = "rexd/1";
/// In place of a session id: the session that was opened last on the same connection.
pub const LAST_SESSION: &str = "@last";

/// The reported value of a limit that is off: the largest integer that every JSON parser keeps.
pub const UNLIMITED: u64 = 9_007_199_254_740_991;
