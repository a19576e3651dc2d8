//! Acknowledges received events: the server keeps those that were not received, and sends no more than it can keep.

use std::time::Duration;

use tokio::time::Instant;

/// Received bytes after which an acknowledgement is sent at once.
const MAX_BYTES: usize = 128 * 1024;
/// The longest that a received event is not acknowledged.
const MAX_DELAY: Duration = Duration::from_millis(5);

/// The events of a session that were received and not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Acknowledgements {
    is_supported: bool,
    last: u64,
    bytes: usize,
    due: Option<Instant>,
}

impl Acknowledgements {
    /// For a new session. The first acknowledgement is due at once: it states that more will follow.
    pub(crate) fn new(is_supported: bool) -> Acknowledgements {
        Acknowledgements { is_supported, due: is_supported.then(Instant::now), ..Acknowledgements::default() }
    }

    /// A message of this many bytes was received; `last` is the last event so far.
    pub(crate) fn received(&mut self, bytes: usize, last: u64) {
        if self.is_supported && last > self.last {
            self.last = last;
            self.bytes += bytes;
            self.due.get_or_insert_with(|| Instant::now() + MAX_DELAY);
        }
    }

    /// The session was resumed. The last acknowledgement may have been lost, also the first, so it is due again.
    pub(crate) fn resumed(&mut self) {
        (self.bytes, self.due) = (0, self.is_supported.then(Instant::now));
    }

    /// The session was resumed, and events are counted anew on each connection.
    pub(crate) fn restarted(&mut self) {
        self.last = 0;
        self.resumed();
    }

    /// When the next acknowledgement is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The last received event, if it is to be acknowledged now.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let due = self.due?;
        if self.bytes < MAX_BYTES && due > Instant::now() {
            return None;
        }
        (self.bytes, self.due) = (0, None);
        Some(self.last)
    }
}
