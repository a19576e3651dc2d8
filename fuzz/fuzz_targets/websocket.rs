//! After the handshake, the messages do not depend on how the bytes are split, and none exceeds the limit.
#![no_main]

use std::time::Duration;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use link::websocket::{self, Role, Settings};
use link::{Incoming, Limits};
use tokio::io::AsyncWriteExt;

const LIMIT: usize = 1024;

fn messages(bytes: &[u8], size: usize) -> Vec<Incoming> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(size);
        let (mut from_us, mut to_us) = tokio::io::split(theirs);
        let settings = Settings { ping_every: Duration::from_secs(60), deadline: Duration::from_secs(60) };
        let limits = Limits { line_bytes: LIMIT, ..Limits::default() };
        let (mut link, _closer) = websocket::link(ours, Bytes::new(), Role::Server, &settings, &limits);
        let sending = async {
            // A peer that was cut off does not take the rest.
            let _sent = to_us.write_all(bytes).await;
            let _ended = to_us.shutdown().await;
        };
        let mut nowhere = tokio::io::sink();
        let listening = tokio::io::copy(&mut from_us, &mut nowhere);
        let taking = async {
            let mut all = Vec::new();
            while let Some(message) = link.incoming.recv().await {
                all.push(message);
            }
            all
        };
        tokio::select! {
            all = async { tokio::join!(sending, taking).1 } => all,
            _ = async { let _gone = listening.await; std::future::pending::<()>().await } => unreachable!(),
        }
    })
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = messages(bytes, bytes.len().max(1));
    for message in &whole {
        if let Incoming::Message(message) = message {
            assert!(message.len() <= LIMIT);
        }
    }
    assert_eq!(messages(bytes, usize::from(size).max(1)), whole);
});
