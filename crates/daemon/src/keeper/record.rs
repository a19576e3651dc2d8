//! What a keeper writes down about its process: the record at the start, the status at the end.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::process::Description;
use serde::{Deserialize, Serialize};
use wire::keeper::CloseReport;

pub(super) use crate::core::state::to_ms;

/// `record.json`: written once the process runs. Fields are only ever added.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ProcessRecord {
    /// Who asked for it.
    pub(super) by: String,
    /// Through which face.
    pub(super) face: String,
    pub(super) argv: Vec<String>,
    pub(super) cwd: String,
    pub(super) terminal: bool,
    pub(super) started_at_ms: u64,
    /// The leader's number.
    pub(super) pid: i32,
    pub(super) keeper_pid: u32,
    /// The newest version its socket speaks.
    pub(super) protocol: u32,
    /// Which boot of the machine it belongs to: no process outlives that.
    pub(super) boot_id: String,
}

/// `status.json`: written when nothing follows any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct EndRecord {
    pub(super) closed: CloseReport,
    /// Where the log ends, whether or not all of it could be kept.
    pub(super) end: u64,
    pub(super) ended_at_ms: u64,
}

impl ProcessRecord {
    pub(super) fn description(&self) -> Description {
        Description {
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

/// Names the current boot of the machine; empty where the kernel does not say.
pub(super) fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}
