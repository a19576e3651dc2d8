//! The numbered events of a session: those not sent yet, and those sent that a client may not have seen.

use std::collections::VecDeque;

use bytes::Bytes;

/// Events in their order. Numbers start at 1 and have no gaps; what had to be given up is counted, never skipped.
#[derive(Debug)]
pub(super) struct Kept {
    lines: VecDeque<Bytes>,
    /// The number of the first line that is held.
    first: u64,
    /// The number of the next line to send.
    unsent: u64,
    bytes: usize,
    /// Bytes held for somebody who may come back; past it the oldest goes. Nothing means nobody will.
    limit: usize,
}

/// A client named an event that has not happened yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotYet;

impl Kept {
    pub(super) fn new(limit: usize) -> Kept {
        Kept { lines: VecDeque::new(), first: 1, unsent: 1, bytes: 0, limit }
    }

    /// The number of the event that happens next.
    pub(super) fn next_id(&self) -> u64 {
        self.first + self.lines.len() as u64
    }

    /// The number of the last event that was sent.
    pub(super) fn last_sent(&self) -> u64 {
        self.unsent.max(1) - 1
    }

    /// Adds the event with the number `next_id`. Past the limit the oldest goes that was sent; what was not stays, and
    /// it is up to the caller to add only what can be sent, or to `give_up` some of it.
    pub(super) fn push(&mut self, line: Bytes) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.limit > 0 && self.bytes > self.limit && self.first < self.unsent {
            self.drop_oldest();
        }
    }

    /// Nobody hears: past the limit the oldest goes, sent or not.
    pub(super) fn give_up(&mut self) {
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

    /// The event that `unsent` gave was sent.
    pub(super) fn sent(&mut self) {
        self.unsent = self.unsent.max(self.first) + 1;
        if self.limit == 0 {
            while self.first < self.unsent {
                self.drop_oldest();
            }
        }
    }

    /// Whether an event of up to `longest` bytes may be taken for somebody who is away, so that nothing has to go
    /// for it. One always may, however small the limit is.
    pub(super) fn has_room(&self, longest: usize) -> bool {
        self.lines.is_empty() || self.bytes.saturating_add(longest) <= self.limit
    }

    /// Goes back to what follows `seen`, the last event that arrived; how many events are gone for good.
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

    /// Goes on with what was not sent yet; how many events before that are gone for good. What was sent is still kept:
    /// whoever goes on without a number has not said what arrived.
    pub(super) fn go_on(&mut self) -> u64 {
        let lost = self.first.saturating_sub(self.unsent);
        self.unsent = self.unsent.max(self.first);
        lost
    }

    /// Forgets everything that was not sent: nobody will hear it.
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

    fn push(kept: &mut Kept, count: u64) {
        for _ in 0..count {
            let number = kept.next_id();
            kept.push(line(number));
        }
    }

    fn send(kept: &mut Kept) -> Vec<u64> {
        let mut sent = Vec::new();
        while let Some((id, text)) = kept.unsent() {
            assert_eq!(text, line(id), "each event keeps its number");
            sent.push(id);
            kept.sent();
        }
        sent
    }

    /// ARCHITECTURE.md, invariant 30.
    #[test]
    fn what_was_sent_can_be_sent_again_from_where_the_client_stopped() {
        let mut kept = Kept::new(1_000);
        push(&mut kept, 5);
        assert_eq!(send(&mut kept), [1, 2, 3, 4, 5]);
        assert_eq!(kept.rewind(2), Ok(0));
        push(&mut kept, 1);
        assert_eq!(send(&mut kept), [3, 4, 5, 6]);
        assert_eq!(kept.rewind(6), Ok(0));
        assert_eq!(send(&mut kept), [0; 0]);
        assert_eq!(kept.rewind(7), Err(NotYet));
    }

    /// ARCHITECTURE.md, invariant 30.
    #[test]
    fn what_does_not_fit_is_counted_as_lost() {
        let mut kept = Kept::new(30);
        push(&mut kept, 10);
        assert_eq!(kept.unsent().map(|(id, _)| id), Some(1), "nothing goes while somebody hears");
        kept.give_up();
        assert_eq!(kept.rewind(4), Ok(3), "three lines of ten bytes fit: 5, 6 and 7 are gone");
        assert_eq!(send(&mut kept), [8, 9, 10]);
    }

    #[test]
    fn what_is_taken_while_there_is_room_pushes_nothing_out() {
        let mut kept = Kept::new(35);
        while kept.has_room(line(1).len()) {
            push(&mut kept, 1);
        }
        assert_eq!(kept.lines.len(), 3, "a fourth line of ten bytes would cost the first");
        assert_eq!(kept.rewind(0), Ok(0));
        assert_eq!(send(&mut kept), [1, 2, 3]);
        let small = Kept::new(5);
        assert!(small.has_room(10), "or a client with a small limit would never hear anything");
    }

    #[test]
    fn who_goes_on_without_a_number_can_still_ask_for_what_was_sent() {
        let mut kept = Kept::new(50);
        push(&mut kept, 3);
        assert_eq!(send(&mut kept), [1, 2, 3]);
        assert_eq!(kept.go_on(), 0);
        push(&mut kept, 1);
        assert_eq!(send(&mut kept), [4], "nothing twice");
        assert_eq!(kept.rewind(1), Ok(0), "nothing was forgotten");
        assert_eq!(send(&mut kept), [2, 3, 4]);
        push(&mut kept, 7);
        kept.give_up();
        assert_eq!((kept.last_sent(), kept.go_on()), (4, 2), "five fit: 5 and 6 are gone");
        assert_eq!(send(&mut kept), [7, 8, 9, 10, 11]);
    }

    /// ARCHITECTURE.md, invariant 30.
    #[test]
    fn nothing_is_kept_for_nobody() {
        let mut kept = Kept::new(0);
        push(&mut kept, 1);
        assert_eq!(send(&mut kept), [1]);
        assert_eq!((kept.bytes, kept.lines.len()), (0, 0));
        push(&mut kept, 1);
        kept.discard();
        push(&mut kept, 1);
        assert_eq!(send(&mut kept), [3], "a number is never used twice");
    }
}
