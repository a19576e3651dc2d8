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

/// How many bytes at the end begin a UTF-8 character that is not complete; 0 when the end is whole or no text at all.
pub(super) fn incomplete_tail(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let needs = match byte {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => return 0,
        };
        return if needs > back { back } else { 0 };
    }
    0
}
