//! Between two ends of our own, each message arrives once and in order, or both ends see a reset, whatever happens to the
//! frames on their way.
#![no_main]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use link::Incoming;
use link::mux::{Limits, Role, Stream};
use wire::exec_server::relay::{Body, RelayFrame};

/// The time of the streams after which everything has arrived or was reset: longer than all timeouts together.
const LONG: Duration = Duration::from_secs(3_600);

fuzz_target!(|input: (Vec<u16>, Vec<u16>, Vec<u8>)| {
    let (mut first, mut second, fate) = input;
    first.truncate(20);
    second.truncate(20);
    let limits = Limits { segment_bytes: 100, window_bytes: 5_000, inbox_bytes: 1_000, ..Limits::default() };
    let mut now = Instant::now();
    let mut ends = [Role::Harness, Role::Executor].map(|role| Stream::starting_at("s", role, &limits, (now, 0)));
    let sent = [first, second].map(|sizes| {
        let message = |(number, size): (usize, u16)| {
            let mut bytes = vec![0; usize::from(size) % 3_000];
            bytes.extend_from_slice(&number.to_be_bytes());
            Bytes::from(bytes)
        };
        sizes.into_iter().enumerate().map(message).collect::<Vec<Bytes>>()
    });
    for (end, messages) in ends.iter_mut().zip(&sent) {
        messages.iter().for_each(|message| end.send(message.clone()));
    }
    let mut received = [Vec::new(), Vec::new()];
    let mut on_the_way: VecDeque<(usize, RelayFrame)> = VecDeque::new();
    let mut fate = fate.into_iter();
    let until = now + LONG;
    loop {
        for (index, end) in ends.iter_mut().enumerate() {
            while let Some(frame) = end.frame(now) {
                // Frames pass unchanged once the input is used up.
                match fate.next().unwrap_or(255) {
                    0..64 => {}
                    64..96 => on_the_way.extend([(1 - index, frame.clone()), (1 - index, frame)]),
                    96..128 => on_the_way.push_front((1 - index, frame)),
                    _ => on_the_way.push_back((1 - index, frame)),
                }
            }
            while let Some(message) = end.message(now) {
                let Incoming::Message(message) = message else { panic!("too long") };
                received[index].push(message);
            }
        }
        while let Some((to, frame)) = on_the_way.pop_front() {
            let was_over = ends[to].end().is_some();
            let is_reset = matches!(frame.body, Body::Reset { .. });
            ends[to].receive(frame, now);
            if was_over && !is_reset {
                // What `Streams` does: an end that is over tells it to a peer that still sends.
                let reset = RelayFrame::new("s", Body::Reset { reason: "over".to_owned() });
                ends[1 - to].receive(reset, now);
            }
        }
        let is_complete = received[0].len() == sent[1].len() && received[1].len() == sent[0].len();
        if is_complete || ends.iter().all(|end| end.end().is_some()) {
            break;
        }
        let due = ends.iter().filter_map(Stream::next_due).min();
        let Some(due) = due.filter(|due| *due < until) else { break };
        now = now.max(due);
    }
    for (received, sent) in [(&received[0], &sent[1]), (&received[1], &sent[0])] {
        assert!(received.len() <= sent.len() && received.iter().zip(sent).all(|(one, other)| one == other));
    }
    let is_complete = received[0].len() == sent[1].len() && received[1].len() == sent[0].len();
    assert!(is_complete || ends.iter().all(|end| end.end().is_some()), "neither complete nor reset");
});
