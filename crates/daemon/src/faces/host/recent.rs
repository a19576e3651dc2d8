//! The last output of a run in memory, so that a connected hub gets it without a read from disk.

use std::collections::VecDeque;

use bytes::Bytes;

use super::journal::OutputRange;

/// Output of one run in memory; beyond it the oldest is read from the log.
const MAX_BYTES: usize = 256 * 1024;

/// The output of the last events.
#[derive(Debug, Default)]
pub(super) struct RecentOutput {
    chunks: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

impl RecentOutput {
    pub(super) fn push(&mut self, range: OutputRange, bytes: Bytes) {
        self.bytes += bytes.len();
        self.chunks.push_back((range.from, bytes));
        while self.bytes > MAX_BYTES
            && let Some((_, oldest)) = self.chunks.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    /// The output of one event; `None` if it is not here.
    pub(super) fn get(&self, range: OutputRange) -> Option<Bytes> {
        let index = self.chunks.binary_search_by_key(&range.from, |(from, _)| *from).ok()?;
        let (from, bytes) = self.chunks.get(index)?;
        (from + bytes.len() as u64 == range.to).then(|| bytes.clone())
    }
}
