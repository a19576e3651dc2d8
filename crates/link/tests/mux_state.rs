//! Streams without I/O: whichever frames are lost, duplicated or reordered, each message arrives once and in order, or both
//! ends receive a reset; and memory is bounded whatever a peer sends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use link::Incoming;
use link::mux::{Event, Key, Limits, Peer, Role, Stream, Streams};
use proptest::prelude::*;
use wire::exec_server::relay::{Body, Data, RelayFrame};

/// What the way does to a frame.
#[derive(Debug, Clone, Copy)]
struct CarrierKind {
    lost: u32,
    doubled: u32,
    /// The longest delay in milliseconds; frames overtake each other by it.
    delay: u64,
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides.max(1)
    }

    fn percent(&mut self, chance: u32) -> bool {
        self.roll(100) < u64::from(chance)
    }
}

/// Two ends, and what is on its way between them.
struct World {
    ends: [Stream; 2],
    got: [Vec<Bytes>; 2],
    on_the_way: BTreeMap<(Instant, u64), (usize, RelayFrame)>,
    now: Instant,
    count: u64,
    way: CarrierKind,
    dice: Dice,
    /// Frames that are lost whatever the dice say, as (sender, seq), once.
    surely_lost: Vec<(usize, u32)>,
}

impl World {
    fn new(limits: &Limits, first: u32, way: CarrierKind, seed: u64) -> World {
        let now = Instant::now();
        World {
            ends: [Role::Harness, Role::Executor]
                .map(|role| Stream::starting_at("s", role, limits, (now, first))),
            got: [Vec::new(), Vec::new()],
            on_the_way: BTreeMap::new(),
            now,
            count: 0,
            way,
            dice: Dice(seed | 1),
            surely_lost: Vec::new(),
        }
    }

    /// Puts on the way whatever the ends have to send.
    fn send_all(&mut self) {
        for from in 0..2 {
            while let Some(frame) = self.ends[from].frame(self.now) {
                let seq = match &frame.body {
                    Body::Data(data) => Some((from, data.seq)),
                    _ => None,
                };
                if let Some(place) = self.surely_lost.iter().position(|lost| Some(*lost) == seq) {
                    self.surely_lost.remove(place);
                    continue;
                }
                let times = 1 + u32::from(self.dice.percent(self.way.doubled));
                for _ in 0..times {
                    if !self.dice.percent(self.way.lost) {
                        let at = self.now + Duration::from_millis(self.dice.roll(self.way.delay + 1));
                        self.count += 1;
                        self.on_the_way.insert((at, self.count), (1 - from, frame.clone()));
                    }
                }
            }
        }
    }

    fn take_all(&mut self) {
        for end in 0..2 {
            while let Some(message) = self.ends[end].message(self.now) {
                let Incoming::Message(message) = message else { panic!("too long") };
                self.got[end].push(message);
            }
        }
    }

    /// Goes on until nothing is missing, or both ends are over, or the deadline has come.
    fn run(&mut self, expected: [usize; 2], deadline: Duration) {
        let until = self.now + deadline;
        loop {
            self.take_all();
            self.send_all();
            let all_there = self.got[0].len() == expected[0] && self.got[1].len() == expected[1];
            let all_over = self.ends.iter().all(|end| end.end().is_some());
            let arrival = self.on_the_way.first_key_value().map(|((at, _), _)| *at);
            let due = self.ends.iter().filter_map(Stream::next_due).chain(arrival).min();
            let Some(due) = due.filter(|due| *due < until && !all_over && !all_there) else { return };
            self.now = self.now.max(due);
            while let Some(next) = self.on_the_way.first_entry().filter(|next| next.key().0 <= self.now) {
                let (to, frame) = next.remove();
                let was_over = self.ends[to].end().is_some();
                self.ends[to].receive(frame.clone(), self.now);
                // What `Streams` does: an end that is over says so to whoever still speaks.
                if was_over && !matches!(frame.body, Body::Reset { .. }) {
                    let reset = RelayFrame::new("s", Body::Reset { reason: "over".to_owned() });
                    if !self.dice.percent(self.way.lost) {
                        self.count += 1;
                        self.on_the_way.insert((self.now, self.count), (1 - to, reset));
                    }
                }
            }
        }
    }
}

fn small() -> Limits {
    Limits { segment_bytes: 100, window_bytes: 5_000, inbox_bytes: 1_000, ..Limits::default() }
}

fn messages(sizes: &[usize], mark: u8) -> Vec<Bytes> {
    let message = |(number, size): (usize, &usize)| {
        let mut bytes = vec![mark; 1 + *size];
        bytes.extend_from_slice(&number.to_be_bytes());
        Bytes::from(bytes)
    };
    sizes.iter().enumerate().map(message).collect()
}

/// An hour of the streams' own time.
const LONG: Duration = Duration::from_secs(3_600);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// ARCHITECTURE.md, invariant 60.
    #[test]
    fn every_message_arrives_once_and_in_order_or_both_ends_see_a_reset(
        sizes in prop::array::uniform2(prop::collection::vec(0_usize..3_000, 0..40)),
        lost in 0_u32..60, doubled in 0_u32..50, delay in 0_u64..700, seed in any::<u64>(),
        first in prop_oneof![Just(0_u32), Just(u32::MAX - 5), Just(u32::MAX)],
        surely_lost in prop::collection::vec((0_usize..2, 0_u32..3), 0..4),
    ) {
        let mut world = World::new(&small(), first, CarrierKind { lost, doubled, delay }, seed);
        world.surely_lost = surely_lost;
        let sent = [messages(&sizes[0], b'h'), messages(&sizes[1], b'e')];
        for (end, messages) in sent.iter().enumerate() {
            messages.iter().for_each(|message| world.ends[end].send(message.clone()));
        }
        world.run([sent[1].len(), sent[0].len()], LONG);
        for (got, sent) in [(&world.got[0], &sent[1]), (&world.got[1], &sent[0])] {
            prop_assert!(got.len() <= sent.len() && got.iter().zip(sent).all(|(got, sent)| got == sent));
        }
        let is_whole = world.got[0].len() == sent[1].len() && world.got[1].len() == sent[0].len();
        let seen = world.ends.iter().filter(|end| end.end().is_some()).count();
        prop_assert!(is_whole || seen == 2, "whole: {is_whole}, seen by {seen}: {:?}", world.ends);
        if lost == 0 && delay < 100 {
            prop_assert!(is_whole, "nothing but disorder is no reason for a reset: {:?}", world.ends);
        }
    }

    #[test]
    fn hostile_frames_never_panic_and_memory_stays_within_its_bound(
        frames in prop::collection::vec((0_u8..40, any::<[u32; 2]>(), hostile_bodies()), 1..300),
    ) {
        let limits = Limits {
            streams: 8, total_bytes: 40_000, message_bytes: 20_000, plain_inbox_bytes: 20_000, ..small()
        };
        let mut streams = Streams::new(Role::Executor, limits);
        let mut now = Instant::now();
        let mut opened = 0_usize;
        for (id, [ack, ack_bits], body) in frames {
            let frame = RelayFrame { stream_id: format!("stream-{id}"), ack, ack_bits, body };
            opened += usize::from(matches!(streams.receive(frame, now), Event::Opened(_)));
            prop_assert!(streams.keys().len() <= 8);
            prop_assert!(streams.held() <= 40_000, "{} bytes", streams.held());
            now += Duration::from_millis(50);
            let mut answers = 0;
            while streams.frame(now).is_some() {
                answers += 1;
                prop_assert!(answers < 100);
            }
        }
        prop_assert!(opened <= 8, "nobody took one out");
    }
}

fn hostile_bodies() -> impl Strategy<Value = Body> {
    let small = prop_oneof![0_u32..40, any::<u32>()];
    let numbers = (small.clone(), prop_oneof![Just(0_u32), any::<u32>()], prop_oneof![Just(1_u32), 0_u32..4]);
    prop_oneof![
        8 => (numbers, 0_usize..10_000).prop_map(|((seq, segment_index, segment_count), size)| {
            Body::Data(Data { seq, segment_index, segment_count, payload: vec![b'x'; size].into() })
        }),
        1 => Just(Body::Ack),
        1 => small.prop_map(|next_seq| Body::Resume { next_seq }),
        1 => Just(Body::Reset { reason: "because".to_owned() }),
        1 => Just(Body::Heartbeat),
    ]
}

const CLEAN: CarrierKind = CarrierKind { lost: 0, doubled: 0, delay: 5 };

/// ARCHITECTURE.md, invariant 60.
#[test]
fn a_lost_first_frame_is_sent_again_between_two_of_our_own() {
    let mut world = World::new(&small(), 0, CLEAN, 7);
    world.surely_lost = vec![(0, 0), (1, 0)];
    world.ends[0].send("hello".into());
    world.ends[1].send("welcome".into());
    world.run([1, 1], LONG);
    assert_eq!(world.got, [vec![Bytes::from("welcome")], vec![Bytes::from("hello")]]);
}

#[test]
fn long_messages_are_cut_only_once_the_peer_has_shown_that_it_takes_pieces() {
    let mut world = World::new(&small(), 0, CLEAN, 7);
    let long = Bytes::from(vec![b'x'; 1_000]);
    world.ends[0].send(long.clone());
    let first = world.ends[0].frame(world.now).map(|frame| frame.body);
    assert_eq!(first, Some(Body::Resume { next_seq: 0 }));
    assert_eq!(world.ends[0].frame(world.now).map(|frame| frame.body), Some(Body::Heartbeat));
    let Some(Body::Data(data)) = world.ends[0].frame(world.now).map(|frame| frame.body) else {
        panic!("no data")
    };
    assert_eq!((data.segment_count, data.payload.len()), (1, 1_000));
    world.ends[0].receive(RelayFrame::new("s", Body::Heartbeat), world.now);
    assert_eq!(world.ends[0].peer(), Peer::Reliable);
    world.ends[0].send(long);
    let Some(Body::Data(data)) = world.ends[0].frame(world.now).map(|frame| frame.body) else {
        panic!("no data")
    };
    assert_eq!((data.seq, data.segment_index, data.segment_count, data.payload.len()), (1, 0, 10, 100));
}

fn data(seq: u32, payload: &str) -> RelayFrame {
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    RelayFrame::new("s", Body::Data(Data { seq, segment_index: 0, segment_count: 1, payload }))
}

/// ARCHITECTURE.md, invariant 60.
#[test]
fn a_released_peer_is_served_without_retries_segments_or_reset() {
    let limits = Limits { segment_bytes: 10, ..Limits::default() };
    let mut now = Instant::now();
    let mut ours = Stream::new("s", Role::Executor, &limits, now);
    ours.receive(RelayFrame::new("s", Body::Resume { next_seq: 0 }), now);
    let mut sent = Vec::new();
    for seq in 0..500 {
        ours.receive(data(seq, "request"), now);
        assert_eq!(ours.message(now), Some(Incoming::Message("request".into())));
        ours.send("an answer that is longer than a segment".into());
        while let Some(frame) = ours.frame(now) {
            sent.push(frame);
        }
        now += Duration::from_secs(1);
    }
    now += LONG;
    assert_eq!(ours.frame(now).map(|frame| frame.body), Some(Body::Heartbeat), "which it ignores");
    assert_eq!(ours.frame(now), None);
    assert_eq!((ours.peer(), ours.end()), (Peer::Plain, None));
    let seqs = sent.iter().filter_map(|frame| match &frame.body {
        Body::Data(data) => Some((data.seq, data.segment_count)),
        _ => None,
    });
    assert!(seqs.eq((0..500).map(|seq| (seq, 1))), "each once, each whole");
    assert!(sent.len() < 510, "a few greetings and nothing else");
    assert_eq!(
        sent.last().map(|frame| (frame.ack, frame.ack_bits)),
        Some((499, 0)),
        "acks ride on every frame"
    );
}

/// ARCHITECTURE.md, invariant 60.
#[test]
fn an_acknowledgement_of_frame_zero_counts_only_when_it_is_explicit() {
    let limits = Limits::default();
    let mut now = Instant::now();
    let mut ours = Stream::new("s", Role::Harness, &limits, now);
    ours.send("first".into());
    while ours.frame(now).is_some() {}
    ours.receive(RelayFrame::new("s", Body::Heartbeat), now);
    ours.receive(data(0, "says nothing about what arrived"), now);
    now += Duration::from_secs(2);
    let mut retried = std::iter::from_fn(|| ours.frame(now)).collect::<Vec<_>>();
    retried.retain(|frame| matches!(&frame.body, Body::Data(data) if data.seq == 0));
    assert_eq!(retried.len(), 1, "it is not taken for acknowledged");
    ours.receive(RelayFrame::new("s", Body::Ack), now);
    now += Duration::from_secs(20);
    let again = std::iter::from_fn(|| ours.frame(now)).any(|frame| matches!(frame.body, Body::Data(_)));
    assert!(!again, "now it is");
}

#[test]
fn a_reader_that_takes_nothing_holds_back_its_own_peer_and_then_gets_everything() {
    let mut world = World::new(&small(), 0, CLEAN, 7);
    world.ends[0].send("greeting".into());
    world.ends[1].send("greeting".into());
    world.run([1, 1], LONG);
    let sent = messages(&[900; 200], b'h');
    sent.iter().for_each(|message| world.ends[0].send(message.clone()));
    // Ten minutes in which frames pass and nobody takes a message.
    let until = world.now + Duration::from_secs(600);
    while world.now < until {
        world.send_all();
        let due = world.ends.iter().filter_map(Stream::next_due).min();
        let arrival = world.on_the_way.first_key_value().map(|((at, _), _)| *at);
        world.now = due.into_iter().chain(arrival).min().map_or(until, |at| at.max(world.now));
        while let Some(next) = world.on_the_way.first_entry().filter(|next| next.key().0 <= world.now) {
            let (to, frame) = next.remove();
            world.ends[to].receive(frame, world.now);
        }
        assert!(world.ends[1].held() < 20_000, "{} bytes", world.ends[1].held());
    }
    assert!(world.ends.iter().all(|end| end.end().is_none()), "{:?}", world.ends);
    world.run([1, 201], LONG);
    assert_eq!(world.got[1][1..], sent);
}

#[test]
fn the_end_waits_for_sent_messages_and_reaches_both_ends() {
    let mut world = World::new(&small(), 0, CarrierKind { lost: 30, doubled: 20, delay: 300 }, 11);
    let sent = messages(&[500; 20], b'h');
    sent.iter().for_each(|message| world.ends[0].send(message.clone()));
    world.ends[0].receive(RelayFrame::new("s", Body::Heartbeat), world.now);
    world.ends[0].finish(world.now, "closed");
    world.run([usize::MAX, usize::MAX], LONG);
    world.take_all();
    assert_eq!(world.got[1], sent);
    let by = world.ends.each_ref().map(|end| end.end().map(|end| end.by_peer));
    assert_eq!(by, [Some(false), Some(true)]);
}

#[test]
fn a_stream_that_was_reset_is_not_opened_by_late_frames_but_by_a_released_peer_that_begins_again() {
    let now = Instant::now();
    let mut streams = Streams::new(Role::Executor, Limits::default());
    let reset = || RelayFrame::new("s", Body::Reset { reason: "done".to_owned() });
    let open = |streams: &mut Streams, frame: RelayFrame| match streams.receive(frame, now) {
        Event::Opened(key) => key,
        other => panic!("{other:?}"),
    };
    let end = |streams: &mut Streams, key: Key| {
        streams.receive(reset(), now);
        assert!(streams.get(key).is_some_and(|stream| stream.end().is_some()));
        streams.remove(key);
    };
    let plain = open(&mut streams, data(0, "one"));
    end(&mut streams, plain);
    assert_eq!(streams.receive(data(4, "late"), now), Event::Ignored);
    let ours = open(&mut streams, data(0, "begins again"));
    streams.receive(RelayFrame::new("s", Body::Heartbeat), now);
    end(&mut streams, ours);
    assert_eq!(streams.receive(data(0, "late"), now), Event::Ignored);
}

#[test]
fn one_stream_too_many_is_reset_and_those_that_are_there_go_on() {
    let now = Instant::now();
    let mut streams = Streams::new(Role::Executor, Limits { streams: 2, ..Limits::default() });
    let frame = |id: String, seq| RelayFrame { stream_id: id, ..data(seq, "x") };
    for id in 0..10_000 {
        streams.receive(frame(format!("stream-{id}"), 0), now);
    }
    assert_eq!(streams.keys().len(), 2);
    let answers = std::iter::from_fn(|| streams.frame(now)).collect::<Vec<_>>();
    let resets = answers.iter().filter(|frame| matches!(frame.body, Body::Reset { .. })).count();
    assert!((1..=256).contains(&resets), "{resets} resets: a flood is not answered with a flood");
    assert!(matches!(streams.receive(frame("stream-0".to_owned(), 1), now), Event::Updated(_)));
}
