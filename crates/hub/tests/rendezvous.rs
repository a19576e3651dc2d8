//! Frames between one executor and several harnesses. The payloads are arbitrary: the hub does not read them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use hub::config::Limits;
use hub::store::TokenKind;
use support::{Peer, Received, hub_with_tokens};
use testkit::daemon::PATIENCE;
use tungstenite::Message;

/// ARCHITECTURE.md, invariant 61.
#[test]
fn two_harnesses_share_an_executor_and_receive_only_their_own_frames() {
    let (hub, executor, harness) = hub_with_tokens(Limits::default());
    let mut executor = hub.executor("e", &executor);
    let mut harnesses = [hub.harness("e", &harness), hub.harness("e", &harness)];
    let name = |harness: usize, stream: usize| format!("stream-{harness}-{stream}");
    for round in 0..20 {
        for (number, harness) in harnesses.iter_mut().enumerate() {
            for stream in 0..5 {
                harness.send(&name(number, stream), format!("{number} {stream} {round}"));
            }
        }
        for _ in 0..10 {
            let Received::Data(stream, payload) = executor.next() else { panic!("no data") };
            executor.send(&stream, [b"echo ", &payload[..]].concat());
        }
        for (number, harness) in harnesses.iter_mut().enumerate() {
            for stream in 0..5 {
                harness.expect(&name(number, stream), format!("echo {number} {stream} {round}"));
            }
        }
    }
    // Frames of unknown streams and invalid messages are ignored.
    executor.send("unknown", "x");
    executor.send_raw(Message::text("text")).unwrap();
    executor.send_raw(Message::binary(&b"\xff\xff garbage"[..])).unwrap();
    harnesses[0].send_raw(Message::text("text")).unwrap();
    harnesses[0].send_raw(Message::binary(&b""[..])).unwrap();
    harnesses[0].send(&name(0, 0), "still");
    executor.expect(&name(0, 0), "still");
    executor.send(&name(1, 4), "there");
    harnesses[1].expect(&name(1, 4), "there");
}

/// ARCHITECTURE.md, invariant 62.
#[test]
fn the_stream_of_another_harness_is_rejected_and_a_reset_stream_is_free() {
    let (hub, executor, harness) = hub_with_tokens(Limits::default());
    let mut executor = hub.executor("e", &executor);
    let (mut holder, mut intruder) = (hub.harness("e", &harness), hub.harness("e", &harness));
    holder.send("s", "mine");
    executor.expect("s", "mine");
    intruder.send("s", "mine too");
    assert_eq!(intruder.reset_next(), "s");
    holder.send("s", "still mine");
    executor.expect("s", "still mine");
    executor.send("s", "answer");
    holder.expect("s", "answer");
    // Either end may reset it.
    executor.reset("s");
    assert_eq!(holder.reset_next(), "s");
    intruder.send("s", "now mine");
    executor.expect("s", "now mine");
    intruder.reset("s");
    assert_eq!(executor.reset_next(), "s");
    executor.send("s", "to no harness");
    holder.send("s", "mine again");
    executor.expect("s", "mine again");
}

#[test]
fn when_a_harness_disconnects_each_of_its_streams_is_reset() {
    let (hub, executor, harness) = hub_with_tokens(Limits::default());
    let mut executor = hub.executor("e", &executor);
    let (mut one, mut other) = (hub.harness("e", &harness), hub.harness("e", &harness));
    for stream in ["a", "b", "c"] {
        one.send(stream, "x");
        executor.expect(stream, "x");
    }
    other.send("d", "x");
    executor.expect("d", "x");
    drop(one);
    let reset: BTreeSet<String> = (0..3).map(|_| executor.reset_next()).collect();
    assert_eq!(reset, ["a", "b", "c"].map(str::to_owned).into());
    executor.send("d", "still here");
    other.expect("d", "still here");
}

#[test]
fn a_newer_executor_replaces_the_old_one_and_harnesses_reconnect() {
    let (hub, token, harness) = hub_with_tokens(Limits { executor_away: PATIENCE, ..Limits::default() });
    let mut old = hub.executor("e", &token);
    let mut client = hub.harness("e", &harness);
    client.send("s", "x");
    old.expect("s", "x");
    old.send("s", "last words");
    // Frames that an executor sent before its replacement arrive.
    client.expect("s", "last words");
    let mut new = hub.executor("e", &token);
    assert_eq!((old.closed(), client.closed()), (4409, 1012));
    let mut client = hub.harness("e", &harness);
    // The late end of the old connection changes nothing.
    drop(old);
    client.send("s", "again");
    new.expect("s", "again");
    new.send("s", "answer");
    client.expect("s", "answer");
    // Without an executor, harnesses are disconnected; new ones wait for the next executor.
    drop(new);
    assert_eq!(client.closed(), 1012);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| hub.harness("e", &harness));
        let mut newest = hub.executor("e", &token);
        let mut client = waiting.join().unwrap();
        client.send("s", "a third time");
        newest.expect("s", "a third time");
    });
}

#[test]
fn rejected_harnesses_have_an_error_code() {
    let (hub, executor, harness) = hub_with_tokens(Limits { harnesses_per_executor: 1, ..Limits::default() });
    let _executor = hub.executor("e", &executor);
    let refused = |token: &str| hub.try_harness("e", token).map(drop);
    assert_eq!(refused("wrong"), Err((401, "unknown_token".into())));
    assert_eq!(refused(&executor), Err((403, "wrong_kind".into())));
    let url = format!("ws://{}/cloud/executor/e/rendezvous?role=harness", hub.address);
    assert_eq!(Peer::dial(hub.address, &url, &[]).map(drop), Err((401, "no_token".into())));
    let bearer = format!("Bearer {harness}");
    let _only = Peer::dial(hub.address, &url, &[("authorization", &bearer)]).unwrap();
    assert_eq!(refused(&harness), Err((503, "too_many_harnesses".into())));
}

#[test]
fn a_harness_waits_a_limited_time_for_an_executor() {
    let limits =
        Limits { executor_away: Duration::from_millis(20), harnesses_per_executor: 1, ..Limits::default() };
    let (hub, _, harness) = hub_with_tokens(limits);
    // Harnesses that stopped waiting do not count.
    for _ in 0..3 {
        assert_eq!(hub.try_harness("e", &harness).map(drop), Err((503, "executor_away".into())));
    }
}

/// ARCHITECTURE.md, invariant 62.
#[test]
fn removing_a_token_ends_its_connections_and_no_others() {
    let (hub, executor, harness) = hub_with_tokens(Limits::default());
    let other = hub.token("other", TokenKind::Harness);
    let mut executor = hub.executor("e", &executor);
    let (mut gone, mut stays) = (hub.harness("e", &harness), hub.harness("e", &other));
    gone.send("a", "x");
    executor.expect("a", "x");
    hub.remove_token("h");
    assert_eq!(gone.closed(), 1008);
    assert_eq!(executor.reset_next(), "a");
    assert_eq!(hub.try_harness("e", &harness).map(drop), Err((401, "unknown_token".into())));
    stays.send("b", "x");
    executor.expect("b", "x");
    hub.remove_token("e");
    assert_eq!((executor.closed(), stays.closed()), (1008, 1012));
}

#[test]
fn all_connections_are_closed_with_a_reason_when_the_hub_stops() {
    let (mut hub, executor, harness) = hub_with_tokens(Limits::default());
    let mut executor = hub.executor("e", &executor);
    let mut harness = hub.harness("e", &harness);
    std::thread::scope(|scope| {
        let ends = scope.spawn(|| hub.stop());
        let codes = (executor.closed(), harness.closed());
        drop((executor, harness));
        assert!(matches!(codes, (1001, 1001 | 1012)), "{codes:?}");
        ends.join().unwrap();
    });
}
