//! The state of a process, as its log publishes it.

use std::sync::Arc;

use super::log::Cursor;
use super::spec::{ExitStatus, ProcessSummary};

/// The state of a process as published by its log. Values are only added, never taken back.
#[derive(Debug, Clone, Default)]
pub struct ProcessState {
    /// The pid of the leader, once it runs.
    pub pid: Option<i32>,
    /// The cursor of the next byte.
    pub end: Cursor,
    /// Bytes of standard output, or of the terminal, so far.
    pub stdout_bytes: u64,
    /// Bytes of standard error so far.
    pub stderr_bytes: u64,
    /// The leader has exited; output may still follow.
    pub exited: Option<ExitStatus>,
    /// The end of the log.
    pub closed: Option<Arc<ProcessSummary>>,
    /// The relay to the keeper has ended; the process may continue.
    pub is_disconnected: bool,
}
