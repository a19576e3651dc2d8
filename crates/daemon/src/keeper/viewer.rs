//! The frames for one viewer of a keeper, from a cursor on: recent output from memory, older output from disk.

use std::path::PathBuf;
use std::sync::Arc;

use engine::process::{Cursor, Item, KeeperEvent, LogReader};
use tokio::sync::{Semaphore, watch};
use wire::keeper::{KeeperFrame, KeeperMessage, MAX_OUTPUT_BYTES};

use super::connection::ServerState;
use super::convert;
use super::segment_reader::SegmentReader;

/// One viewer of the keeper's process.
#[derive(Debug)]
pub(super) struct Viewer {
    /// The directory of log segments.
    log: PathBuf,
    /// The end of the log on disk.
    written: watch::Receiver<Cursor>,
    /// Permits for disk reads.
    disk: Arc<Semaphore>,
    recent: LogReader,
    /// A reader of output that is no longer in memory, and the cursor where memory continues.
    older: Option<(SegmentReader, Cursor)>,
    is_closed: bool,
}

impl Viewer {
    pub(super) fn new(state: &ServerState, from: Cursor) -> Viewer {
        Viewer {
            log: state.log.clone(),
            written: state.written.clone(),
            disk: state.disk.clone(),
            recent: state.process.reader(from),
            older: None,
            is_closed: false,
        }
    }

    /// The next frame; `None` after the end. Dropping this future can lose a frame.
    pub(super) async fn next(&mut self) -> Option<KeeperFrame> {
        // A reader that has returned the end would return it again.
        if self.is_closed {
            return None;
        }
        loop {
            if let Some((older, until)) = self.older.take() {
                if let Some(frame) = self.replay(older, until).await {
                    return Some(frame);
                }
                continue;
            }
            match self.recent.next(MAX_OUTPUT_BYTES).await {
                Item::Output { stream, bytes, next } => {
                    let start = next.0 - bytes.len() as u64;
                    // Send only output that is on disk, so that no viewer misses it later. Fails after the last write.
                    let _written = self.written.wait_for(|written| *written >= next).await;
                    return Some(KeeperFrame::Output {
                        start,
                        stream: convert::stream_to_wire(stream),
                        bytes,
                    });
                }
                Item::Lost { bytes, next } => {
                    self.older = Some((SegmentReader::new(&self.log, next.0 - bytes), next));
                }
                Item::Exited { status, .. } => {
                    let exit = convert::exit_to_wire(status);
                    return Some(KeeperFrame::Message(KeeperMessage::Exited { exit }));
                }
                Item::Closed(closed) => {
                    self.is_closed = true;
                    // The sender is dropped when the status is on disk.
                    while self.written.changed().await.is_ok() {}
                    let report = convert::summary_to_wire(&closed);
                    return Some(KeeperFrame::Message(KeeperMessage::Closed(report)));
                }
                // A keeper never disconnects from its own process.
                Item::Disconnected => return None,
            }
        }
    }

    /// The next frame from disk, if it starts before `until`.
    async fn replay(&mut self, mut older: SegmentReader, until: Cursor) -> Option<KeeperFrame> {
        let at = older.at();
        if at >= until.0 {
            return None;
        }
        // Output that has left memory may not be written yet.
        self.written.wait_for(|written| *written >= until).await.ok()?;
        let permit = self.disk.clone().acquire_owned().await.ok()?;
        let read = move || {
            let _permit = permit;
            let found = older.next(MAX_OUTPUT_BYTES);
            (older, found)
        };
        let (older, found) = tokio::task::spawn_blocking(read).await.ok()?;
        let lost = |next: u64| Some(KeeperFrame::Message(KeeperMessage::Lost { bytes: next - at, next }));
        match found {
            Ok(Some(KeeperEvent::Output { start, stream, mut bytes })) if start < until => {
                // The rest is in memory.
                bytes.truncate(usize::try_from(until.0 - start.0).unwrap_or(usize::MAX));
                self.older = Some((older, until));
                Some(KeeperFrame::Output { start: start.0, stream: convert::stream_to_wire(stream), bytes })
            }
            Ok(Some(KeeperEvent::Lost { next })) if next < until => {
                self.older = Some((older, until));
                lost(next.0)
            }
            // The rest before `until` was removed or cannot be read.
            Ok(_) | Err(_) => lost(until.0),
        }
    }
}
