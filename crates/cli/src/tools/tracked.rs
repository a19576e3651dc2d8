//! TrackedProcess: a process whose output a task stores in a spool.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::{Process, ProcessControl, ProcessEventKind, ProcessExit};
use tokio::sync::watch;

use super::spool::Spool;
use super::truncate;

/// Characters of the last line in a progress message.
const LINE: usize = 200;
/// The last line is searched in this many bytes.
const LINE_WITHIN: usize = 1_024;
/// The maximum number of server notes kept per process.
const MAX_NOTES: usize = 8;
/// Patterns with a reported match that are kept per process; beyond it, the oldest is dropped.
const MAX_REPORTED: usize = 32;

/// A process whose output is stored.
#[derive(Debug)]
pub struct TrackedProcess {
    /// The process id.
    pub id: String,
    /// The control handle of the process.
    pub control: ProcessControl,
    /// The received output.
    pub spool: Arc<Spool>,
    /// The offset at which tracking began; earlier output can be requested again.
    pub from: u64,
    /// Whether the process is detached.
    pub is_detached: bool,
    /// The end of the output shown so far: where reading continues by default.
    shown: AtomicU64,
    /// The patterns of `until` with a reported match.
    reported: Mutex<VecDeque<String>>,
    status: watch::Sender<TrackedStatus>,
}

/// The status of a tracked process.
#[derive(Debug, Clone, Default)]
pub struct TrackedStatus {
    /// The end of the received output.
    pub end: u64,
    /// The exit, once known.
    pub exit: Option<ProcessExit>,
    /// Why the event stream broke off.
    pub cut: Option<String>,
    /// Notes of the server about the process.
    pub notes: Vec<String>,
}

impl TrackedStatus {
    /// Whether no more events follow.
    pub fn is_over(&self) -> bool {
        self.exit.is_some() || self.cut.is_some()
    }
}

impl TrackedProcess {
    /// A process whose output from `from` is stored by [`run`](TrackedProcess::run).
    pub fn new(process: &Process, from: u64, is_detached: bool) -> TrackedProcess {
        TrackedProcess {
            id: process.id().to_owned(),
            control: process.control(),
            spool: Arc::new(Spool::starting_at(from)),
            from,
            is_detached,
            shown: AtomicU64::new(from),
            reported: Mutex::default(),
            status: watch::Sender::new(TrackedStatus { end: from, ..TrackedStatus::default() }),
        }
    }

    /// Stores all output until the process exits.
    pub async fn run(self: Arc<TrackedProcess>, mut process: Process) {
        loop {
            let event = match process.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return self.lose("protocol error: its events ended without its exit"),
                Err(error) => return self.lose(&error.to_string()),
            };
            match event.kind {
                ProcessEventKind::Stdout(bytes)
                | ProcessEventKind::Stderr(bytes)
                | ProcessEventKind::Terminal(bytes) => {
                    if let Err(error) = self.spool.append(bytes, event.cursor).await {
                        return self.lose(&format!("cannot store its output: {error}"));
                    }
                    self.status.send_modify(|status| status.end = self.spool.span().end);
                }
                ProcessEventKind::Lost(lost) => self.note(lost.to_string()),
                ProcessEventKind::Error(trouble) => self.note(trouble.message),
                ProcessEventKind::Exit(exit) => {
                    return self.status.send_modify(|status| status.exit = Some(exit));
                }
            }
        }
    }

    fn lose(&self, why: &str) {
        self.status.send_modify(|status| status.cut = Some(why.to_owned()));
    }

    fn note(&self, text: String) {
        self.status.send_modify(|status| {
            if status.notes.len() < MAX_NOTES {
                status.notes.push(text);
            }
        });
    }

    /// The current status of the process.
    pub fn status(&self) -> TrackedStatus {
        self.status.borrow().clone()
    }

    /// Waits for a status, or until no more events follow; returns the status.
    pub async fn wait_until(&self, wanted: impl Fn(&TrackedStatus) -> bool) -> TrackedStatus {
        let mut status = self.status.subscribe();
        // The sender lives as long as `self`.
        let reached = status.wait_for(|status| status.is_over() || wanted(status)).await;
        reached.map(|status| status.clone()).unwrap_or_default()
    }

    /// The same with a time limit.
    pub async fn wait_until_within(
        &self,
        limit: Duration,
        wanted: impl Fn(&TrackedStatus) -> bool,
    ) -> TrackedStatus {
        match tokio::time::timeout(limit, self.wait_until(wanted)).await {
            Ok(status) => status,
            Err(_) => self.status(),
        }
    }

    /// Where reading continues by default.
    pub fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    /// Sets where reading continues by default.
    pub fn set_shown(&self, cursor: u64) {
        self.shown.store(cursor, Ordering::Relaxed);
    }

    /// Whether a match of this pattern was reported.
    pub(super) fn has_reported(&self, pattern: &str) -> bool {
        self.reported().iter().any(|known| known == pattern)
    }

    /// Stores that a match of this pattern was reported.
    pub(super) fn set_reported(&self, pattern: &str) {
        if self.has_reported(pattern) {
            return;
        }
        let mut reported = self.reported();
        if reported.len() >= MAX_REPORTED {
            reported.pop_front();
        }
        reported.push_back(pattern.to_owned());
    }

    fn reported(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last line of its output.
    pub async fn last_line(&self) -> Option<String> {
        let from = self.spool.span().end.saturating_sub(LINE_WITHIN as u64);
        let piece = self.spool.read(from, LINE_WITHIN).await.ok()?;
        truncate::last_line(&piece.bytes, LINE)
    }
}
