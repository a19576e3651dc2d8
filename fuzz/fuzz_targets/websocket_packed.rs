//! A compressed WebSocket message over the limit is reported as too long, whatever its window and however it is compressed;
//! the messages around it arrive.
#![no_main]

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use link::websocket::{self, Role, Settings};
use link::{Incoming, Limits};
use tokio::io::AsyncWriteExt as _;

const LIMIT: usize = 64 * 1024;

/// A zstd frame of `pattern`, repeated to `length` bytes.
fn packed(pattern: &[u8], length: usize, window: u32) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("an encoder");
    encoder.window_log(window).expect("a window");
    let mut left = length;
    while left > 0 {
        let piece = pattern.get(..left.min(pattern.len())).filter(|piece| !piece.is_empty()).unwrap_or(b"x");
        encoder.write_all(piece).expect("compressing");
        left -= piece.len();
    }
    encoder.finish().expect("the end")
}

/// A masked binary frame, as clients send it. The mask is zero.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x82, 0x80 | 127];
    frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

fn receive(bytes: &[u8]) -> Vec<Incoming> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (mut from_us, mut to_us) = tokio::io::split(theirs);
        let settings = Settings { ping_every: Duration::from_secs(60), deadline: Duration::from_secs(60) };
        let limits = Limits { line_bytes: LIMIT, ..Limits::default() };
        let (mut link, _closer) = websocket::link(ours, Bytes::new(), Role::Server, &settings, &limits);
        let send = async {
            // A peer that was cut off does not take the rest.
            to_us.write_all(bytes).await.ok();
            to_us.shutdown().await.ok();
        };
        let mut sink = tokio::io::sink();
        let discard = tokio::io::copy(&mut from_us, &mut sink);
        let receive = async {
            let mut all = Vec::new();
            while let Some(message) = link.incoming.recv().await {
                all.push(message);
            }
            all
        };
        tokio::select! {
            all = async { tokio::join!(send, receive).1 } => all,
            _ = async { discard.await.ok(); std::future::pending::<()>().await } => unreachable!(),
        }
    })
}

fuzz_target!(|input: (Vec<u8>, u32, u8, Vec<u8>)| {
    let (pattern, length, window, raw) = input;
    let length = length as usize % (64 * LIMIT);
    let packed = packed(&pattern, length, 10 + u32::from(window) % 12);
    let mut bytes = frame(&packed);
    bytes.extend(frame(b"after"));
    let received = receive(&bytes);
    match (length > LIMIT, &received[..]) {
        (true, [Incoming::TooLong { .. }, Incoming::Message(after)]) => assert_eq!(&after[..], b"after"),
        (false, [Incoming::Message(message), Incoming::Message(after)]) => {
            assert_eq!((message.len(), &after[..]), (length, &b"after"[..]));
        }
        // An empty message is no message.
        (false, [Incoming::Message(after)]) => assert_eq!((length, &after[..]), (0, &b"after"[..])),
        (_, other) => panic!("{length} bytes: {} messages", other.len()),
    }
    // A damaged frame: anything but more than the limit.
    let mut damaged = vec![0x28, 0xb5, 0x2f, 0xfd];
    damaged.extend_from_slice(&raw);
    for message in receive(&frame(&damaged)) {
        assert!(!matches!(message, Incoming::Message(message) if message.len() > LIMIT));
    }
});
