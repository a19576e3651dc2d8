//! Frames between one executor and many harnesses. The peers speak frames only: the hub knows no payloads.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use hub::config::Limits;
use hub::store::TokenKind;
use support::{Peer, Seen, hub_with_tokens};
use tungstenite::Message;

/// ARCHITECTURE.md, invariant 61.
#[test]
fn two_harnesses_share_an_executor_without_hearing_each_other() {
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
            let Seen::Data(stream, payload) = executor.next() else { panic!("no data") };
            executor.send(&stream, [b"echo ", &payload[..]].concat());
        }
        for (number, harness) in harnesses.iter_mut().enumerate() {
            for stream in 0..5 {
                harness.expect(&name(number, stream), format!("echo {number} {stream} {round}"));
            }
        }
    }
    // Frames for nobody, of nobody, and no frames at all disturb nobody.
    executor.send("nobody", "x");
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
fn a_stream_that_another_harness_has_is_refused_and_one_that_was_reset_is_free() {
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
    // Either end may give it up.
    executor.reset("s");
    assert_eq!(holder.reset_next(), "s");
    intruder.send("s", "now mine");
    executor.expect("s", "now mine");
    intruder.reset("s");
    assert_eq!(executor.reset_next(), "s");
    executor.send("s", "to nobody");
    holder.send("s", "mine again");
    executor.expect("s", "mine again");
}

#[test]
fn when_a_harness_leaves_the_executor_hears_of_each_of_its_streams() {
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
fn a_newer_executor_replaces_the_old_one_and_harnesses_come_again() {
    let (hub, token, harness) = hub_with_tokens(Limits::default());
    let mut old = hub.executor("e", &token);
    let mut client = hub.harness("e", &harness);
    client.send("s", "x");
    old.expect("s", "x");
    old.send("s", "last words");
    // What an executor sent before it was replaced arrives.
    client.expect("s", "last words");
    let mut new = hub.executor("e", &token);
    assert_eq!((old.closed(), client.closed()), (4409, 1012));
    let mut client = hub.harness("e", &harness);
    // The end of the old connection comes late and changes nothing.
    drop(old);
    client.send("s", "again");
    new.expect("s", "again");
    new.send("s", "answer");
    client.expect("s", "answer");
    // Without any executor harnesses are disconnected; who comes while it is away waits for it.
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
fn harnesses_are_refused_with_a_code_that_says_why() {
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
fn a_harness_waits_only_so_long_for_an_executor_that_is_away() {
    let limits =
        Limits { executor_away: Duration::from_millis(20), harnesses_per_executor: 1, ..Limits::default() };
    let (hub, _, harness) = hub_with_tokens(limits);
    // Whoever has given up no longer counts.
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
fn the_end_of_the_hub_is_told_to_everybody() {
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
