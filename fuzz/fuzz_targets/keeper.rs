//! Any message of a keeper or its client is decoded or refused, and a decoded message encodes to itself.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use wire::keeper::{Decoder, Version, encode_request, encode_frame, read_request};

fuzz_target!(|input: (bool, &[u8])| {
    let (is_second, bytes) = input;
    let version = if is_second { Version::NEWEST } else { Version::V1 };
    let mut buffer = BytesMut::from(bytes);
    let mut decoder = Decoder::new(version);
    while let Ok(Some(piece)) = decoder.next(&mut buffer) {
        let mut again = BytesMut::from(&encode_frame(version, &piece)[..]);
        let read = Decoder::new(version).next(&mut again);
        assert_eq!(read.expect("our own").expect("whole"), piece);
    }
    let mut buffer = BytesMut::from(bytes);
    while let Ok(Some(request)) = read_request(&mut buffer) {
        let mut again = BytesMut::from(&encode_request(&request)[..]);
        assert_eq!(read_request(&mut again).expect("our own").expect("whole"), request);
    }
});
