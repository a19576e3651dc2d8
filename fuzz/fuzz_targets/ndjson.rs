//! The messages do not depend on how the bytes are split.
#![no_main]

use futures_util::StreamExt;
use libfuzzer_sys::fuzz_target;
use link::Incoming;
use link::ndjson::Lines;
use tokio::io::AsyncReadExt;

fn lines(pieces: Vec<&[u8]>, limit: usize) -> Vec<Incoming> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let mut chain: Box<dyn tokio::io::AsyncRead + Unpin> = Box::new(tokio::io::empty());
    for piece in pieces.into_iter().rev() {
        chain = Box::new(piece.chain(chain));
    }
    runtime.block_on(Lines::new(chain, limit).collect())
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (limit, size, bytes) = input;
    let whole = lines(vec![bytes], usize::from(limit));
    // The chain nests, so the number of pieces is kept small.
    let size = usize::from(size).max(bytes.len() / 64).max(1);
    assert_eq!(lines(bytes.chunks(size).collect(), usize::from(limit)), whole);
});
