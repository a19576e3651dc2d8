//! A process that is followed: a task takes everything it writes into a spool, and anybody may look and wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::{Process, ProcessControl, ProcessEventKind, ProcessExit};
use tokio::sync::watch;

use super::cut;
use super::spool::Spool;

/// Characters of the last line that progress shows.
const LINE: usize = 200;
/// Bytes in which the last line is looked for.
const LINE_WITHIN: usize = 1_024;
/// Remarks of the host about one process that are kept.
const MOST_REMARKS: usize = 8;

/// A process that is followed.
#[derive(Debug)]
pub struct Followed {
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
    news: watch::Sender<News>,
}

/// How a process is.
#[derive(Debug, Clone, Default)]
pub struct News {
    /// The end of its output so far.
    pub end: u64,
    /// How it ended.
    pub exit: Option<ProcessExit>,
    /// Why nothing more is heard of it.
    pub cut: Option<String>,
    /// What the host said about it.
    pub remarks: Vec<String>,
}

impl News {
    /// Whether nothing more will come.
    pub fn is_over(&self) -> bool {
        self.exit.is_some() || self.cut.is_some()
    }
}

impl Followed {
    /// A process whose output from `from` on will be taken by [`run`](Followed::run).
    pub fn new(process: &Process, from: u64, is_detached: bool) -> Followed {
        Followed {
            id: process.id().to_owned(),
            control: process.control(),
            spool: Arc::new(Spool::starting_at(from)),
            from,
            is_detached,
            shown: AtomicU64::new(from),
            news: watch::Sender::new(News { end: from, ..News::default() }),
        }
    }

    /// Takes everything until the end.
    pub async fn run(self: Arc<Followed>, mut process: Process) {
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
                    self.news.send_modify(|news| news.end = self.spool.span().end);
                }
                ProcessEventKind::Lost(lost) => self.remark(lost.to_string()),
                ProcessEventKind::Error(trouble) => self.remark(trouble.message),
                ProcessEventKind::Exit(exit) => return self.news.send_modify(|news| news.exit = Some(exit)),
            }
        }
    }

    fn lose(&self, why: &str) {
        self.news.send_modify(|news| news.cut = Some(why.to_owned()));
    }

    fn remark(&self, text: String) {
        self.news.send_modify(|news| {
            if news.remarks.len() < MOST_REMARKS {
                news.remarks.push(text);
            }
        });
    }

    /// How it is now.
    pub fn news(&self) -> News {
        self.news.borrow().clone()
    }

    /// Waits until it is as wanted, or nothing more will come; how it is then.
    pub async fn until(&self, wanted: impl Fn(&News) -> bool) -> News {
        let mut news = self.news.subscribe();
        // The sender lives as long as we do.
        let reached = news.wait_for(|news| news.is_over() || wanted(news)).await;
        reached.map(|news| news.clone()).unwrap_or_default()
    }

    /// The same, for so long at most.
    pub async fn until_within(&self, most: Duration, wanted: impl Fn(&News) -> bool) -> News {
        match tokio::time::timeout(most, self.until(wanted)).await {
            Ok(news) => news,
            Err(_) => self.news(),
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
        cut::last_line(&piece.bytes, LINE)
    }
}
