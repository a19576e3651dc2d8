//! Character boundaries in output: where a chunk may be cut, and whether it ends inside a character.

use bytes::Bytes;

/// At most `max` bytes, ending where a character ends if the bytes are text there.
pub(super) fn cut_at_character(bytes: Bytes, max: usize) -> Bytes {
    if bytes.len() <= max {
        return bytes;
    }
    let whole = max - incomplete_tail(&bytes[..max]);
    // A single character longer than `max` must still move.
    bytes.slice(..if whole == 0 { max } else { whole })
}

/// How many bytes at the end begin a UTF-8 character that more bytes can complete; 0 when the end is whole or no text.
pub(super) fn incomplete_tail(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let tail = &bytes[bytes.len() - back..];
        if matches!(tail[0], 0x80..=0xBF) {
            continue;
        }
        let can_be_completed = std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
        return if can_be_completed { back } else { 0 };
    }
    0
}
