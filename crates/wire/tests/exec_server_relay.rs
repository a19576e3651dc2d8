//! Relay frames: known bytes, invalid frames, and the same result in router and endpoint.

use bytes::Bytes;
use proptest::prelude::*;
use wire::exec_server::relay::{
    Body, Data, Kind, MAX_STREAM_ID_BYTES, RelayError, RelayFrame, route, stream_id_of,
};

fn decode(bytes: &[u8]) -> Result<RelayFrame, RelayError> {
    RelayFrame::decode(Bytes::copy_from_slice(bytes))
}

#[test]
fn a_resume_of_a_released_harness_is_decoded_and_encoded() {
    let bytes = b"\x08\x01\x12\x08stream-a\x3a\x00";
    let frame = RelayFrame::new("stream-a", Body::Resume { next_seq: 0 });
    assert_eq!(decode(bytes).unwrap(), frame);
    assert_eq!(frame.encode(), bytes[..]);
}

#[test]
fn a_data_frame_has_the_numbers_of_the_schema() {
    let data = Data { seq: 3, segment_index: 1, segment_count: 2, payload: Bytes::from_static(b"{}") };
    let frame = RelayFrame { stream_id: "s".into(), ack: 7, ack_bits: 5, body: Body::Data(data) };
    let bytes = b"\x08\x01\x12\x01s\x18\x07\x20\x05\x2a\x0a\x08\x03\x10\x01\x18\x02\x22\x02{}";
    assert_eq!(decode(bytes).unwrap(), frame);
    assert_eq!(frame.encode(), bytes[..]);
}

#[test]
fn an_invalid_frame_is_an_error_with_its_reason() {
    let long = MAX_STREAM_ID_BYTES + 1;
    let long_id = RelayFrame::new("x".repeat(long), Body::Heartbeat).encode();
    let cases: &[(&[u8], RelayError)] = &[
        (b"\x08\x02\x12\x01s\x4a\x00", RelayError::Version(2)),
        (b"\x12\x01s\x4a\x00", RelayError::Version(0)),
        (b"", RelayError::Version(0)),
        (b"\x08\x01\x4a\x00", RelayError::NoStream),
        (b"\x08\x01\x12\x02 \t\x4a\x00", RelayError::NoStream),
        (&long_id, RelayError::LongStream(long)),
        (b"\x08\x01\x12\x01s", RelayError::NoBody),
        // A handshake of later releases.
        (b"\x08\x01\x12\x01s\x52\x02\x0a\x00", RelayError::NoBody),
    ];
    for (bytes, error) in cases {
        assert_eq!(decode(bytes).as_ref(), Err(error));
        assert_eq!(route(bytes).as_ref(), Err(error));
    }
    assert_eq!(decode(b"\x08\x01\x12\x01s\x42\x00"), Err(RelayError::NoReason));
    for bytes in [&b"{\"id\":1}"[..], b"\x08\x01\x12\x05s", b"\x08\x01\x12\x01s\x2a\xff"] {
        assert!(matches!(decode(bytes), Err(RelayError::Undecodable(_))));
        assert!(matches!(stream_id_of(bytes), Err(RelayError::Undecodable(_))));
    }
}

fn bodies() -> impl Strategy<Value = Body> {
    let data = (any::<[u32; 3]>(), prop::collection::vec(any::<u8>(), 0..200)).prop_map(
        |([seq, segment_index, segment_count], payload)| {
            Body::Data(Data { seq, segment_index, segment_count, payload: payload.into() })
        },
    );
    prop_oneof![
        data,
        Just(Body::Ack),
        any::<u32>().prop_map(|next_seq| Body::Resume { next_seq }),
        ".{1,20}".prop_map(|reason| Body::Reset { reason }),
        Just(Body::Heartbeat),
    ]
}

proptest! {
    #[test]
    fn every_frame_survives_the_way_and_is_routed(id in "[a-z0-9-]{1,40}", acks in any::<[u32; 2]>(), body in bodies()) {
        let frame = RelayFrame { stream_id: id.clone(), ack: acks[0], ack_bits: acks[1], body };
        let bytes = frame.clone().encode();
        let kind = match frame.body {
            Body::Data(_) => Kind::Data,
            Body::Ack => Kind::Ack,
            Body::Resume { .. } => Kind::Resume,
            Body::Reset { .. } => Kind::Reset,
            Body::Heartbeat => Kind::Heartbeat,
        };
        let found = route(&bytes).unwrap();
        prop_assert_eq!((found.stream_id, found.kind), (id.as_str(), kind));
        prop_assert_eq!(decode(&bytes).unwrap(), frame);
    }

    #[test]
    fn a_router_and_an_end_never_disagree_about_the_stream(
        bytes in prop::collection::vec(any::<u8>(), 0..60), id in "[a-z]{1,5}", cut in 0_usize..60,
    ) {
        let mut spoiled = RelayFrame::new(id, Body::Heartbeat).encode().to_vec();
        spoiled.splice(cut.min(spoiled.len()).., bytes.iter().copied());
        for bytes in [&bytes, &spoiled] {
            // A router is stricter: it knows no groups.
            if let (Ok(frame), Ok(stream_id)) = (decode(bytes), stream_id_of(bytes)) {
                prop_assert_eq!(stream_id, frame.stream_id);
            }
        }
    }
}
