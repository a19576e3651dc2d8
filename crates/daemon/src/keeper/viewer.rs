//! A viewer inside the keeper: everything from a cursor on, from memory where it is recent and from disk where not.

use std::path::PathBuf;
use std::sync::Arc;

use engine::process::{Cursor, Item, LogReader};
use tokio::sync::{Semaphore, watch};
use wire::keeper::{KeeperFrame, KeeperMessage, MAX_OUTPUT_BYTES};

use super::connection::ServerState;
use super::convert;
use super::segment_reader::{SegmentItem, SegmentReader};

/// One reader of a process that runs, or ran until a moment ago.
#[derive(Debug)]
pub(super) struct Viewer {
    /// The segments.
    log: PathBuf,
    /// How far they reach.
    written: watch::Receiver<Cursor>,
    /// Turns at the disk.
    disk: Arc<Semaphore>,
    recent: LogReader,
    /// What is not in memory any more, and where memory goes on.
    older: Option<(SegmentReader, Cursor)>,
    is_closed: bool,
}

impl Viewer {
    pub(super) fn new(served: &ServerState, from: Cursor) -> Viewer {
        Viewer {
            log: served.log.clone(),
            written: served.written.clone(),
            disk: served.disk.clone(),
            recent: served.process.reader(from),
            older: None,
            is_closed: false,
        }
    }

    /// What to say next; nothing after the end was said. Not safe to drop while it waits.
    pub(super) async fn next(&mut self) -> Option<KeeperFrame> {
        // A reader that has returned the end would return it again.
        if self.is_closed {
            return None;
        }
        loop {
            if let Some((older, until)) = self.older.take() {
                if let Some(piece) = self.replay(older, until).await {
                    return Some(piece);
                }
                continue;
            }
            match self.recent.next(MAX_OUTPUT_BYTES).await {
                Item::Output { stream, bytes, next } => {
                    let start = next.0 - bytes.len() as u64;
                    // What was shown is on disk: nobody who saw it finds it missing later. Without a scribe all is.
                    let _written = self.written.wait_for(|written| *written >= next).await;
                    return Some(KeeperFrame::Output { start, stream: convert::stream_told(stream), bytes });
                }
                Item::Lost { bytes, next } => {
                    self.older = Some((SegmentReader::new(&self.log, next.0 - bytes), next));
                }
                Item::Exited { status, .. } => {
                    let exit = convert::exit_told(status);
                    return Some(KeeperFrame::Message(KeeperMessage::Exited { exit }));
                }
                Item::Closed(closed) => {
                    self.is_closed = true;
                    return Some(KeeperFrame::Message(KeeperMessage::Closed(convert::closed_told(&closed))));
                }
                // Its own process is left by nobody.
                Item::Disconnected => return None,
            }
        }
    }

    /// The next piece from disk, as long as it lies before `until`.
    async fn replay(&mut self, mut older: SegmentReader, until: Cursor) -> Option<KeeperFrame> {
        let at = older.at();
        if at >= until.0 {
            return None;
        }
        // What has left memory may be on its way to the disk.
        self.written.wait_for(|written| *written >= until).await.ok()?;
        let turn = self.disk.clone().acquire_owned().await.ok()?;
        let read = move || {
            let _turn = turn;
            let found = older.next(MAX_OUTPUT_BYTES);
            (older, found)
        };
        let (older, found) = tokio::task::spawn_blocking(read).await.ok()?;
        let lost = |next: u64| Some(KeeperFrame::Message(KeeperMessage::Lost { bytes: next - at, next }));
        match found {
            Ok(SegmentItem::Output { start, stream, mut bytes }) if start < until.0 => {
                // Memory has the rest.
                bytes.truncate(usize::try_from(until.0 - start).unwrap_or(usize::MAX));
                self.older = Some((older, until));
                Some(KeeperFrame::Output { start, stream: convert::stream_told(stream), bytes })
            }
            Ok(SegmentItem::Gap { next }) if next < until.0 => {
                self.older = Some((older, until));
                lost(next)
            }
            // All the rest before `until` could not be kept, or cannot be read back.
            Ok(_) | Err(_) => lost(until.0),
        }
    }
}
