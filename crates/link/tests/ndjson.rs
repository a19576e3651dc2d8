//! Lines over a byte stream: fragmentation, length limits, and the order of sent messages.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use link::ndjson::{self, Lines};
use link::{Incoming, Limits, Receiver};
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf, duplex};

/// Gives its pieces one read at a time.
struct LineSplitter(std::collections::VecDeque<Vec<u8>>);

impl AsyncRead for LineSplitter {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let Some(mut piece) = self.0.pop_front() else { return Poll::Ready(Ok(())) };
        if piece.is_empty() {
            // An empty piece stands for a moment in which nothing has arrived.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let rest = piece.split_off(piece.len().min(into.remaining()));
        into.put_slice(&piece);
        if !rest.is_empty() {
            self.0.push_front(rest);
        }
        Poll::Ready(Ok(()))
    }
}

fn lines(pieces: Vec<Vec<u8>>, line_bytes: usize) -> Vec<Incoming> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut receiver = Receiver::new(Lines::new(LineSplitter(pieces.into()), line_bytes));
        let mut all = Vec::new();
        while let Some(incoming) = receiver.recv().await {
            all.push(incoming);
        }
        assert_eq!(receiver.recv().await, None, "the end stays the end");
        all
    })
}

/// The messages of a link whose peer may send binary ones.
fn binary_lines(pieces: Vec<Vec<u8>>, line_bytes: usize) -> Vec<Incoming> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let limits = Limits { line_bytes, ..Limits::default() };
        let mut link = ndjson::link(LineSplitter(pieces.into()), tokio::io::sink(), &limits);
        assert!(link.outgoing.accept_binary());
        let mut all = Vec::new();
        while let Some(incoming) = link.incoming.recv().await {
            all.push(incoming);
        }
        all
    })
}

#[test]
fn binary_messages_stand_between_lines_wherever_the_bytes_are_split() {
    let binary = wire::binary::encode(b"{\"a\":1}", b"\n\0\n");
    let large = wire::binary::encode(b"{}", &[b'\n'; 90]);
    let stream =
        [b"one\n", &binary[..], &binary[..], b"\r\n", &large[..], b"two\n\n", &binary[..], b"three"].concat();
    let raw = || Incoming::Message(Bytes::from(binary.clone()));
    let too_long = Incoming::TooLong { bytes: large.len() as u64 };
    let expected = vec![message("one"), raw(), raw(), too_long, message("two"), raw(), message("three")];
    for cut in 0..=stream.len() {
        let (head, tail) = stream.split_at(cut);
        assert_eq!(
            binary_lines(vec![head.to_vec(), Vec::new(), tail.to_vec()], 50),
            expected,
            "cut at {cut}"
        );
    }
    assert_eq!(binary_lines(stream.iter().map(|byte| vec![*byte]).collect(), 50), expected);
    let unfinished = binary_lines(vec![binary[..binary.len() - 1].to_vec()], 50);
    assert_eq!(unfinished, [], "a part of a binary message is not a line");
}

#[test]
fn a_peer_that_may_not_send_binary_messages_sends_a_line() {
    let binary = wire::binary::encode(b"{}", b"x");
    assert_eq!(lines(vec![[&binary[..], b"\n"].concat()], 50), [Incoming::Message(binary.into())]);
}

fn message(text: &str) -> Incoming {
    Incoming::Message(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn newlines_crlf_blank_lines_and_a_missing_last_newline_are_understood() {
    let text = "one\ntwo\r\n\n \t\r\nthree\rstill\nlast";
    let expected = ["one", "two", "three\rstill", "last"].map(message).to_vec();
    assert_eq!(lines(vec![text.into()], 100), expected);
    for cut in 0..=text.len() {
        let (head, tail) = text.split_at(cut);
        assert_eq!(lines(vec![head.into(), vec![], tail.into()], 100), expected, "cut at {cut}");
    }
}

#[test]
fn a_line_over_the_limit_is_reported_and_the_next_one_is_whole() {
    let text = "12345\r\n123456\nok\n123456789";
    let expected =
        vec![message("12345"), Incoming::TooLong { bytes: 6 }, message("ok"), Incoming::TooLong { bytes: 9 }];
    assert_eq!(lines(vec![text.into()], 5), expected);
    let bytes = text.bytes().map(|byte| vec![byte]).collect();
    assert_eq!(lines(bytes, 5), expected);
}

#[test]
fn large_and_small_lines_follow_each_other_unharmed() {
    let mut text = Vec::new();
    let mut expected = Vec::new();
    for size in [1, 3_000_000, 10, 5_000, 4_096, 700_000, 2, 2, 2] {
        let line = "x".repeat(size);
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
        expected.push(message(&line));
    }
    assert_eq!(lines(vec![text.clone()], 4_000_000), expected);
    let chunks = text.chunks(65_536).flat_map(|chunk| [chunk.to_vec(), vec![]]).collect();
    assert_eq!(lines(chunks, 4_000_000), expected);
}

proptest! {
    #[test]
    fn the_same_bytes_are_the_same_messages_however_they_are_cut(
        text in "([a-c]{0,9}(\r?\n| ){0,2}){0,12}",
        cuts in proptest::collection::vec(0usize..200, 0..12),
    ) {
        let whole = lines(vec![text.clone().into_bytes()], 6);
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(text.as_bytes()[from..cut].to_vec());
            from = cut;
        }
        pieces.push(text.as_bytes()[from..].to_vec());
        // The end of a stream is an empty read, so an empty piece is only ever a pause here.
        prop_assert_eq!(lines(pieces, 6), whole.clone());
        prop_assert_eq!(lines(text.bytes().map(|byte| vec![byte]).collect(), 6), whole);
    }
}

/// ARCHITECTURE.md, invariant 13.
#[tokio::test]
async fn responses_overtake_the_events_that_wait() {
    let (ours, mut theirs) = duplex(64);
    let (input, output) = tokio::io::split(ours);
    let link = ndjson::link(input, output, &Limits::default());
    let event = Bytes::from(vec![b'e'; 100]);
    // The pipe takes less than one event: the first is begun, four wait in the writer, four in the lane.
    let outgoing = link.outgoing.clone();
    let flood = tokio::spawn(async move {
        for _ in 0..50 {
            outgoing.event(event.clone()).await.unwrap();
        }
    });
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    link.outgoing.respond(Bytes::from_static(b"response")).await.unwrap();
    let mut before = 0;
    let mut read = Vec::new();
    while !read.ends_with(b"response\n") {
        read.push(theirs.read_u8().await.unwrap());
        before =
            read.iter().filter(|byte| **byte == b'\n').count() - usize::from(read.ends_with(b"response\n"));
    }
    assert!(before <= 1, "{before} events went first");
    drop(theirs);
    flood.abort();
}

#[tokio::test]
async fn a_written_response_is_reported_only_when_the_kernel_has_it() {
    let (ours, mut theirs) = duplex(8);
    let (input, output) = tokio::io::split(ours);
    let link = ndjson::link(input, output, &Limits::default());
    let mut written = Box::pin(link.outgoing.respond_written(Bytes::from_static(b"0123456789")));
    for _ in 0..20 {
        assert!(futures_util::poll!(written.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    let mut line = [0; 11];
    theirs.read_exact(&mut line).await.unwrap();
    assert_eq!((written.await, &line), (Ok(()), b"0123456789\n"));
}

#[tokio::test]
async fn all_that_was_sent_is_written_before_the_link_ends() {
    let (ours, mut theirs) = duplex(16);
    let (input, output) = tokio::io::split(ours);
    let link = ndjson::link(input, output, &Limits::default());
    let reader = tokio::spawn(async move {
        let mut text = String::new();
        theirs.read_to_string(&mut text).await.unwrap();
        text
    });
    for number in 0..100 {
        link.outgoing.respond(Bytes::from(format!("response {number}"))).await.unwrap();
        link.outgoing.event(Bytes::from(format!("event {number}"))).await.unwrap();
    }
    link.outgoing.flush().await.unwrap();
    drop(link.outgoing);
    link.writing.finished().await.unwrap();
    drop(link.incoming);
    let text = reader.await.unwrap();
    assert_eq!(text.lines().count(), 200);
    let events: Vec<_> = text.lines().filter(|line| line.starts_with("event")).collect();
    assert_eq!(events, (0..100).map(|number| format!("event {number}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_peer_that_is_gone_closes_the_link() {
    let (ours, theirs) = duplex(16);
    let (input, output) = tokio::io::split(ours);
    let link = ndjson::link(input, output, &Limits::default());
    drop(theirs);
    assert!(link.outgoing.respond_written(Bytes::from_static(b"x")).await.is_err());
    link.outgoing.closed().await;
    assert!(link.outgoing.is_closed() && link.outgoing.event(Bytes::from_static(b"x")).await.is_err());
    assert!(link.writing.finished().await.is_err());
}
