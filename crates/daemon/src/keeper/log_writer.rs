//! The primary reader of the process, which writes its output to disk.

use std::sync::Arc;

use engine::process::{Cursor, Item, LogReader, ProcessSummary};
use tokio::sync::watch;
use wire::keeper::MAX_OUTPUT_BYTES;

use super::segments::SegmentWriter;

/// Writes output until the process is closed. `written` publishes the end of the written log.
pub(super) async fn write_log(
    mut reader: LogReader,
    mut segments: SegmentWriter,
    written: &watch::Sender<Cursor>,
) -> Option<Arc<ProcessSummary>> {
    loop {
        match reader.next(MAX_OUTPUT_BYTES).await {
            Item::Output { stream, bytes, next } => {
                let start = next.0 - bytes.len() as u64;
                let write = move || {
                    segments.append(start, stream, &bytes);
                    segments
                };
                // Fails only while the runtime shuts down.
                segments = tokio::task::spawn_blocking(write).await.ok()?;
                written.send_replace(next);
            }
            Item::Lost { next, .. } => {
                written.send_replace(next);
            }
            Item::Exited { .. } => {}
            Item::Closed(closed) => return Some(closed),
            Item::Disconnected => return None,
        }
    }
}
