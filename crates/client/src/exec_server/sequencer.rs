//! Puts the numbered events of one process in order, each once. No I/O.
//!
//! Events arrive as notifications, which may be reordered and stop when the connection is lost, and as pages of
//! `process/read`. A page has the numbers of all output that the server keeps, but not the numbers of exit and close: a
//! number below the page's next one that is not output is one of those two, or its output was dropped.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use wire::exec_server::v1::{ExecOutputStream, ReadResponse};

/// Bytes of events that wait for a missing number; further events are dropped and read again later.
const MAX_HELD_BYTES: usize = 8 * 1024 * 1024;
/// Bytes that every event counts beside its content.
const EVENT_OVERHEAD_BYTES: usize = 64;

/// A numbered event of a process.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SequencedEvent {
    Output {
        stream: ExecOutputStream,
        bytes: Bytes,
        /// Its position in all output, if the server sends it.
        offset: Option<u64>,
    },
    Exited {
        code: i32,
        sandbox_denied: Option<bool>,
    },
    Closed {
        /// The size of all output, if the server sends it.
        offset: Option<u64>,
    },
    /// All events below this number were dropped.
    Lost {
        until: u64,
    },
}

/// The received events of one process.
#[derive(Debug)]
pub(super) struct EventSequencer {
    next: u64,
    held: BTreeMap<u64, SequencedEvent>,
    held_bytes: usize,
    ready: VecDeque<(u64, SequencedEvent)>,
    has_exit: bool,
    /// The number after which a page is being read.
    reading: Option<u64>,
}

impl EventSequencer {
    /// A sequencer that expects the first event.
    pub(super) fn new() -> EventSequencer {
        EventSequencer {
            next: 1,
            held: BTreeMap::new(),
            held_bytes: 0,
            ready: VecDeque::new(),
            has_exit: false,
            reading: None,
        }
    }

    /// Adds an event with its number; duplicates are ignored.
    pub(super) fn add(&mut self, seq: u64, event: SequencedEvent) {
        let bytes = size(&event);
        let is_known = seq < self.next || self.held.contains_key(&seq);
        if is_known || (seq > self.next && self.held_bytes + bytes > MAX_HELD_BYTES) {
            return;
        }
        self.has_exit |= matches!(event, SequencedEvent::Exited { .. });
        self.held.insert(seq, event);
        self.held_bytes += bytes;
        while let Some(entry) = self.held.first_entry().filter(|entry| *entry.key() == self.next) {
            let (seq, event) = entry.remove_entry();
            self.held_bytes = self.held_bytes.saturating_sub(self::size(&event));
            self.next = match event {
                SequencedEvent::Lost { until } => until,
                _ => seq.saturating_add(1),
            };
            self.ready.push_back((seq, event));
        }
    }

    /// The next event in order.
    pub(super) fn next(&mut self) -> Option<(u64, SequencedEvent)> {
        self.ready.pop_front()
    }

    /// After which number to read, if events are missing and no read is in progress.
    pub(super) fn begin_reading(&mut self) -> Option<u64> {
        match self.reading.is_none() && !self.held.is_empty() {
            true => Some(self.read_after(self.next - 1)),
            false => None,
        }
    }

    /// After which number to read on a new connection.
    pub(super) fn restart_reading(&mut self) -> u64 {
        self.read_after(self.next - 1)
    }

    fn read_after(&mut self, after: u64) -> u64 {
        self.reading = Some(after);
        after
    }

    /// Adds a page; returns after which number to read the next one, if it is needed.
    pub(super) fn add_page(&mut self, read: ReadResponse) -> Option<u64> {
        let after = self.reading.take()?;
        let Some(last) = read.chunks.last().map(|chunk| chunk.seq) else {
            self.resolve(&read);
            return None;
        };
        for chunk in read.chunks {
            let (stream, bytes) = (chunk.stream, chunk.chunk.into_inner());
            self.add(chunk.seq, SequencedEvent::Output { stream, bytes, offset: chunk.output_offset });
        }
        // The later events have arrived or will arrive as notifications.
        let has_caught_up = self.next > last.saturating_add(1) && self.held.is_empty();
        // If a page does not advance, no further page is requested.
        (!has_caught_up && last > after).then(|| self.read_after(last))
    }

    /// Handles an empty page: the missing numbers below its next one are exit and close, or dropped output.
    fn resolve(&mut self, read: &ReadResponse) {
        let last = read.next_seq.saturating_sub(1);
        if read.closed && last >= self.next && !self.held.contains_key(&last) {
            self.add(last, SequencedEvent::Closed { offset: read.output_offset });
        }
        let mut missing = self.missing_below(read.next_seq);
        if read.exited
            && !self.has_exit
            && let Some((start, end)) = missing.pop()
        {
            let (code, sandbox_denied) = (read.exit_code.unwrap_or(-1), read.sandbox_denied);
            if end - start > 1 {
                missing.push((start, end - 1));
            }
            self.add_losses(missing);
            return self.add(end - 1, SequencedEvent::Exited { code, sandbox_denied });
        }
        self.add_losses(missing);
    }

    fn add_losses(&mut self, missing: Vec<(u64, u64)>) {
        for (start, until) in missing {
            self.add(start, SequencedEvent::Lost { until });
        }
    }

    /// The missing numbers below `end`, as ranges.
    fn missing_below(&self, end: u64) -> Vec<(u64, u64)> {
        let mut missing = Vec::new();
        let mut at = self.next;
        for seq in self.held.range(..end.max(self.next)).map(|(seq, _)| *seq).chain([end]) {
            if seq > at {
                missing.push((at, seq));
            }
            at = at.max(seq.saturating_add(1));
        }
        missing
    }
}

fn size(event: &SequencedEvent) -> usize {
    match event {
        SequencedEvent::Output { bytes, .. } => bytes.len() + EVENT_OVERHEAD_BYTES,
        _ => EVENT_OVERHEAD_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use wire::exec_server::v1::ProcessOutputChunk;

    use super::*;

    fn output(text: &'static str) -> SequencedEvent {
        let bytes = Bytes::from_static(text.as_bytes());
        SequencedEvent::Output { stream: ExecOutputStream::Stdout, bytes, offset: None }
    }

    fn drain(sequencer: &mut EventSequencer) -> Vec<String> {
        std::iter::from_fn(|| sequencer.next())
            .map(|(seq, event)| match event {
                SequencedEvent::Output { bytes, .. } => format!("{seq} {}", String::from_utf8_lossy(&bytes)),
                SequencedEvent::Exited { code, .. } => format!("{seq} exited {code}"),
                SequencedEvent::Closed { .. } => format!("{seq} closed"),
                SequencedEvent::Lost { until } => format!("{seq} lost until {until}"),
            })
            .collect()
    }

    fn page(seqs: &[u64], next_seq: u64, end: Option<i32>) -> ReadResponse {
        let chunk = |seq: &u64| ProcessOutputChunk {
            seq: *seq,
            stream: ExecOutputStream::Stdout,
            chunk: vec![b'a'].into(),
            output_offset: None,
        };
        let chunks = seqs.iter().map(chunk).collect();
        ReadResponse {
            chunks,
            next_seq,
            exited: end.is_some(),
            exit_code: end,
            closed: end.is_some(),
            ..ReadResponse::default()
        }
    }

    #[test]
    fn reordered_events_are_sorted_and_duplicates_are_dropped() {
        let mut sequencer = EventSequencer::new();
        sequencer.add(2, SequencedEvent::Exited { code: 3, sandbox_denied: None });
        assert_eq!(sequencer.begin_reading(), Some(0), "event 1 is missing");
        assert_eq!(sequencer.begin_reading(), None, "one read at a time");
        sequencer.add(1, output("a"));
        sequencer.add(1, output("a"));
        sequencer.add(2, output("again"));
        sequencer.add(3, SequencedEvent::Closed { offset: None });
        assert_eq!(drain(&mut sequencer), ["1 a", "2 exited 3", "3 closed"]);
    }

    #[test]
    fn a_missed_exit_is_found_by_the_numbers_that_are_not_output() {
        let mut sequencer = EventSequencer::new();
        sequencer.add(1, output("a"));
        assert_eq!(sequencer.restart_reading(), 1);
        // 2 is output, 3 the exit, 4 output of a grandchild, 5 the close.
        assert_eq!(sequencer.add_page(page(&[2, 4], 5, Some(0))), Some(4));
        assert_eq!(sequencer.add_page(page(&[], 6, Some(0))), None);
        assert_eq!(drain(&mut sequencer), ["1 a", "2 a", "3 exited 0", "4 a", "5 closed"]);
    }

    #[test]
    fn dropped_output_is_reported() {
        let mut sequencer = EventSequencer::new();
        sequencer.add(1, output("a"));
        sequencer.restart_reading();
        assert_eq!(sequencer.add_page(page(&[5, 6], 7, None)), Some(6));
        sequencer.add(7, output("b"));
        assert_eq!(sequencer.add_page(page(&[], 8, None)), None);
        assert_eq!(drain(&mut sequencer), ["1 a", "2 lost until 5", "5 a", "6 a", "7 b"]);
        sequencer.restart_reading();
        assert_eq!(sequencer.add_page(page(&[], u64::MAX, Some(1))), None);
        let last = format!("{} closed", u64::MAX - 1);
        assert_eq!(
            drain(&mut sequencer),
            [format!("8 lost until {}", u64::MAX - 2), format!("{} exited 1", u64::MAX - 2), last]
        );
    }

    #[test]
    fn reading_stops_where_notifications_continue() {
        let mut sequencer = EventSequencer::new();
        sequencer.add(4, output("live"));
        assert_eq!(sequencer.begin_reading(), Some(0));
        assert_eq!(sequencer.add_page(page(&[1, 2], 3, None)), Some(2));
        assert_eq!(sequencer.add_page(page(&[3], 4, None)), None);
        assert_eq!(drain(&mut sequencer), ["1 a", "2 a", "3 a", "4 live"]);
        assert_eq!(sequencer.begin_reading(), None);
    }

    #[test]
    fn a_server_whose_pages_do_not_advance_is_not_asked_again() {
        let mut sequencer = EventSequencer::new();
        sequencer.add(9, output("live"));
        assert_eq!(sequencer.begin_reading(), Some(0));
        assert_eq!(sequencer.add_page(page(&[2], 3, None)), Some(2));
        assert_eq!(sequencer.add_page(page(&[2], 3, None)), None);
        assert_eq!(drain(&mut sequencer), Vec::<String>::new());
    }
}
