//! Acknowledges received events: the server keeps those that were not received, and sends no more than it can keep.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use wire::jsonrpc;
use wire::rexd::v1::{Method as _, SessionAck, SessionOpenResult};

/// Received bytes after which an acknowledgement is sent at once.
const MAX_BYTES: usize = 256 * 1024;
/// The longest that a received event is not acknowledged.
const MAX_DELAY: Duration = Duration::from_millis(20);

/// The events of a session that were received and not acknowledged.
#[derive(Debug, Default)]
pub(super) struct Acknowledgements {
    is_supported: bool,
    last: u64,
    bytes: usize,
    due: Option<Instant>,
}

impl Acknowledgements {
    /// For a new session. The first acknowledgement is due at once: it states that more will follow.
    pub(super) fn new(opened: &SessionOpenResult) -> Acknowledgements {
        let has = |name: &str| opened.capabilities.iter().any(|known| known == name);
        let is_supported = opened.resume_token.is_some() && has(SessionAck::NAME);
        Acknowledgements { is_supported, due: is_supported.then(Instant::now), ..Acknowledgements::default() }
    }

    /// A message of this many bytes was received; `last` is the last event so far.
    pub(super) fn received(&mut self, bytes: usize, last: u64) {
        if self.is_supported && last > self.last {
            self.last = last;
            self.bytes += bytes;
            self.due.get_or_insert_with(|| Instant::now() + MAX_DELAY);
        }
    }

    /// The session was resumed. The last acknowledgement may have been lost, also the first, so it is due again.
    pub(super) fn resumed(&mut self) {
        (self.bytes, self.due) = (0, self.is_supported.then(Instant::now));
    }

    /// When the next acknowledgement is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The acknowledgement, if it is due.
    pub(super) fn take(&mut self, session_id: &str) -> Option<Bytes> {
        let due = self.due?;
        if self.bytes < MAX_BYTES && due > Instant::now() {
            return None;
        }
        (self.bytes, self.due) = (0, None);
        let event_id = i64::try_from(self.last).unwrap_or(i64::MAX);
        let params = SessionAck { session_id: session_id.to_owned(), event_id };
        Some(jsonrpc::notification(SessionAck::NAME, &params).into())
    }
}
