//! The keeper protocol: frames survive encoding in every version, however the bytes are fragmented.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use wire::keeper::{
    CloseCause, CloseReport, Decoder, FailureKind, KeeperFrame, KeeperMessage, KeeperRequest,
    KeeperWireError, LeaderExit, MAX_LINE_BYTES, MAX_OUTPUT_BYTES, OutputStream, TerminalWait, TreeMember,
    Version, encode_frame, encode_request, read_request,
};

fn frame() -> impl Strategy<Value = KeeperFrame> {
    let stream =
        prop_oneof![Just(OutputStream::Stdout), Just(OutputStream::Stderr), Just(OutputStream::Terminal)];
    let exit = || prop_oneof![any::<i32>().prop_map(LeaderExit::Code), (1..65).prop_map(LeaderExit::Signal)];
    let member = (1..i32::MAX, ".{0,15}").prop_map(|(pid, name)| TreeMember { pid, name });
    let members = || prop::collection::vec(member.clone(), 0..4);
    let closed = (exit(), any::<[u32; 4]>(), members()).prop_map(|(exit, numbers, held_by)| CloseReport {
        exit,
        cause: CloseCause::TimedOut,
        duration_ms: numbers[0].into(),
        stdout_bytes: numbers[1].into(),
        stderr_bytes: numbers[2].into(),
        truncated_bytes: numbers[3].into(),
        processes_refused: numbers[3].into(),
        denied: None,
        held_by,
    });
    prop_oneof![
        (0..u64::MAX / 2, stream, prop::collection::vec(any::<u8>(), 1..400))
            .prop_map(|(start, stream, bytes)| KeeperFrame::Output { start, stream, bytes: bytes.into() }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(bytes, next)| KeeperFrame::Message(KeeperMessage::Lost { bytes, next })),
        exit().prop_map(|exit| KeeperFrame::Message(KeeperMessage::Exited { exit })),
        closed.clone().prop_map(|closed| KeeperFrame::Message(KeeperMessage::Closed(closed))),
        (any::<u64>(), members(), members(), any::<bool>()).prop_map(|(id, killed, left, complete)| {
            KeeperFrame::Message(KeeperMessage::Killed { id, killed, left, complete })
        }),
        (any::<u64>(), any::<Option<i32>>(), prop::option::of(closed)).prop_map(|(id, pid, closed)| {
            KeeperFrame::Message(KeeperMessage::Status {
                id,
                pid,
                end: 7,
                exit: closed.as_ref().map(|closed| closed.exit),
                closed,
            })
        }),
        (any::<u64>(), any::<(u16, u16, bool, bool)>(), prop::option::of(Just(TerminalWait::Poll))).prop_map(
            |(id, (cols, rows, echo, canonical), wait)| {
                KeeperFrame::Message(KeeperMessage::Terminal { id, cols, rows, echo, canonical, wait })
            }
        ),
        (any::<u64>(), ".*").prop_map(|(id, message)| {
            KeeperFrame::Message(KeeperMessage::Error { id, kind: FailureKind::Busy, message })
        }),
    ]
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V1), Just(Version::V2), Just(Version::V3)]
}

proptest! {
    #[test]
    fn every_frame_survives_encoding_and_any_fragmentation(
        version in version(),
        frames in prop::collection::vec(frame(), 0..8),
        cut in 1_usize..64,
    ) {
        let sent: Vec<u8> = frames.iter().flat_map(|frame| encode_frame(version, frame)).collect();
        let (mut decoder, mut buffer, mut seen) = (Decoder::new(version), BytesMut::new(), Vec::new());
        for part in sent.chunks(cut) {
            buffer.extend_from_slice(part);
            while let Some(frame) = decoder.next(&mut buffer).unwrap() {
                seen.push(frame);
            }
        }
        prop_assert_eq!(seen, frames);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn any_bytes_from_a_keeper_are_read_or_refused(
        version in version(),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut buffer = BytesMut::from(&bytes[..]);
        let mut decoder = Decoder::new(version);
        while let Ok(Some(_piece)) = decoder.next(&mut buffer) {}
        let mut buffer = BytesMut::from(&bytes[..]);
        while let Ok(Some(_request)) = read_request(&mut buffer) {}
    }

    #[test]
    fn a_request_comes_back(id in any::<u64>(), data in "[A-Za-z0-9]{0,40}", eof in any::<bool>(), cols in any::<u16>()) {
        for request in [
            KeeperRequest::Hello { id, version: 2 },
            KeeperRequest::Attach { id, cursor: id },
            KeeperRequest::Input { id, data: data.clone(), eof, key: None },
            KeeperRequest::Input { id, data: data.clone(), eof, key: Some(data.clone()) },
            KeeperRequest::Terminal { id },
            KeeperRequest::Resize { id, cols, rows: 24 },
            KeeperRequest::Kill { id, signal: 15 },
            KeeperRequest::Status { id },
        ] {
            let mut buffer = BytesMut::from(&encode_request(&request)[..]);
            prop_assert_eq!(request.id(), id);
            prop_assert_eq!(read_request(&mut buffer), Ok(Some(request)));
        }
    }
}

#[test]
fn the_older_of_two_versions_is_negotiated() {
    assert_eq!(Version::V2.common(1), Some(Version::V1));
    assert_eq!(Version::V1.common(2), Some(Version::V1));
    assert_eq!(Version::V2.common(99), Some(Version::V2));
    assert_eq!(Version::V3.common(2), Some(Version::V2));
    assert_eq!(Version::V3.common(4), Some(Version::V3));
    assert_eq!(Version::V2.common(0), None);
}

#[test]
fn the_lines_of_every_version_stay_as_they_were_released() {
    let frame =
        KeeperFrame::Output { start: 5, stream: OutputStream::Stdout, bytes: Bytes::from_static(b"hi\n") };
    let v1 = encode_frame(Version::V1, &frame);
    assert_eq!(v1, b"{\"type\":\"output\",\"start\":5,\"stream\":\"stdout\",\"data\":\"aGkK\"}\n");
    let v2 = encode_frame(Version::V2, &frame);
    assert_eq!(v2, b"{\"type\":\"output\",\"start\":5,\"stream\":\"stdout\",\"bytes\":3}\nhi\n");
    assert_eq!(encode_frame(Version::V3, &frame), v2);
    let input = KeeperRequest::Input { id: 1, data: "aGkK".to_owned(), eof: false, key: None };
    assert_eq!(
        encode_request(&input),
        b"{\"type\":\"input\",\"id\":1,\"data\":\"aGkK\",\"eof\":false}\n",
        "an older keeper gets no key"
    );
    let accepted = KeeperFrame::Message(KeeperMessage::Accepted { id: 1, bytes: 3, repeated: false });
    assert_eq!(encode_frame(Version::V2, &accepted), b"{\"type\":\"accepted\",\"id\":1,\"bytes\":3}\n");
    let request = encode_request(&KeeperRequest::Kill { id: 1, signal: 9 });
    assert_eq!(request, b"{\"type\":\"kill\",\"id\":1,\"signal\":9}\n");
}

#[test]
fn messages_above_their_limit_are_errors() {
    let mut long = BytesMut::from(&vec![b'a'; MAX_LINE_BYTES + 1][..]);
    assert_eq!(read_request(&mut long), Err(KeeperWireError::TooLong));
    let count = MAX_OUTPUT_BYTES + 1;
    let line = format!("{{\"type\":\"output\",\"start\":0,\"stream\":\"stdout\",\"bytes\":{count}}}\n");
    let mut buffer = BytesMut::from(line.as_bytes());
    assert_eq!(Decoder::new(Version::V2).next(&mut buffer), Err(KeeperWireError::BadOutput));
    let mut buffer = BytesMut::from(line.as_bytes());
    assert_eq!(
        Decoder::new(Version::V1).next(&mut buffer),
        Err(KeeperWireError::BadOutput),
        "of another version"
    );
}

#[test]
fn a_wait_of_a_newer_keeper_is_unknown() {
    let line = b"{\"type\":\"terminal\",\"id\":1,\"cols\":80,\"rows\":24,\"echo\":true,\"canonical\":true,\"wait\":\"new\"}\n";
    let told = Decoder::new(Version::V3).next(&mut BytesMut::from(&line[..])).unwrap();
    let Some(KeeperFrame::Message(KeeperMessage::Terminal { wait, .. })) = told else { panic!("{told:?}") };
    assert_eq!(wait, Some(TerminalWait::Unknown));
}

#[test]
fn a_failure_of_a_newer_keeper_is_still_a_failure() {
    let line = b"{\"type\":\"error\",\"id\":1,\"kind\":\"from_the_future\",\"message\":\"no\"}\n";
    let mut buffer = BytesMut::from(&line[..]);
    let told = Decoder::new(Version::V2).next(&mut buffer).unwrap();
    assert!(matches!(
        told,
        Some(KeeperFrame::Message(KeeperMessage::Error { kind: FailureKind::Failed, .. }))
    ));
}
