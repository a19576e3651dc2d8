//! Packing: messages as zstd frames, each whole by itself.

use std::cell::RefCell;
use std::io::{self, Read};

use bytes::Bytes;

/// How every zstd frame begins.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Fast, and already small: JSON is.
const LEVEL: i32 = 1;
/// The largest window a peer may have us keep, as a power of two.
const WINDOW_LOG: u32 = 25;
/// What is unpacked at a time.
const STEP: usize = 64 * 1024;

thread_local! {
    // Messages do not depend on each other, so one context serves all links; it is large and would be most of what a
    // connection costs.
    static CONTEXT: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// The message as a zstd frame.
pub fn pack(message: &[u8]) -> io::Result<Bytes> {
    CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => context.insert(zstd::bulk::Compressor::new(LEVEL)?),
        };
        context.compress(message).map(Bytes::from)
    })
}

/// Whether this is how a zstd frame begins.
pub fn is_packed(message: &[u8]) -> bool {
    message.starts_with(&MAGIC)
}

/// What comes out of zstd frames; nothing when that is more than `most` bytes.
pub fn unpack(packed: &[u8], most: usize) -> io::Result<Option<Bytes>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
    decoder.window_log_max(WINDOW_LOG)?;
    let mut unpacked = Vec::new();
    loop {
        let start = unpacked.len();
        unpacked.resize(start + STEP, 0);
        let read = decoder.read(unpacked.get_mut(start..).unwrap_or_default())?;
        unpacked.truncate(start + read);
        if read == 0 {
            return Ok(Some(Bytes::from(unpacked)));
        }
        if unpacked.len() > most {
            return Ok(None);
        }
    }
}
