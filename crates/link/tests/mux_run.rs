//! A hundred concurrent streams over one link: they are independent of each other.
#![expect(clippy::expect_used, reason = "a failed test panics")]

use std::time::Duration;

use bytes::Bytes;
use link::mux::{self, Acceptor, Limits};
use link::task::Tasks;
use link::websocket::{self, Role, Settings};
use link::{Incoming, Link};
use tokio::time::timeout;
use wire::exec_server::relay::{Body, RelayFrame};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn message(text: impl Into<String>) -> Incoming {
    Incoming::Message(Bytes::from(text.into()))
}

async fn next(link: &mut Link) -> Option<Incoming> {
    timeout(PATIENCE, link.incoming.recv()).await.expect("in time")
}

/// Answers every message with itself, marked with the stream it came on.
async fn echo(id: String, mut link: Link) {
    while let Some(Incoming::Message(message)) = link.incoming.recv().await {
        let answer = [id.as_bytes(), b":", &message].concat();
        if link.outgoing.event(answer.into()).await.is_err() {
            break;
        }
    }
}

fn serve(mut acceptor: Acceptor) {
    tokio::spawn(async move {
        while let Some((id, link)) = acceptor.accept().await {
            tokio::spawn(echo(id, link));
        }
    });
}

/// A WebSocket of binary messages in memory, its two ends as links.
fn sockets() -> (Link, Link) {
    let (left, right) = tokio::io::duplex(64 * 1024);
    let limits = link::Limits { line_bytes: 1024 * 1024, event_slots: 32, ..link::Limits::default() };
    let open = |stream, role| websocket::binary(stream, Bytes::new(), role, &Settings::relay(), &limits).0;
    (open(left, Role::Server), open(right, Role::Client))
}

/// What a rendezvous does: frames of many harnesses over the one link of the executor.
fn rendezvous(to_executor: Link, harnesses: Vec<(String, Link)>) {
    let Link { mut incoming, outgoing, .. } = to_executor;
    let mut back = std::collections::HashMap::new();
    for (id, link) in harnesses {
        let Link { mut incoming, outgoing: to_harness, .. } = link;
        back.insert(id, to_harness);
        let outgoing = outgoing.clone();
        tokio::spawn(async move {
            while let Some(Incoming::Message(frame)) = incoming.recv().await {
                if outgoing.event(frame).await.is_err() {
                    break;
                }
            }
        });
    }
    tokio::spawn(async move {
        while let Some(Incoming::Message(frame)) = incoming.recv().await {
            let id = wire::exec_server::relay::stream_id_of(&frame).expect("a stream").to_owned();
            if let Some(to_harness) = back.get(&id) {
                // A harness that has left takes nothing more.
                to_harness.event(frame).await.ok();
            }
        }
    });
}

/// So many streams through one rendezvous; whoever serves gets the acceptor.
fn streams(count: usize) -> (Acceptor, Vec<(String, Link)>) {
    let (at_executor, to_executor) = sockets();
    let acceptor = mux::executor(at_executor, Limits::default(), &Tasks::new());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for number in 0..count {
        let id = format!("stream-{number}");
        let (at_harness, to_harness) = sockets();
        ours.push((id.clone(), mux::harness(at_harness, &id, Limits::default())));
        theirs.push((id, to_harness));
    }
    rendezvous(to_executor, theirs);
    (acceptor, ours)
}

/// ARCHITECTURE.md, invariant 61.
#[tokio::test]
async fn a_hundred_streams_share_one_socket_and_a_reset_of_one_leaves_the_others_untouched() {
    let (acceptor, mut streams) = streams(100);
    serve(acceptor);
    for round in 0..3 {
        for (_, link) in &streams {
            link.outgoing.event(format!("round {round}").into()).await.unwrap();
        }
        for (id, link) in &mut streams {
            assert_eq!(next(link).await, Some(message(format!("{id}:round {round}"))));
        }
    }
    let (_, gone) = streams.remove(41);
    drop(gone);
    for (id, link) in &mut streams {
        link.outgoing.event("still here".into()).await.unwrap();
        assert_eq!(next(link).await, Some(message(format!("{id}:still here"))));
    }
}

#[tokio::test]
async fn messages_of_any_length_pass_whole_in_both_directions() {
    let (acceptor, mut streams) = streams(1);
    serve(acceptor);
    let (id, link) = &mut streams[0];
    for length in [1, 70_000, 5_000_000, 17] {
        let text = "x".repeat(length);
        link.outgoing.event(text.clone().into()).await.unwrap();
        assert_eq!(next(link).await, Some(message(format!("{id}:{text}"))));
    }
}

/// ARCHITECTURE.md, invariant 61.
#[tokio::test]
async fn an_unread_stream_does_not_slow_the_others() {
    let (mut acceptor, mut streams) = streams(3);
    let mut served = Vec::new();
    for (_, link) in &streams {
        link.outgoing.event("hello".into()).await.unwrap();
    }
    for _ in 0..3 {
        let (id, mut link) = timeout(PATIENCE, acceptor.accept()).await.unwrap().unwrap();
        assert_eq!(next(&mut link).await, Some(message("hello")));
        served.push((id, link));
    }
    served.sort_by(|left, right| left.0.cmp(&right.0));
    let (_, stuck) = served.remove(0);
    let chunk = Bytes::from(vec![b'x'; 100_000]);
    // The first harness reads nothing, so its executor's end fills up and waits, with a bound.
    let filling = tokio::spawn(async move { while stuck.outgoing.event(chunk.clone()).await.is_ok() {} });
    for round in 0..200 {
        for ((_, executor), (_, harness)) in served.iter().zip(&mut streams[1..]) {
            let text = format!("{round} {}", "y".repeat(50_000));
            executor.outgoing.event(text.clone().into()).await.unwrap();
            assert_eq!(next(harness).await, Some(message(text)));
        }
    }
    assert!(!filling.is_finished(), "it waits");
    streams.remove(0);
    timeout(PATIENCE, filling).await.unwrap().unwrap();
}

#[tokio::test]
async fn dropping_a_link_resets_its_stream_after_the_sent_messages() {
    let (acceptor, mut streams) = streams(1);
    let mut acceptor = acceptor;
    let (_, mut harness) = streams.remove(0);
    harness.outgoing.event("one".into()).await.unwrap();
    let (_, mut executor) = timeout(PATIENCE, acceptor.accept()).await.unwrap().unwrap();
    assert_eq!(next(&mut executor).await, Some(message("one")));
    let last = "last words".repeat(100_000);
    executor.outgoing.event(last.clone().into()).await.unwrap();
    drop(executor);
    assert_eq!(next(&mut harness).await, Some(message(last)));
    assert_eq!(next(&mut harness).await, None);
    timeout(PATIENCE, harness.outgoing.closed()).await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_socket_is_the_end_of_every_stream() {
    let (at_executor, to_executor) = link::memory::pair(&link::Limits::default());
    let mut acceptor = mux::executor(at_executor, Limits::default(), &Tasks::new());
    for id in ["a", "b"] {
        let frame = RelayFrame::new(id, Body::Resume { next_seq: 0 }).encode();
        to_executor.outgoing.event(frame).await.unwrap();
    }
    let (_, mut first) = acceptor.accept().await.unwrap();
    let (_, mut second) = acceptor.accept().await.unwrap();
    drop(to_executor);
    assert_eq!(next(&mut first).await, None);
    assert_eq!(next(&mut second).await, None);
    assert!(timeout(PATIENCE, acceptor.accept()).await.unwrap().is_none());
    timeout(PATIENCE, first.outgoing.closed()).await.unwrap();
}

#[tokio::test]
async fn an_invalid_frame_changes_nothing() {
    let (at_executor, to_executor) = link::memory::pair(&link::Limits::default());
    serve(mux::executor(at_executor, Limits::default(), &Tasks::new()));
    for bytes in [&b"{}"[..], b"\x08\x02\x12\x01s\x4a\x00", b"\x08\x01\x12\x01s", b"\xff\xff"] {
        to_executor.outgoing.event(Bytes::from_static(bytes)).await.unwrap();
    }
    let mut stream = mux::harness(to_executor, "s", Limits::default());
    stream.outgoing.event("hi".into()).await.unwrap();
    assert_eq!(next(&mut stream).await, Some(message("s:hi")));
}

#[tokio::test]
async fn a_message_that_a_released_peer_cannot_take_ends_its_own_stream_and_no_other() {
    let (at_executor, mut peer) = link::memory::pair(&link::Limits::default());
    let limits = Limits { plain_message_bytes: 1_000, ..Limits::default() };
    let mut acceptor = mux::executor(at_executor, limits, &Tasks::new());
    let mut links = Vec::new();
    for id in ["long", "short"] {
        let frame = RelayFrame::new(id, Body::Resume { next_seq: 0 }).encode();
        peer.outgoing.event(frame).await.unwrap();
        links.push(timeout(PATIENCE, acceptor.accept()).await.unwrap().unwrap().1);
    }
    assert_eq!(links[0].outgoing.largest(), 1_000);
    links[0].outgoing.respond(vec![b'x'; 1_001].into()).await.unwrap();
    timeout(PATIENCE, links[0].outgoing.closed()).await.unwrap();
    links[1].outgoing.respond("still here".into()).await.unwrap();
    let (mut is_reset, mut is_served) = (false, false);
    while !(is_reset && is_served) {
        let Some(Incoming::Message(frame)) = next(&mut peer).await else { panic!("the socket has ended") };
        let RelayFrame { stream_id, body, .. } = RelayFrame::decode(frame).unwrap();
        match (stream_id.as_str(), body) {
            ("long", Body::Reset { .. }) => is_reset = true,
            ("short", Body::Data(data)) => is_served = data.payload == "still here",
            ("long", Body::Data(_)) | ("short", Body::Reset { .. }) => panic!("the wrong way round"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn dropping_the_acceptor_resets_the_streams_and_its_task_can_be_awaited() {
    let (at_executor, mut peer) = link::memory::pair(&link::Limits::default());
    let tasks = Tasks::new();
    let mut acceptor = mux::executor(at_executor, Limits::default(), &tasks);
    let frame = RelayFrame::new("s", Body::Resume { next_seq: 0 }).encode();
    peer.outgoing.event(frame).await.unwrap();
    let (_, stream) = timeout(PATIENCE, acceptor.accept()).await.unwrap().unwrap();
    drop(acceptor);
    let mut is_reset = false;
    while let Some(Incoming::Message(frame)) = next(&mut peer).await {
        is_reset |= matches!(RelayFrame::decode(frame).unwrap().body, Body::Reset { .. });
    }
    assert!(is_reset);
    timeout(PATIENCE, stream.outgoing.closed()).await.unwrap();
    tasks.close();
    timeout(PATIENCE, tasks.wait()).await.unwrap();
}

#[tokio::test]
async fn the_writing_of_a_stream_ends_after_the_last_frame_is_written() {
    let (at_harness, mut peer) = link::memory::pair(&link::Limits::default());
    let stream = mux::harness(at_harness, "s", Limits::default());
    let Link { incoming, outgoing, writing } = stream;
    let reset = RelayFrame::new("s", Body::Reset { reason: "done".to_owned() }).encode();
    peer.outgoing.event(reset).await.unwrap();
    timeout(PATIENCE, outgoing.closed()).await.unwrap();
    drop(outgoing);
    let drained = async { while peer.incoming.recv().await.is_some() {} };
    let (ended, ()) = timeout(PATIENCE, async { tokio::join!(writing.finished(), drained) }).await.unwrap();
    ended.unwrap_err();
    drop(incoming);
}
