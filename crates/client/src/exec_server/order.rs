//! Order: the facts of one process, put into the order of their numbers, each once. No I/O.
//!
//! Facts come as notifications, which may overtake each other and stop at a cut, and as pages of `process/read`, which
//! know all output that is kept but only the fact of exit and close, not their numbers. What is below the next number to
//! be given out and no output is one of those two, or was not kept.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use wire::exec_server::v1::{ExecOutputStream, ReadResponse};

/// What may wait for a number that is missing; what comes past it is read again later.
const MOST_HELD: usize = 8 * 1024 * 1024;
/// What a fact weighs beside its bytes.
const ENVELOPE: usize = 64;

/// Something that happened to a process.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fact {
    Output {
        stream: ExecOutputStream,
        bytes: Bytes,
        /// Where in all output it lies, if the server says so.
        offset: Option<u64>,
    },
    Exited {
        code: i32,
        sandbox_denied: Option<bool>,
    },
    Closed {
        /// How much output there was, if the server says so.
        offset: Option<u64>,
    },
    /// Everything up to this number was not kept.
    Lost {
        until: u64,
    },
}

/// What is known of one process.
#[derive(Debug)]
pub(super) struct Order {
    next: u64,
    held: BTreeMap<u64, Fact>,
    held_bytes: usize,
    ready: VecDeque<(u64, Fact)>,
    knows_exit: bool,
    /// The number behind which a page is being read.
    reading: Option<u64>,
}

impl Order {
    /// Nothing was seen yet.
    pub(super) fn new() -> Order {
        Order {
            next: 1,
            held: BTreeMap::new(),
            held_bytes: 0,
            ready: VecDeque::new(),
            knows_exit: false,
            reading: None,
        }
    }

    /// A fact with its number.
    pub(super) fn take(&mut self, seq: u64, fact: Fact) {
        let weight = weight(&fact);
        let is_known = seq < self.next || self.held.contains_key(&seq);
        if is_known || (seq > self.next && self.held_bytes + weight > MOST_HELD) {
            return;
        }
        self.knows_exit |= matches!(fact, Fact::Exited { .. });
        self.held.insert(seq, fact);
        self.held_bytes += weight;
        while let Some(entry) = self.held.first_entry().filter(|entry| *entry.key() == self.next) {
            let (seq, fact) = entry.remove_entry();
            self.held_bytes = self.held_bytes.saturating_sub(self::weight(&fact));
            self.next = match fact {
                Fact::Lost { until } => until,
                _ => seq.saturating_add(1),
            };
            self.ready.push_back((seq, fact));
        }
    }

    /// The next fact in order.
    pub(super) fn next(&mut self) -> Option<(u64, Fact)> {
        self.ready.pop_front()
    }

    /// After which number to read, if something is missing and nobody reads it yet.
    pub(super) fn begin_reading(&mut self) -> Option<u64> {
        match self.reading.is_none() && !self.held.is_empty() {
            true => Some(self.read_on(self.next - 1)),
            false => None,
        }
    }

    /// After which number to read once the connection is another one.
    pub(super) fn read_anew(&mut self) -> u64 {
        self.read_on(self.next - 1)
    }

    fn read_on(&mut self, after: u64) -> u64 {
        self.reading = Some(after);
        after
    }

    /// A page that was asked for; after which number to read the next one, if there has to be one.
    pub(super) fn page(&mut self, read: ReadResponse) -> Option<u64> {
        let after = self.reading.take()?;
        let Some(last) = read.chunks.last().map(|chunk| chunk.seq) else {
            self.resolve(&read);
            return None;
        };
        for piece in read.chunks {
            let (stream, bytes) = (piece.stream, piece.chunk.into_inner());
            self.take(piece.seq, Fact::Output { stream, bytes, offset: piece.output_offset });
        }
        // Beyond the page there are facts that came by themselves: from here on they all do.
        let has_joined = self.next > last.saturating_add(1) && self.held.is_empty();
        // A server whose pages do not go forward would be asked for ever.
        (!has_joined && last > after).then(|| self.read_on(last))
    }

    /// There is no more output: what is missing below the next number to be given out is the end, or was not kept.
    fn resolve(&mut self, read: &ReadResponse) {
        let last = read.next_seq.saturating_sub(1);
        if read.closed && last >= self.next && !self.held.contains_key(&last) {
            self.take(last, Fact::Closed { offset: read.output_offset });
        }
        let mut missing = self.missing_below(read.next_seq);
        if read.exited
            && !self.knows_exit
            && let Some((start, end)) = missing.pop()
        {
            let (code, sandbox_denied) = (read.exit_code.unwrap_or(-1), read.sandbox_denied);
            if end - start > 1 {
                missing.push((start, end - 1));
            }
            self.lose(missing);
            return self.take(end - 1, Fact::Exited { code, sandbox_denied });
        }
        self.lose(missing);
    }

    fn lose(&mut self, missing: Vec<(u64, u64)>) {
        for (start, until) in missing {
            self.take(start, Fact::Lost { until });
        }
    }

    /// The numbers below `end` that nothing is known of, as ranges.
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

fn weight(fact: &Fact) -> usize {
    match fact {
        Fact::Output { bytes, .. } => bytes.len() + ENVELOPE,
        _ => ENVELOPE,
    }
}

#[cfg(test)]
mod tests {
    use wire::exec_server::v1::ProcessOutputChunk;

    use super::*;

    fn output(text: &'static str) -> Fact {
        let bytes = Bytes::from_static(text.as_bytes());
        Fact::Output { stream: ExecOutputStream::Stdout, bytes, offset: None }
    }

    fn told(order: &mut Order) -> Vec<String> {
        std::iter::from_fn(|| order.next())
            .map(|(seq, fact)| match fact {
                Fact::Output { bytes, .. } => format!("{seq} {}", String::from_utf8_lossy(&bytes)),
                Fact::Exited { code, .. } => format!("{seq} exited {code}"),
                Fact::Closed { .. } => format!("{seq} closed"),
                Fact::Lost { until } => format!("{seq} lost until {until}"),
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
    fn what_overtakes_is_put_back_and_what_is_repeated_is_told_once() {
        let mut order = Order::new();
        order.take(2, Fact::Exited { code: 3, sandbox_denied: None });
        assert_eq!(order.begin_reading(), Some(0), "one is missing");
        assert_eq!(order.begin_reading(), None, "and is read once");
        order.take(1, output("a"));
        order.take(1, output("a"));
        order.take(2, output("again"));
        order.take(3, Fact::Closed { offset: None });
        assert_eq!(told(&mut order), ["1 a", "2 exited 3", "3 closed"]);
    }

    #[test]
    fn an_end_that_was_missed_is_found_by_what_is_no_output() {
        let mut order = Order::new();
        order.take(1, output("a"));
        assert_eq!(order.read_anew(), 1);
        // 2 is output, 3 the exit, 4 output of a grandchild, 5 the close.
        assert_eq!(order.page(page(&[2, 4], 5, Some(0))), Some(4));
        assert_eq!(order.page(page(&[], 6, Some(0))), None);
        assert_eq!(told(&mut order), ["1 a", "2 a", "3 exited 0", "4 a", "5 closed"]);
    }

    #[test]
    fn what_was_not_kept_is_declared() {
        let mut order = Order::new();
        order.take(1, output("a"));
        order.read_anew();
        assert_eq!(order.page(page(&[5, 6], 7, None)), Some(6));
        order.take(7, output("b"));
        assert_eq!(order.page(page(&[], 8, None)), None);
        assert_eq!(told(&mut order), ["1 a", "2 lost until 5", "5 a", "6 a", "7 b"]);
        order.read_anew();
        assert_eq!(order.page(page(&[], u64::MAX, Some(1))), None);
        let last = format!("{} closed", u64::MAX - 1);
        assert_eq!(
            told(&mut order),
            [format!("8 lost until {}", u64::MAX - 2), format!("{} exited 1", u64::MAX - 2), last]
        );
    }

    #[test]
    fn reading_stops_where_facts_come_by_themselves() {
        let mut order = Order::new();
        order.take(4, output("live"));
        assert_eq!(order.begin_reading(), Some(0));
        assert_eq!(order.page(page(&[1, 2], 3, None)), Some(2));
        assert_eq!(order.page(page(&[3], 4, None)), None);
        assert_eq!(told(&mut order), ["1 a", "2 a", "3 a", "4 live"]);
        assert_eq!(order.begin_reading(), None);
    }

    #[test]
    fn a_server_whose_pages_go_nowhere_is_not_asked_for_ever() {
        let mut order = Order::new();
        order.take(9, output("live"));
        assert_eq!(order.begin_reading(), Some(0));
        assert_eq!(order.page(page(&[2], 3, None)), Some(2));
        assert_eq!(order.page(page(&[2], 3, None)), None);
        assert_eq!(told(&mut order), Vec::<String>::new());
    }
}
