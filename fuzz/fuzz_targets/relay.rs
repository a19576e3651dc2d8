//! Any frames, in any order, keep the streams within their limits, and a router finds the stream of a reset.
#![no_main]

use std::time::{Duration, Instant};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use link::mux::{Limits, Role, Streams};
use wire::exec_server::relay::{Body, Data, RelayFrame, stream_id_of};

const TOTAL: usize = 100_000;

fuzz_target!(|input: (Vec<(u8, u32, u32, u8, [u32; 3], u16)>, Vec<Vec<u8>>)| {
    let (frames, raw) = input;
    let limits = Limits { streams: 8, total_bytes: TOTAL, message_bytes: 50_000, ..Limits::default() };
    let mut streams = Streams::new(Role::Executor, limits);
    let mut now = Instant::now();
    let made = frames.into_iter().map(|(id, ack, ack_bits, kind, [seq, segment_index, segment_count], size)| {
        let body = match kind % 8 {
            0 => Body::Ack,
            1 => Body::Resume { next_seq: seq },
            2 => Body::Reset { reason: "because".to_owned() },
            3 => Body::Heartbeat,
            _ => Body::Data(Data { seq, segment_index, segment_count, payload: vec![0; usize::from(size)].into() }),
        };
        RelayFrame { stream_id: format!("s{}", id % 16), ack, ack_bits, body }.encode()
    });
    for bytes in made.chain(raw.into_iter().map(Bytes::from)) {
        let routed = stream_id_of(&bytes).map(str::to_owned);
        if let Ok(frame) = RelayFrame::decode(bytes) {
            if let Ok(routed) = routed {
                assert_eq!(routed, frame.stream_id);
            }
            streams.receive(frame, now);
        }
        assert!(streams.held() <= TOTAL && streams.keys().len() <= 8);
        now += Duration::from_millis(100);
        while streams.frame(now).is_some() {}
        for key in streams.keys() {
            if streams.get(key).is_some_and(|stream| stream.end().is_some()) {
                streams.remove(key);
            }
        }
    }
});
