//! A process that is tracked: a task takes everything it writes into a spool, and anybody may look and wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::{Process, ProcessControl, ProcessEventKind, ProcessExit};
use tokio::sync::watch;

use super::spool::Spool;
use super::truncate;

/// Characters of the last line that progress shows.
const LINE: usize = 200;
/// Bytes in which the last line is looked for.
const LINE_WITHIN: usize = 1_024;
/// Remarks of the host about one process that are kept.
const MAX_NOTES: usize = 8;

/// A process that is tracked.
#[derive(Debug)]
pub struct TrackedProcess {
    /// Its id.
    pub id: String,
    /// What can be done to it.
    pub control: ProcessControl,
    /// What it wrote, as far as it was received.
    pub spool: Arc<Spool>,
    /// Where the log was when following began: what lies before can be asked for again.
    pub from: u64,
    /// Whether it outlives this program.
    pub is_detached: bool,
    /// The end of what has been shown in one piece: where reading goes on if nobody says where.
    shown: AtomicU64,
    status: watch::Sender<TrackedStatus>,
}

/// How a process is.
#[derive(Debug, Clone, Default)]
pub struct TrackedStatus {
    /// The end of its output so far.
    pub end: u64,
    /// How it ended.
    pub exit: Option<ProcessExit>,
    /// Why nothing more is heard of it.
    pub cut: Option<String>,
    /// What the host said about it.
    pub notes: Vec<String>,
}

impl TrackedStatus {
    /// Whether nothing more will come.
    pub fn is_over(&self) -> bool {
        self.exit.is_some() || self.cut.is_some()
    }
}

impl TrackedProcess {
    /// A process whose output from `from` on will be taken by [`run`](TrackedProcess::run).
    pub fn new(process: &Process, from: u64, is_detached: bool) -> TrackedProcess {
        TrackedProcess {
            id: process.id().to_owned(),
            control: process.control(),
            spool: Arc::new(Spool::starting_at(from)),
            from,
            is_detached,
            shown: AtomicU64::new(from),
            status: watch::Sender::new(TrackedStatus { end: from, ..TrackedStatus::default() }),
        }
    }

    /// Takes everything until the end.
    pub async fn run(self: Arc<TrackedProcess>, mut process: Process) {
        loop {
            let event = match process.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return self.lose("its events ended without its exit"),
                Err(error) => return self.lose(&error.to_string()),
            };
            match event.kind {
                ProcessEventKind::Stdout(bytes)
                | ProcessEventKind::Stderr(bytes)
                | ProcessEventKind::Terminal(bytes) => {
                    if let Err(error) = self.spool.append(bytes, event.cursor).await {
                        return self.lose(&format!("its output cannot be kept here: {error}"));
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

    /// How it is now.
    pub fn status(&self) -> TrackedStatus {
        self.status.borrow().clone()
    }

    /// Waits until it is as wanted, or nothing more will come; how it is then.
    pub async fn wait_until(&self, wanted: impl Fn(&TrackedStatus) -> bool) -> TrackedStatus {
        let mut status = self.status.subscribe();
        // The sender lives as long as we do.
        let reached = status.wait_for(|status| status.is_over() || wanted(status)).await;
        reached.map(|status| status.clone()).unwrap_or_default()
    }

    /// The same, for so long at limit.
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

    /// Where reading goes on if nobody says where.
    pub fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    /// Everything before this has been shown.
    pub fn set_shown(&self, cursor: u64) {
        self.shown.store(cursor, Ordering::Relaxed);
    }

    /// The last line it wrote.
    pub async fn last_line(&self) -> Option<String> {
        let from = self.spool.span().end.saturating_sub(LINE_WITHIN as u64);
        let piece = self.spool.read(from, LINE_WITHIN).await.ok()?;
        truncate::last_line(&piece.bytes, LINE)
    }
}
