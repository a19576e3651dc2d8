//! Compression: messages as independent zstd frames.

use std::cell::RefCell;
use std::io::{self, Read};

use bytes::Bytes;

/// The magic number of a zstd frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The fastest level; JSON compresses well already.
const LEVEL: i32 = 1;
/// The limit on the window of received frames, as a power of two.
const WINDOW_LOG: u32 = 25;
/// The bytes that are decompressed at a time.
const STEP: usize = 64 * 1024;

thread_local! {
    // Messages are independent, so one context per thread serves all links; it is large compared to a connection.
    static CONTEXT: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// Compresses a message into a zstd frame.
pub fn pack(message: &[u8]) -> io::Result<Bytes> {
    CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => context.insert(zstd::bulk::Compressor::new(LEVEL)?),
        };
        context.compress(message).map(Bytes::from)
    })
}

/// True if the bytes begin with a zstd frame.
pub fn is_packed(message: &[u8]) -> bool {
    message.starts_with(&MAGIC)
}

/// Decompresses zstd frames; `None` if the result is larger than `most` bytes.
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
