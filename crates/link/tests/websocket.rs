//! A WebSocket as a link, with an independent implementation at the other end.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use link::websocket::{self, Close, Closer, Role, Settings};
use link::{Incoming, Limits, Link};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role as PeerRole;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame, FrameHeader};

type Peer = WebSocketStream<DuplexStream>;

fn settings() -> Settings {
    Settings { ping_every: Duration::from_secs(2), deadline: Duration::from_secs(5) }
}

fn limits(line_bytes: usize) -> Limits {
    Limits { line_bytes, ..Limits::default() }
}

async fn pair(line_bytes: usize) -> (Link, Closer, Peer) {
    let (ours, theirs) = duplex(64 * 1024);
    let (link, closer) = websocket::link(ours, Bytes::new(), Role::Server, &settings(), &limits(line_bytes));
    (link, closer, WebSocketStream::from_raw_socket(theirs, PeerRole::Client, None).await)
}

fn message(text: &str) -> Option<Incoming> {
    Some(Incoming::Message(Bytes::copy_from_slice(text.as_bytes())))
}

async fn text(peer: &mut Peer) -> String {
    peer.next().await.unwrap().unwrap().into_text().unwrap().to_string()
}

#[tokio::test]
async fn text_and_binary_frames_are_messages_and_blank_ones_are_nothing() {
    let (mut link, _closer, mut peer) = pair(100).await;
    for sent in [Message::text("one"), Message::text(" \n"), Message::binary("two"), Message::text("")] {
        peer.send(sent).await.unwrap();
    }
    peer.send(Message::text("three")).await.unwrap();
    for expected in ["one", "two", "three"] {
        assert_eq!(link.incoming.recv().await, message(expected));
    }
}

#[tokio::test]
async fn fragments_make_one_message_and_a_ping_between_them_is_answered() {
    let (mut link, _closer, mut peer) = pair(100).await;
    let part = |text: &'static str, kind, is_final| {
        Message::Frame(Frame::message(text, OpCode::Data(kind), is_final))
    };
    peer.send(part("he", Data::Text, false)).await.unwrap();
    peer.send(Message::Ping("are you there".into())).await.unwrap();
    peer.send(part("l", Data::Continue, false)).await.unwrap();
    peer.send(part("lo", Data::Continue, true)).await.unwrap();
    assert_eq!(link.incoming.recv().await, message("hello"));
    assert_eq!(peer.next().await.unwrap().unwrap(), Message::Pong("are you there".into()));
}

#[tokio::test]
async fn a_message_over_the_limit_is_reported_and_the_next_one_is_whole() {
    let (mut link, _closer, mut peer) = pair(5).await;
    let sending = tokio::spawn(async move {
        peer.send(Message::text("12345")).await.unwrap();
        peer.send(Message::text("123456")).await.unwrap();
        peer.send(Message::text("x".repeat(3_000_000))).await.unwrap();
        for (kind, is_final) in [(Data::Text, false), (Data::Continue, false), (Data::Continue, true)] {
            peer.send(Message::Frame(Frame::message("abc", OpCode::Data(kind), is_final))).await.unwrap();
        }
        peer.send(Message::text("ok")).await.unwrap();
        peer
    });
    assert_eq!(link.incoming.recv().await, message("12345"));
    for bytes in [6, 3_000_000, 9] {
        assert_eq!(link.incoming.recv().await, Some(Incoming::TooLong { bytes }));
    }
    assert_eq!(link.incoming.recv().await, message("ok"));
    sending.await.unwrap();
}

#[tokio::test]
async fn compressed_messages_are_unpacked_up_to_the_limit_and_no_further() {
    let (mut link, _closer, mut peer) = pair(100_000).await;
    let packed = |bytes: &[u8]| Message::binary(zstd::bulk::compress(bytes, 3).unwrap());
    peer.send(packed(b"{\"small\":1}")).await.unwrap();
    peer.send(packed(&vec![b'x'; 100_000])).await.unwrap();
    peer.send(packed(&vec![b'x'; 200_000_000])).await.unwrap();
    peer.send(Message::binary(vec![0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3])).await.unwrap();
    assert_eq!(link.incoming.recv().await, message("{\"small\":1}"));
    assert_eq!(link.incoming.recv().await, message(&"x".repeat(100_000)));
    assert!(matches!(link.incoming.recv().await, Some(Incoming::TooLong { .. })));
    // What cannot be unpacked is no JSON, and whoever parses it says so.
    assert!(matches!(link.incoming.recv().await, Some(Incoming::Message(_))));
}

/// ARCHITECTURE.md, invariant 33.
#[tokio::test]
async fn compression_applies_to_every_message_after_the_request() {
    let (link, _closer, mut peer) = pair(100).await;
    link.outgoing.respond("plain".into()).await.unwrap();
    link.outgoing.flush().await.unwrap();
    assert!(link.outgoing.compress());
    link.outgoing.respond("first".into()).await.unwrap();
    link.outgoing.event("second".into()).await.unwrap();
    assert_eq!(peer.next().await.unwrap().unwrap(), Message::text("plain"));
    for expected in ["first", "second"] {
        let Message::Binary(packed) = peer.next().await.unwrap().unwrap() else { panic!("not binary") };
        assert_eq!(zstd::bulk::decompress(&packed, 100).unwrap(), expected.as_bytes());
    }
    let lines = link::ndjson::link(tokio::io::empty(), tokio::io::sink(), &Limits::default());
    assert!(!lines.outgoing.compress(), "lines are never compressed");
}

#[tokio::test]
async fn responses_pass_events_and_marks_are_honoured() {
    let (ours, theirs) = duplex(64);
    let (link, _closer) = websocket::link(ours, Bytes::new(), Role::Server, &settings(), &Limits::default());
    let mut peer = WebSocketStream::from_raw_socket(theirs, PeerRole::Client, None).await;
    let outgoing = link.outgoing.clone();
    let events = tokio::spawn(async move {
        for _ in 0..20 {
            outgoing.event("e".repeat(100).into()).await.unwrap();
        }
    });
    tokio::task::yield_now().await;
    let outgoing = link.outgoing.clone();
    let answer = tokio::spawn(async move { outgoing.respond_written("answer".into()).await });
    let mut before = 0;
    while text(&mut peer).await != "answer" {
        before += 1;
    }
    assert!(before < 15, "{before} events came before the answer");
    // It is all taken before anybody is told so.
    let rest = tokio::spawn(async move { while peer.next().await.is_some_and(|next| next.is_ok()) {} });
    answer.await.unwrap().unwrap();
    events.await.unwrap();
    drop(link);
    rest.await.unwrap();
}

async fn close_of(peer: &mut Peer) -> (u16, String) {
    loop {
        if let Message::Close(Some(close)) = peer.next().await.unwrap().unwrap() {
            return (close.code.into(), close.reason.to_string());
        }
    }
}

#[tokio::test]
async fn the_end_has_a_code_and_a_reason() {
    let (link, _closer, mut peer) = pair(100).await;
    link.outgoing.event("last words".into()).await.unwrap();
    drop(link);
    assert_eq!(text(&mut peer).await, "last words");
    assert_eq!(close_of(&mut peer).await, (Close::NORMAL, String::new()));

    let (link, closer, mut peer) = pair(100).await;
    closer.set_reason(Close::new(Close::REVOKED, "the token was revoked"));
    drop(link);
    assert_eq!(close_of(&mut peer).await, (Close::REVOKED, "the token was revoked".to_owned()));
}

#[tokio::test]
async fn a_peer_that_closes_is_answered_and_the_link_ends() {
    let (mut link, _closer, mut peer) = pair(100).await;
    peer.send(Message::text("last")).await.unwrap();
    peer.close(None).await.unwrap();
    assert_eq!(link.incoming.recv().await, message("last"));
    assert_eq!(link.incoming.recv().await, None);
    link.outgoing.closed().await;
    assert_eq!(close_of(&mut peer).await.0, Close::NORMAL);
    assert!(peer.next().await.is_none());
}

/// A server that stops would otherwise wait for every client that closed in order and kept its socket.
#[tokio::test(start_paused = true)]
async fn a_connection_that_both_ends_closed_does_not_wait_for_the_end_of_the_stream() {
    let (mut link, _closer, mut peer) = pair(100).await;
    let begin = Instant::now();
    peer.close(None).await.unwrap();
    assert_eq!(link.incoming.recv().await, None);
    link.writing.finished().await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!(close_of(&mut peer).await.0, Close::NORMAL);
}

#[tokio::test]
async fn a_peer_that_vanishes_ends_the_link() {
    let (mut link, _closer, peer) = pair(100).await;
    drop(peer);
    assert_eq!(link.incoming.recv().await, None);
    link.outgoing.closed().await;
    assert!(link.writing.finished().await.is_err());
}

#[tokio::test]
async fn invalid_frames_close_with_a_protocol_error() {
    let unmasked = vec![0x81, 2, b'h', b'i'];
    let reserved = vec![0xc1, 0x80, 0, 0, 0, 0];
    let unknown = vec![0x83, 0x80, 0, 0, 0, 0];
    let continues_nothing = vec![0x80, 0x80, 0, 0, 0, 0];
    let long_ping = vec![0x89, 0xfe, 0, 200, 0, 0, 0, 0];
    for bytes in [unmasked, reserved, unknown, continues_nothing, long_ping] {
        let (ours, mut theirs) = duplex(1024);
        let (mut link, _closer) =
            websocket::link(ours, Bytes::new(), Role::Server, &settings(), &Limits::default());
        theirs.write_all(&bytes).await.unwrap();
        assert_eq!(link.incoming.recv().await, None, "{bytes:?}");
        let mut answer = [0; 4];
        theirs.read_exact(&mut answer).await.unwrap();
        assert_eq!((answer[0], &answer[2..]), (0x88, &Close::PROTOCOL.to_be_bytes()[..]), "{bytes:?}");
    }
}

/// ARCHITECTURE.md, invariant 38.
#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_pinged_and_cut_at_the_deadline() {
    let (ours, mut theirs) = duplex(1024);
    let (link, _closer) = websocket::link(ours, Bytes::new(), Role::Server, &settings(), &Limits::default());
    let Link { mut incoming, outgoing: _outgoing, writing } = link;
    let reading = tokio::spawn(async move { incoming.recv().await });
    let mut pings = Vec::new();
    theirs.read_to_end(&mut pings).await.ok();
    assert_eq!(pings, [0x89, 0, 0x89, 0], "two pings fit before the deadline");
    assert_eq!(writing.finished().await.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(reading.await.unwrap(), None, "a reader notices it too");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_pings_stays() {
    let (mut link, _closer, mut peer) = pair(100).await;
    let reading = tokio::spawn(async move { link.incoming.recv().await });
    for _ in 0..20 {
        // Reading answers.
        assert!(peer.next().await.unwrap().unwrap().is_ping());
        peer.flush().await.unwrap();
    }
    assert!(!reading.is_finished() && !link.outgoing.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_peer_is_not_closed_as_silent_while_its_messages_are_unread() {
    let (mut link, _closer, mut peer) = pair(100).await;
    // Somebody who waited for a message, and then waits for it no more.
    let no_longer = tokio::time::timeout(Duration::from_secs(1), link.incoming.recv()).await;
    assert!(no_longer.is_err());
    peer.send(Message::text("unread")).await.unwrap();
    for _ in 0..40 {
        tokio::select! {
            ping = peer.next() => assert!(ping.unwrap().unwrap().is_ping()),
            () = link.outgoing.closed() => panic!("it was cut"),
        }
        peer.flush().await.unwrap();
    }
    assert_eq!(link.incoming.recv().await, message("unread"));
    // From here on it is listened to again, and what it does not say counts.
    drop(tokio::spawn(async move { link.incoming.recv().await }));
    assert_eq!(link.writing.finished().await.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}

/// ARCHITECTURE.md, invariant 38.
#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_is_cut_although_it_talks() {
    let (ours, theirs) = duplex(1024);
    let (link, _closer) = websocket::link(ours, Bytes::new(), Role::Server, &settings(), &limits(1_000_000));
    let Link { mut incoming, outgoing, writing } = link;
    tokio::spawn(async move { while incoming.recv().await.is_some() {} });
    outgoing.event("x".repeat(10_000).into()).await.unwrap();
    let (_unread, mut theirs) = tokio::io::split(theirs);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            ticks.tick().await;
            if theirs.write_all(&[0x8a, 0x80, 0, 0, 0, 0]).await.is_err() {
                break;
            }
        }
    });
    assert_eq!(writing.finished().await.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn pings_of_a_peer_that_takes_nothing_do_not_pile_up_as_answers() {
    let (ours, theirs) = duplex(1024);
    let (link, _closer) = websocket::link(ours, Bytes::new(), Role::Server, &settings(), &limits(1_000_000));
    let Link { mut incoming, outgoing, .. } = link;
    tokio::spawn(async move { while incoming.recv().await.is_some() {} });
    outgoing.event("x".repeat(10_000).into()).await.unwrap();
    let (mut answers, mut pings) = tokio::io::split(theirs);
    for number in 0..1_000_u16 {
        let [high, low] = number.to_be_bytes();
        pings.write_all(&[0x89, 0x82, 0, 0, 0, 0, high, low]).await.unwrap();
        // Each is seen by itself: by the reader, and then by the writer.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    outgoing.event("end".into()).await.unwrap();
    let mut all = Vec::new();
    while !all.ends_with(b"end") {
        answers.read_buf(&mut all).await.unwrap();
    }
    let behind = all.get(10_004..).unwrap();
    assert!(behind.len() <= 12, "{} bytes answer pings", behind.len());
}

#[tokio::test]
async fn a_farewell_that_makes_no_sense_is_a_mistake() {
    // One byte is no code; 1005 and 999 never travel; a reason is text.
    for payload in [&[3][..], &[3, 0xed], &[3, 0xe7], &[3, 0xe8, 0xff]] {
        let (ours, mut theirs) = duplex(1024);
        let (mut link, _closer) =
            websocket::link(ours, Bytes::new(), Role::Server, &settings(), &Limits::default());
        let length = 0x80 | u8::try_from(payload.len()).unwrap();
        theirs.write_all(&[&[0x88, length, 0, 0, 0, 0], payload].concat()).await.unwrap();
        assert_eq!(link.incoming.recv().await, None, "{payload:?}");
        let mut answer = [0; 4];
        theirs.read_exact(&mut answer).await.unwrap();
        assert_eq!((answer[0], &answer[2..]), (0x88, &Close::PROTOCOL.to_be_bytes()[..]), "{payload:?}");
    }
}

#[tokio::test]
async fn both_roles_understand_each_other() {
    let (left, right) = duplex(64 * 1024);
    let (mut server, _closer) =
        websocket::link(left, Bytes::new(), Role::Server, &settings(), &Limits::default());
    let (mut client, _closer) =
        websocket::link(right, Bytes::new(), Role::Client, &settings(), &Limits::default());
    let large = "x".repeat(1_000_001);
    client.outgoing.respond(large.clone().into()).await.unwrap();
    assert_eq!(server.incoming.recv().await, message(&large));
    server.outgoing.compress();
    server.outgoing.respond(large.clone().into()).await.unwrap();
    assert_eq!(client.incoming.recv().await, message(&large));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// ARCHITECTURE.md, invariant 33.
    #[test]
    fn wherever_the_bytes_are_cut_the_messages_are_the_same(
        sizes in proptest::collection::vec(0_usize..70_000, 1..6),
        cuts in proptest::collection::vec(1_usize..9_000, 1..8),
        mask in any::<[u8; 4]>(),
    ) {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for size in &sizes {
            let mut payload: Vec<u8> = (0..*size).map(|place| b'a' + (place % 26) as u8).collect();
            if *size > 0 {
                expected.push(Incoming::Message(payload.clone().into()));
            }
            let header =
                FrameHeader { is_final: true, opcode: OpCode::Data(Data::Text), mask: Some(mask), ..Default::default() };
            header.format(*size as u64, &mut stream).unwrap();
            payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            stream.extend(payload);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let got = runtime.block_on(async {
            let (ours, mut theirs) = duplex(1 << 20);
            let head = stream.len().min(cuts[0]);
            let read_already = Bytes::copy_from_slice(&stream[..head]);
            let (mut link, _closer) =
                websocket::link(ours, read_already, Role::Server, &settings(), &Limits::default());
            tokio::spawn({
                let (rest, cuts) = (stream[head..].to_vec(), cuts.clone());
                async move {
                    let mut rest = &rest[..];
                    for cut in cuts.iter().cycle() {
                        let (piece, after) = rest.split_at(rest.len().min(*cut));
                        theirs.write_all(piece).await.unwrap();
                        tokio::task::yield_now().await;
                        rest = after;
                        if rest.is_empty() { break }
                    }
                }
            });
            let mut got = Vec::new();
            while let Some(incoming) = link.incoming.recv().await {
                got.push(incoming);
            }
            got
        });
        prop_assert_eq!(got, expected);
    }
}
