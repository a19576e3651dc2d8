//! A kept process as one session sees it: through its keeper's socket while the keeper lives, from disk afterwards.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::Error;
use engine::process::{
    Cursor, Keeper, KeeperEvent, KeeperReply, KillOutcome, NextKeeperEvent, Signal, TerminalSize,
};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::keeper::{KeeperFrame, KeeperMessage, KeeperRequest, MAX_INPUT_BYTES, MAX_OUTPUT_BYTES};

use super::convert;
use super::dial::{self, Dialled};
use super::folder::{Folder, LOG};
use super::stored::{Found, Stored};

/// Between two tries to reach a keeper that lives and does not answer.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The way to one kept process.
#[derive(Debug)]
pub(super) struct Remote {
    folder: Folder,
    /// Everything before it was told.
    at: u64,
    source: Source,
    /// Inputs keep their order on a connection of their own, made with the first of them.
    input: Arc<Mutex<Option<Dialled>>>,
}

#[derive(Debug)]
enum Source {
    /// The keeper tells.
    Socket(Box<Dialled>),
    /// The connection is not there (any more); the next try is due then.
    Cut(Instant),
    /// The keeper is gone: the disk tells, up to the end.
    Disk(Reading),
    /// All was told.
    Over,
}

#[derive(Debug)]
enum Reading {
    Idle(Stored),
    /// On a thread that may wait for the disk.
    Busy(JoinHandle<(Stored, io::Result<Found>)>),
}

impl Remote {
    /// Everything from `at` on. Looks for the keeper only when asked for the first fact.
    pub(super) fn new(folder: Folder, at: Cursor) -> Remote {
        Remote { folder, at: at.0, source: Source::Cut(Instant::now()), input: Arc::default() }
    }

    async fn news(&mut self) -> Option<KeeperEvent> {
        loop {
            match &mut self.source {
                Source::Socket(dialled) => match dialled.piece().await {
                    Ok(Some(piece)) => {
                        if let Some(told) = self.heard(piece) {
                            return Some(told);
                        }
                    }
                    Ok(None) | Err(_) => self.source = Source::Cut(Instant::now()),
                },
                Source::Cut(due) => {
                    let due = *due;
                    tokio::time::sleep_until(due).await;
                    self.reconnect().await;
                }
                Source::Disk(reading) => {
                    let found = reading.next().await;
                    if let Some(told) = self.found(found) {
                        return Some(told);
                    }
                    if matches!(self.source, Source::Over) {
                        return None;
                    }
                }
                Source::Over => return None,
            }
        }
    }

    /// What the keeper said, in the engine's words.
    fn heard(&mut self, piece: KeeperFrame) -> Option<KeeperEvent> {
        match piece {
            KeeperFrame::Output { start, stream, bytes } => {
                self.at = start + bytes.len() as u64;
                Some(KeeperEvent::Output { start: Cursor(start), stream: convert::stream(stream), bytes })
            }
            KeeperFrame::Message(KeeperMessage::Lost { next, .. }) => {
                self.at = next;
                Some(KeeperEvent::Lost { next: Cursor(next) })
            }
            KeeperFrame::Message(KeeperMessage::Exited { exit }) => {
                Some(KeeperEvent::Exited(convert::exit(exit)))
            }
            KeeperFrame::Message(KeeperMessage::Closed(closed)) => {
                self.source = Source::Over;
                Some(KeeperEvent::Closed(convert::closed(closed)))
            }
            // Nothing else is said without being asked; what a newer keeper adds is passed over.
            KeeperFrame::Message(_) => None,
        }
    }

    async fn reconnect(&mut self) {
        if !self.folder.is_alive() {
            self.source = Source::Disk(Reading::Idle(Stored::new(&self.folder.path.join(LOG), self.at)));
            return;
        }
        let from = self.at;
        let attached = async {
            let mut dialled = Dialled::open(&self.folder).await?;
            match dialled.ask(|id| KeeperRequest::Attach { id, cursor: from }).await? {
                KeeperMessage::Attached { .. } => Ok::<_, io::Error>(dialled),
                _ => Err(io::ErrorKind::ResourceBusy.into()),
            }
        };
        self.source = match attached.await {
            Ok(dialled) => Source::Socket(Box::new(dialled)),
            Err(_) => Source::Cut(Instant::now() + TRY_AGAIN_AFTER),
        };
    }

    /// What the disk has, in the engine's words.
    fn found(&mut self, found: io::Result<Found>) -> Option<KeeperEvent> {
        match found {
            Ok(Found::Output { start, stream, bytes }) => {
                self.at = start + bytes.len() as u64;
                Some(KeeperEvent::Output { start: Cursor(start), stream, bytes })
            }
            Ok(Found::Gap { next }) => {
                self.at = next;
                Some(KeeperEvent::Lost { next: Cursor(next) })
            }
            Ok(Found::End) | Err(_) => self.end(),
        }
    }

    /// The end as it was written down: first what is missing before it, then how it came.
    fn end(&mut self) -> Option<KeeperEvent> {
        let status = self.folder.status();
        let end = status.as_ref().map_or_else(|| self.folder.end(), |status| status.end);
        if self.at < end {
            self.at = end;
            return Some(KeeperEvent::Lost { next: Cursor(end) });
        }
        self.source = Source::Over;
        status.map(|status| KeeperEvent::Closed(convert::closed(status.closed)))
    }
}

impl Reading {
    /// Reads on. Dropping the future loses nothing: the thread's answer is waited for by the next call.
    async fn next(&mut self) -> io::Result<Found> {
        if let Reading::Idle(stored) = self {
            let mut stored = std::mem::replace(stored, Stored::new(std::path::Path::new(""), 0));
            *self = Reading::Busy(tokio::task::spawn_blocking(move || {
                let found = stored.next(MAX_OUTPUT_BYTES);
                (stored, found)
            }));
        }
        let Reading::Busy(thread) = self else { return Ok(Found::End) };
        let (stored, found) = thread.await.map_err(io::Error::other)?;
        *self = Reading::Idle(stored);
        found
    }
}

impl Keeper for Remote {
    fn next(&mut self) -> NextKeeperEvent<'_> {
        Box::pin(self.news())
    }

    fn kill(&self, signal: Signal) -> KeeperReply<KillOutcome> {
        let folder = self.folder.clone();
        Box::pin(async move { dial::kill(&folder, signal).await })
    }

    fn input(&self, bytes: Bytes, is_last: bool) -> KeeperReply<usize> {
        let (folder, connection) = (self.folder.clone(), self.input.clone());
        Box::pin(async move { input(&folder, &mut *connection.lock().await, bytes, is_last).await })
    }

    fn resize(&self, size: TerminalSize) -> KeeperReply<()> {
        let folder = self.folder.clone();
        Box::pin(async move { dial::resize(&folder, size).await })
    }
}

/// Gives the process bytes to read, in pieces that the keeper takes. A connection that broke is not tried again: it
/// would not be known what had arrived.
pub(super) async fn input(
    folder: &Folder,
    connection: &mut Option<Dialled>,
    mut bytes: Bytes,
    is_last: bool,
) -> Result<usize, Error> {
    let accepted = bytes.len();
    loop {
        let piece = bytes.split_to(bytes.len().min(MAX_INPUT_BYTES));
        let eof = is_last && bytes.is_empty();
        let mut dialled = match connection.take() {
            Some(dialled) => dialled,
            None => Dialled::open(folder).await.map_err(|error| dial::unreachable(folder, &error))?,
        };
        let data = wire::base64::encode(&piece);
        let asked = dialled.ask(|id| KeeperRequest::Input { id, data, eof }).await;
        match asked.map_err(|error| dial::unreachable(folder, &error))? {
            KeeperMessage::Accepted { .. } => *connection = Some(dialled),
            told => {
                *connection = Some(dialled);
                return Err(dial::unexpected(told));
            }
        }
        if bytes.is_empty() {
            return Ok(accepted);
        }
    }
}
