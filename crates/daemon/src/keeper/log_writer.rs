//! The scribe: the process's primary reader, who writes all of its output down.

use std::sync::Arc;

use engine::process::{Cursor, Item, LogReader, ProcessSummary};
use tokio::sync::watch;
use wire::keeper::MAX_OUTPUT_BYTES;

use super::segments::Segments;

/// Writes until nothing follows. `written` says how far it has come.
pub(super) async fn write_log(
    mut reader: LogReader,
    mut segments: Segments,
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
                // Only a runtime that shuts down does not run it.
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
