//! Peers that send too much or read too little lose their own streams, and no others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::io::Write as _;
use std::net::Shutdown;
use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use hub::config::Limits;
use support::{Peer, Received, hub_with_tokens};

/// Checks that a harness and its executor still exchange messages.
fn works(harness: &mut Peer, executor: &mut Peer) {
    harness.send("works", "question");
    executor.expect("works", "question");
    executor.send("works", "answer");
    harness.expect("works", "answer");
}

#[test]
fn an_oversized_frame_ends_its_connection() {
    let (hub, token, harness) = hub_with_tokens(Limits { frame_bytes: 64 << 10, ..Limits::default() });
    let mut executor = hub.executor("e", &token);
    let (mut large, mut other) = (hub.harness("e", &harness), hub.harness("e", &harness));
    large.send("a", vec![b'x'; 60 << 10]);
    executor.expect("a", vec![b'x'; 60 << 10]);
    large.send("a", vec![b'x'; 1 << 20]);
    assert_eq!(large.closed(), 1009);
    assert_eq!(executor.reset_next(), "a");
    works(&mut other, &mut executor);
    executor.send("works", vec![b'x'; 1 << 20]);
    assert_eq!((executor.closed(), other.closed()), (1009, 1012));
}

#[test]
fn a_frame_as_large_as_codex_accepts_is_forwarded() {
    let (hub, token, harness) = hub_with_tokens(Limits::default());
    let mut executor = hub.executor("e", &token);
    let mut harness = hub.harness("e", &harness);
    let large = Bytes::from(vec![b'x'; 16 << 20]);
    std::thread::scope(|scope| {
        scope.spawn(|| harness.send("a", large.clone()));
        executor.expect("a", large.clone());
    });
    std::thread::scope(|scope| {
        scope.spawn(|| executor.send("a", large.clone()));
        harness.expect("a", large.clone());
    });
}

/// ARCHITECTURE.md, invariant 62.
#[test]
fn a_flood_of_new_streams_stays_bounded() {
    let limits = Limits { streams_per_harness: 4, streams_per_executor: 6, ..Limits::default() };
    let (hub, token, harness) = hub_with_tokens(limits);
    let mut executor = hub.executor("e", &token);
    let (mut flood, mut other) = (hub.harness("e", &harness), hub.harness("e", &harness));
    works(&mut other, &mut executor);
    for number in 0..2_000 {
        flood.send(&format!("flood-{number}"), "x");
        match number < 4 {
            true => executor.expect(&format!("flood-{number}"), "x"),
            false => assert_eq!(flood.reset_next(), format!("flood-{number}")),
        }
    }
    works(&mut other, &mut executor);
    // A sixth stream fits; then the executor is at its limit.
    other.send("sixth", "x");
    executor.expect("sixth", "x");
    other.send("seventh", "x");
    assert_eq!(other.reset_next(), "seventh");
    flood.reset("flood-0");
    assert_eq!(executor.reset_next(), "flood-0");
    other.send("seventh", "x");
    executor.expect("seventh", "x");
}

/// ARCHITECTURE.md, invariant 62.
#[test]
fn a_harness_that_reads_nothing_is_disconnected_and_does_not_slow_others() {
    let (hub, token, harness) = hub_with_tokens(Limits { queued_bytes: 1 << 20, ..Limits::default() });
    let mut executor = hub.executor("e", &token);
    let (mut slow, mut quick) = (hub.harness("e", &harness), hub.harness("e", &harness));
    slow.send("slow", "x");
    executor.expect("slow", "x");
    quick.send("quick", "x");
    executor.expect("quick", "x");
    let piece = Bytes::from(vec![b'x'; 64 << 10]);
    // Far more than the queue and the kernel's buffers hold; the other harness receives everything.
    for number in 0..1_000 {
        executor.send("slow", piece.clone());
        executor.send("quick", format!("{number}"));
        quick.expect("quick", format!("{number}"));
    }
    assert_eq!(executor.reset_next(), "slow");
    works(&mut quick, &mut executor);
    // Its connection ends although it never reads and still sends.
    while slow.try_send("slow", "still sending").is_ok() {}
}

#[test]
fn a_slow_executor_receives_everything_in_order() {
    let limits = Limits { queued_bytes: 256 << 10, in_flight_bytes: 64 << 10, ..Limits::default() };
    let (hub, token, harness) = hub_with_tokens(limits);
    let mut executor = hub.executor("e", &token);
    let mut harnesses = [hub.harness("e", &harness), hub.harness("e", &harness)];
    let piece = |number: u32| [&number.to_be_bytes()[..], &[b'x'; 32 << 10]].concat();
    std::thread::scope(|scope| {
        for (which, harness) in harnesses.iter_mut().enumerate() {
            scope.spawn(move || {
                for number in 0..1_000 {
                    harness.send(&format!("{which}"), piece(number));
                }
            });
        }
        let mut next = [0, 0];
        while next != [1_000, 1_000] {
            let Received::Data(stream, payload) = executor.next() else { panic!("no data") };
            let which: usize = stream.parse().unwrap();
            assert_eq!(payload, piece(next[which]));
            next[which] += 1;
        }
    });
}

#[test]
fn a_silent_peer_is_disconnected() {
    // Long enough for the executor to read on a loaded machine.
    let (ping, silence) = (Duration::from_millis(500), Duration::from_secs(10));
    let (hub, token, harness) = hub_with_tokens(Limits { ping, silence, ..Limits::default() });
    let mut executor = hub.executor("e", &token);
    let mut silent = hub.harness("e", &harness);
    silent.send("a", "x");
    executor.expect("a", "x");
    // The executor answers pings while it reads; the harness does not read.
    assert_eq!(executor.reset_next(), "a");
}

/// The first bytes of a masked binary frame of 3 MiB, without its end.
fn partial_frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x82, 0x80 | 127];
    frame.extend((3_u64 << 20).to_be_bytes());
    frame.resize(14 + bytes, 0);
    frame
}

/// ARCHITECTURE.md, invariant 62.
#[test]
fn partial_frames_of_all_connections_stay_within_one_limit() {
    let (hub, token, harness) = hub_with_tokens(Limits { buffered_bytes: 4 << 20, ..Limits::default() });
    let mut executor = hub.executor("e", &token);
    let mut other = hub.harness("e", &harness);
    let partial: Vec<Peer> = (0..12).map(|_| hub.harness("e", &harness)).collect();
    let streams: Vec<_> = partial.iter().map(|peer| peer.stream().try_clone().unwrap()).collect();
    let frame = partial_frame(2 << 20);
    let (ended, ends) = channel();
    std::thread::scope(|scope| {
        for mut peer in partial {
            let (frame, ended) = (&frame, ended.clone());
            scope.spawn(move || {
                // Fails for a connection that is closed before all is sent.
                peer.stream().write_all(frame).ok();
                ended.send(peer.end()).ok();
            });
        }
        for _ in 0..20 {
            works(&mut other, &mut executor);
        }
        // Two frames of 2 MiB fit; the other connections are closed, or reset while they send.
        for _ in 0..10 {
            let end = ends.recv_timeout(Duration::from_secs(60)).expect("a connection that ends");
            assert!(matches!(end, None | Some(1013)), "{end:?}");
        }
        works(&mut other, &mut executor);
        for stream in streams {
            stream.shutdown(Shutdown::Both).ok();
        }
    });
}
