//! Flow control of output: back pressure first, disk when the primary reader has stopped, back pressure again.
//!
//! A reader that is a little slower than the process slows the process through its pipe, which costs nothing. A reader
//! that has stopped must not stop the process: the oldest output is moved to disk, up to a quota, and only then does the
//! pipe fill up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ProcessLimits;
use super::log::OutputLog;
use super::spill::Spill;

/// Whether the writer may push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capacity {
    /// There is free memory, or the oldest output may be dropped.
    Available,
    /// The primary reader has not taken the oldest output yet.
    Full,
}

/// A reader that took nothing for this long while the log was full has stopped.
const STOPPED_AFTER: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Flow {
    log: Arc<OutputLog>,
    dir: PathBuf,
    quota: u64,
    full_since: Option<Instant>,
    has_stopped: bool,
    disk_is_full: bool,
    /// Whether the failure to write was logged; once per process is enough.
    has_warned: bool,
}

impl Flow {
    pub(super) fn new(log: Arc<OutputLog>, bounds: &ProcessLimits) -> Flow {
        let dir = bounds.spill_dir.clone();
        Flow {
            log,
            dir,
            quota: bounds.spill_bytes,
            full_since: None,
            has_stopped: false,
            disk_is_full: false,
            has_warned: false,
        }
    }

    /// Whether the log can take more output.
    pub(super) fn may_read(&self) -> bool {
        self.full_since.is_none()
    }

    /// Notes that output was appended.
    pub(super) fn pushed(&mut self) {
        if self.log.capacity() == Capacity::Full {
            self.full_since = Some(Instant::now());
        }
    }

    /// Waits until the primary reader advances, or has stopped for 200 ms. Cancel safe.
    pub(super) async fn capacity_or_stall(&self) {
        let Some(since) = self.full_since else { return };
        if self.disk_is_full {
            return self.log.taken().await;
        }
        if self.has_stopped {
            return;
        }
        tokio::select! {
            () = self.log.taken() => {}
            () = tokio::time::sleep_until(since + STOPPED_AFTER) => {}
        }
    }

    /// Continues after `capacity_or_stall`: allows reads again, or moves the oldest output to disk.
    pub(super) async fn relieve(&mut self) {
        if self.log.capacity() == Capacity::Available {
            self.full_since = None;
            self.has_stopped = false;
            self.disk_is_full = false;
            return;
        }
        let is_stalled = self.has_stopped
            || self.log.is_primary_disconnected()
            || self.full_since.is_some_and(|since| since.elapsed() >= STOPPED_AFTER);
        if !is_stalled {
            return;
        }
        self.has_stopped = true;
        if self.spill_oldest().await {
            if self.log.capacity() == Capacity::Available {
                self.full_since = None;
            }
        } else if self.log.is_primary_disconnected() {
            // No reader is connected that could free memory by reading.
            self.disk_is_full = false;
            self.log.drop_oldest();
            if self.log.capacity() == Capacity::Available {
                self.full_since = None;
            }
        } else {
            self.disk_is_full = true;
        }
    }

    /// Moves the oldest chunk to disk; returns whether the quota allowed it.
    async fn spill_oldest(&mut self) -> bool {
        let Some((start, stream, bytes)) = self.log.oldest() else { return true };
        let dir = self.dir.clone();
        let Ok(mut spill) = self.log.spill(|| Spill::create(&dir)) else { return false };
        if !spill.has_capacity(bytes.len(), self.quota) {
            return false;
        }
        let write = move || spill.append(start, stream, &bytes).map(|()| spill);
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(spill)) => {
                self.log.moved_to_disk(start, spill);
                true
            }
            Ok(Err(error)) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(%error, "cannot write output to disk: it waits for its reader, or is dropped and reported as lost");
                }
                false
            }
            Err(_stopped) => false,
        }
    }
}
