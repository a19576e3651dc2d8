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

use super::client_connection::{self, KeeperConnection};
use super::convert;
use super::dir::{KeeperDir, LOG};
use super::segment_reader::{SegmentItem, SegmentReader};

/// Between two tries to reach a keeper that lives and does not answer.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The way to one kept process.
#[derive(Debug)]
pub(super) struct KeeperClient {
    dir: KeeperDir,
    /// Everything before it was told.
    at: u64,
    source: Source,
    /// Inputs keep their order on a connection of their own, made with the first of them.
    input: Arc<Mutex<Option<KeeperConnection>>>,
}

#[derive(Debug)]
enum Source {
    /// The keeper tells.
    Socket(Box<KeeperConnection>),
    /// The connection is not there (any more); the next try is due then.
    Cut(Instant),
    /// The keeper is gone: the disk tells, up to the end.
    Disk(DiskRead),
    /// All was told.
    Over,
}

#[derive(Debug)]
enum DiskRead {
    Idle(SegmentReader),
    /// On a thread that may wait for the disk.
    Busy(JoinHandle<(SegmentReader, io::Result<SegmentItem>)>),
}

impl KeeperClient {
    /// Everything from `at` on. Looks for the keeper only when asked for the first fact.
    pub(super) fn new(dir: KeeperDir, at: Cursor) -> KeeperClient {
        KeeperClient { dir, at: at.0, source: Source::Cut(Instant::now()), input: Arc::default() }
    }

    async fn news(&mut self) -> Option<KeeperEvent> {
        loop {
            match &mut self.source {
                Source::Socket(connection) => match connection.piece().await {
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
        if !self.dir.is_alive() {
            self.source = Source::Disk(DiskRead::Idle(SegmentReader::new(&self.dir.path.join(LOG), self.at)));
            return;
        }
        let from = self.at;
        let attached = async {
            let mut connection = KeeperConnection::open(&self.dir).await?;
            match connection.ask(|id| KeeperRequest::Attach { id, cursor: from }).await? {
                KeeperMessage::Attached { .. } => Ok::<_, io::Error>(connection),
                _ => Err(io::ErrorKind::ResourceBusy.into()),
            }
        };
        self.source = match attached.await {
            Ok(connection) => Source::Socket(Box::new(connection)),
            Err(_) => Source::Cut(Instant::now() + TRY_AGAIN_AFTER),
        };
    }

    /// What the disk has, in the engine's words.
    fn found(&mut self, found: io::Result<SegmentItem>) -> Option<KeeperEvent> {
        match found {
            Ok(SegmentItem::Output { start, stream, bytes }) => {
                self.at = start + bytes.len() as u64;
                Some(KeeperEvent::Output { start: Cursor(start), stream, bytes })
            }
            Ok(SegmentItem::Gap { next }) => {
                self.at = next;
                Some(KeeperEvent::Lost { next: Cursor(next) })
            }
            Ok(SegmentItem::End) | Err(_) => self.end(),
        }
    }

    /// The end as it was written down: first what is missing before it, then how it came.
    fn end(&mut self) -> Option<KeeperEvent> {
        let status = self.dir.status();
        let end = status.as_ref().map_or_else(|| self.dir.end(), |status| status.end);
        if self.at < end {
            self.at = end;
            return Some(KeeperEvent::Lost { next: Cursor(end) });
        }
        self.source = Source::Over;
        status.map(|status| KeeperEvent::Closed(convert::closed(status.closed)))
    }
}

impl DiskRead {
    /// Reads on. Dropping the future loses nothing: the thread's answer is waited for by the next call.
    async fn next(&mut self) -> io::Result<SegmentItem> {
        if let DiskRead::Idle(stored) = self {
            let mut stored = std::mem::replace(stored, SegmentReader::new(std::path::Path::new(""), 0));
            *self = DiskRead::Busy(tokio::task::spawn_blocking(move || {
                let found = stored.next(MAX_OUTPUT_BYTES);
                (stored, found)
            }));
        }
        let DiskRead::Busy(thread) = self else { return Ok(SegmentItem::End) };
        let (stored, found) = thread.await.map_err(io::Error::other)?;
        *self = DiskRead::Idle(stored);
        found
    }
}

impl Keeper for KeeperClient {
    fn next(&mut self) -> NextKeeperEvent<'_> {
        Box::pin(self.news())
    }

    fn kill(&self, signal: Signal) -> KeeperReply<KillOutcome> {
        let dir = self.dir.clone();
        Box::pin(async move { client_connection::kill(&dir, signal).await })
    }

    fn input(&self, bytes: Bytes, is_last: bool) -> KeeperReply<usize> {
        let (dir, connection) = (self.dir.clone(), self.input.clone());
        Box::pin(async move { input(&dir, &mut *connection.lock().await, bytes, is_last).await })
    }

    fn resize(&self, size: TerminalSize) -> KeeperReply<()> {
        let dir = self.dir.clone();
        Box::pin(async move { client_connection::resize(&dir, size).await })
    }
}

/// Gives the process bytes to read, in pieces that the keeper takes. A connection that broke is not tried again: it
/// would not be known what had arrived.
pub(super) async fn input(
    dir: &KeeperDir,
    reusable: &mut Option<KeeperConnection>,
    mut bytes: Bytes,
    is_last: bool,
) -> Result<usize, Error> {
    let accepted = bytes.len();
    loop {
        let piece = bytes.split_to(bytes.len().min(MAX_INPUT_BYTES));
        let eof = is_last && bytes.is_empty();
        let mut connection = match reusable.take() {
            Some(connection) => connection,
            None => KeeperConnection::open(dir)
                .await
                .map_err(|error| client_connection::unreachable(dir, &error))?,
        };
        let data = wire::base64::encode(&piece);
        let asked = connection.ask(|id| KeeperRequest::Input { id, data, eof }).await;
        match asked.map_err(|error| client_connection::unreachable(dir, &error))? {
            KeeperMessage::Accepted { .. } => *reusable = Some(connection),
            told => {
                *reusable = Some(connection);
                return Err(client_connection::unexpected(told));
            }
        }
        if bytes.is_empty() {
            return Ok(accepted);
        }
    }
}
