//! The files that a keeper writes about its process: a record at the start, a status at the end.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::process::Description;
use serde::{Deserialize, Serialize};
use wire::keeper::CloseReport;

pub(super) use crate::core::state::to_ms;

/// `record.json`: written once the process runs. Fields are only ever added.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ProcessRecord {
    /// The caller that started it.
    pub(super) by: String,
    /// The face of the request.
    pub(super) face: String,
    /// The name that its user gave it; missing from older keepers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) argv: Vec<String>,
    pub(super) cwd: String,
    pub(super) terminal: bool,
    /// Columns and rows of the terminal at the start; missing from older keepers.
    #[serde(default)]
    pub(super) size: Option<(u16, u16)>,
    pub(super) started_at_ms: u64,
    /// The pid of the leader.
    pub(super) pid: i32,
    pub(super) keeper_pid: u32,
    /// The newest protocol version of its socket.
    pub(super) protocol: u32,
    /// The boot of the machine; no process survives a reboot.
    pub(super) boot_id: String,
}

/// `status.json`: written when the process is closed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct EndRecord {
    pub(super) closed: CloseReport,
    /// The end of the log, even if a part of it was removed.
    pub(super) end: u64,
    pub(super) ended_at_ms: u64,
    /// Columns and rows of the terminal at the end; missing from older keepers.
    #[serde(default)]
    pub(super) size: Option<(u16, u16)>,
}

impl ProcessRecord {
    pub(super) fn description(&self) -> Description {
        Description {
            name: self.name.clone(),
            argv: self.argv.clone(),
            cwd: PathBuf::from(&self.cwd),
            has_terminal: self.terminal,
            origin: self.face.clone().into(),
            started_at: from_ms(self.started_at_ms),
            is_detached: true,
        }
    }
}

pub(super) fn from_ms(ms: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(UNIX_EPOCH)
}

/// The id of the current boot; empty if it is not available.
pub(crate) fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}
