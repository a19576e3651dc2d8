//! The numbered events of a session: those that were not sent yet, and sent ones that a client may not have received.

use std::collections::VecDeque;

use bytes::Bytes;

/// Events in order. Numbers start at 1 and have no gaps; dropped events are counted as lost.
#[derive(Debug)]
pub(super) struct ReplayBuffer {
    lines: VecDeque<Bytes>,
    /// The number of the first line in the buffer.
    first: u64,
    /// The number of the next line to send.
    unsent: u64,
    bytes: usize,
    /// Bytes kept for a client that may resume; beyond it the oldest events are dropped. 0: nothing is kept.
    limit: usize,
    /// Whether the client acknowledges events: sent ones are kept until then, and no more are sent than can be kept.
    is_acknowledged: bool,
}

/// A client named an event that has not happened yet.
#[derive(Debug, PartialEq, Eq)]
pub struct NotYet;

impl ReplayBuffer {
    pub(super) fn new(limit: usize) -> ReplayBuffer {
        ReplayBuffer { lines: VecDeque::new(), first: 1, unsent: 1, bytes: 0, limit, is_acknowledged: false }
    }

    /// The client acknowledges from now on: at most `limit` bytes are sent beyond what it has acknowledged.
    pub(super) fn limit_unacknowledged(&mut self, limit: usize) {
        self.limit = limit.max(1);
        self.is_acknowledged = true;
    }

    /// Drops all sent events and keeps none from now on: a new client has not stated that it acknowledges.
    pub(super) fn forget_sent(&mut self) {
        self.acknowledge(u64::MAX);
        self.limit = 0;
        self.is_acknowledged = false;
    }

    /// The number of the next event.
    pub(super) fn next_id(&self) -> u64 {
        self.first + self.lines.len() as u64
    }

    /// The number of the last event that was sent.
    pub(super) fn last_sent(&self) -> u64 {
        self.unsent.max(1) - 1
    }

    /// Adds the event with the number `next_id`. Beyond the limit, the oldest sent events are dropped, unless they wait to
    /// be acknowledged; unsent ones stay, so the caller adds only what can be sent, or calls `drop_unsent`.
    pub(super) fn push(&mut self, line: Bytes) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while !self.is_acknowledged && self.limit > 0 && self.bytes > self.limit && self.first < self.unsent {
            self.drop_oldest();
        }
    }

    /// Drops the sent events up to this one: the client has them, and acknowledges later ones too.
    pub(super) fn acknowledge(&mut self, event: u64) {
        self.is_acknowledged = true;
        while self.first <= event && self.first < self.unsent {
            self.drop_oldest();
        }
    }

    /// Drops the oldest events beyond the limit, sent or not: there is no listener.
    pub(super) fn drop_unsent(&mut self) {
        while self.limit > 0 && self.bytes > self.limit && self.lines.len() > 1 {
            self.drop_oldest();
        }
    }

    /// The next event to send.
    pub(super) fn unsent(&self) -> Option<(u64, Bytes)> {
        let at = self.unsent.max(self.first);
        let index = usize::try_from(at - self.first).ok()?;
        self.lines.get(index).map(|line| (at, line.clone()))
    }

    /// Marks the event that `unsent` returned as sent.
    pub(super) fn sent(&mut self) {
        self.unsent = self.unsent.max(self.first) + 1;
        if self.limit == 0 {
            while self.first < self.unsent {
                self.drop_oldest();
            }
        }
    }

    /// Whether an event of up to `longest` bytes may be sent before the client acknowledges another.
    pub(super) fn may_send(&self, longest: usize) -> bool {
        !self.is_acknowledged || self.limit == 0 || self.has_capacity(longest)
    }

    /// Whether an event of up to `longest` bytes fits without dropping another. An empty buffer takes one of any size.
    pub(super) fn has_capacity(&self, longest: usize) -> bool {
        self.lines.is_empty() || self.bytes.saturating_add(longest) <= self.limit
    }

    /// Rewinds to the event after `seen`, the last one that the client received. Returns how many events are lost.
    pub(super) fn rewind(&mut self, seen: u64) -> Result<u64, NotYet> {
        if seen >= self.next_id() {
            return Err(NotYet);
        }
        let wanted = seen + 1;
        self.unsent = wanted.max(self.first);
        while self.first < self.unsent {
            self.drop_oldest();
        }
        Ok(self.first.saturating_sub(wanted))
    }

    /// Continues with the first event that was not sent, and returns how many events before it are lost. Sent events stay
    /// in the buffer: a client that resumes without a number has not stated which ones it received.
    pub(super) fn resume(&mut self) -> u64 {
        let lost = self.first.saturating_sub(self.unsent);
        self.unsent = self.unsent.max(self.first);
        lost
    }

    /// Drops every event: no listener will come.
    pub(super) fn discard(&mut self) {
        self.first = self.next_id();
        self.unsent = self.first;
        self.lines.clear();
        self.bytes = 0;
    }

    fn drop_oldest(&mut self) {
        if let Some(line) = self.lines.pop_front() {
            self.bytes -= line.len();
        }
        self.first += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64) -> Bytes {
        Bytes::from(format!("event {number:04}"))
    }

    fn push(buffer: &mut ReplayBuffer, count: u64) {
        for _ in 0..count {
            let number = buffer.next_id();
            buffer.push(line(number));
        }
    }

    fn send(buffer: &mut ReplayBuffer) -> Vec<u64> {
        let mut sent = Vec::new();
        while let Some((id, text)) = buffer.unsent() {
            assert_eq!(text, line(id), "each event keeps its number");
            sent.push(id);
            buffer.sent();
        }
        sent
    }

    /// ARCHITECTURE.md, invariant 30.
    #[test]
    fn sent_events_are_replayed_after_the_last_one_received() {
        let mut buffer = ReplayBuffer::new(1_000);
        push(&mut buffer, 5);
        assert_eq!(send(&mut buffer), [1, 2, 3, 4, 5]);
        assert_eq!(buffer.rewind(2), Ok(0));
        push(&mut buffer, 1);
        assert_eq!(send(&mut buffer), [3, 4, 5, 6]);
        assert_eq!(buffer.rewind(6), Ok(0));
        assert_eq!(send(&mut buffer), [0; 0]);
        assert_eq!(buffer.rewind(7), Err(NotYet));
    }

    /// ARCHITECTURE.md, invariant 30.
    #[test]
    fn events_beyond_the_limit_are_counted_as_lost() {
        let mut buffer = ReplayBuffer::new(30);
        push(&mut buffer, 10);
        assert_eq!(
            buffer.unsent().map(|(id, _)| id),
            Some(1),
            "nothing is dropped while there is a listener"
        );
        buffer.drop_unsent();
        assert_eq!(buffer.rewind(4), Ok(3), "three lines of ten bytes fit: 5, 6 and 7 are lost");
        assert_eq!(send(&mut buffer), [8, 9, 10]);
    }

    #[test]
    fn events_that_wait_to_be_acknowledged_are_kept() {
        let mut buffer = ReplayBuffer::new(30);
        assert!(buffer.may_send(1_000), "the client has acknowledged nothing");
        buffer.acknowledge(0);
        push(&mut buffer, 5);
        assert_eq!(send(&mut buffer), [1, 2, 3, 4, 5]);
        assert!(!buffer.may_send(10));
        buffer.acknowledge(3);
        assert!(buffer.may_send(10));
        assert_eq!(buffer.rewind(3), Ok(0), "nothing of the rest is lost");
        assert_eq!(send(&mut buffer), [4, 5]);
        // A number that was not sent yet.
        buffer.push(line(6));
        buffer.acknowledge(1_000);
        assert_eq!(send(&mut buffer), [6]);
    }

    #[test]
    fn events_that_fit_drop_no_others() {
        let mut buffer = ReplayBuffer::new(35);
        while buffer.has_capacity(line(1).len()) {
            push(&mut buffer, 1);
        }
        assert_eq!(buffer.lines.len(), 3, "a fourth line of ten bytes would cost the first");
        assert_eq!(buffer.rewind(0), Ok(0));
        assert_eq!(send(&mut buffer), [1, 2, 3]);
        let small = ReplayBuffer::new(5);
        assert!(small.has_capacity(10), "or a client with a small limit would never receive anything");
    }

    #[test]
    fn a_client_that_resumes_without_a_number_can_still_rewind() {
        let mut buffer = ReplayBuffer::new(50);
        push(&mut buffer, 3);
        assert_eq!(send(&mut buffer), [1, 2, 3]);
        assert_eq!(buffer.resume(), 0);
        push(&mut buffer, 1);
        assert_eq!(send(&mut buffer), [4], "nothing twice");
        assert_eq!(buffer.rewind(1), Ok(0), "nothing was forgotten");
        assert_eq!(send(&mut buffer), [2, 3, 4]);
        push(&mut buffer, 7);
        buffer.drop_unsent();
        assert_eq!((buffer.last_sent(), buffer.resume()), (4, 2), "five fit: 5 and 6 are lost");
        assert_eq!(send(&mut buffer), [7, 8, 9, 10, 11]);
    }

    /// ARCHITECTURE.md, invariant 30.
    #[test]
    fn without_a_limit_nothing_is_kept() {
        let mut buffer = ReplayBuffer::new(0);
        push(&mut buffer, 1);
        assert_eq!(send(&mut buffer), [1]);
        assert_eq!((buffer.bytes, buffer.lines.len()), (0, 0));
        push(&mut buffer, 1);
        buffer.discard();
        push(&mut buffer, 1);
        assert_eq!(send(&mut buffer), [3], "a number is never used twice");
    }
}
