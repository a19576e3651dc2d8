//! A fast encoder of text as a JSON string, for bulk output.
//!
//! It counts the escapes of 32 bytes at once, eight bytes in each step: this crate is optimised for size, for which the
//! compiler emits no vector instructions. Chunks without escapes are copied as one run; in chunks with few escapes they are
//! found eight bytes at a time; in all others every byte is looked up in a table and stored without a branch.

const CHUNK: usize = 32;
/// Capacity for a chunk of the longest escapes and the eight-byte store of the last one.
const LOOKED_UP: usize = 256 + 8;
/// Escapes in a chunk up to which searching them is faster than the table.
const FEW: u8 = 2;
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Appends `text` as a JSON string with quotes, with the same bytes as serde_json.
pub fn push_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    push_json_fragment(out, text);
    out.push(b'"');
}

/// Appends `text` as the content of a JSON string, without quotes.
pub fn push_json_fragment(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + bytes.len() / 16);
    let (chunks, tail) = bytes.as_chunks::<CHUNK>();
    // The start of the bytes that are not copied yet.
    let mut run = 0;
    let mut buffer = [0; LOOKED_UP];
    for (index, chunk) in chunks.iter().enumerate() {
        let start = index * CHUNK;
        match count_escapes(chunk) {
            0 => {}
            few @ 1..=FEW => {
                let mut from = 0;
                for _ in 0..few {
                    let place = from + first_escape(&chunk[from..]).unwrap_or(0);
                    out.extend_from_slice(&bytes[run..start + place]);
                    push_escape(out, chunk[place]);
                    from = place + 1;
                    run = start + from;
                }
            }
            _ => {
                out.extend_from_slice(&bytes[run..start]);
                push_looked_up(out, chunk, &mut buffer);
                run = start + CHUNK;
            }
        }
    }
    out.extend_from_slice(&bytes[run..bytes.len() - tail.len()]);
    push_looked_up(out, tail, &mut buffer);
}

/// The number of bytes that need an escape. Free of branches.
fn count_escapes(chunk: &[u8; CHUNK]) -> u8 {
    let (words, _none) = chunk.as_chunks::<8>();
    // Each byte counts its own place in the words.
    let counts = words.iter().map(|word| escape_marks(u64::from_le_bytes(*word)) >> 7).sum::<u64>();
    counts.wrapping_mul(ONES).to_le_bytes()[7]
}

/// The index of the first byte that needs an escape.
fn first_escape(bytes: &[u8]) -> Option<usize> {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let marks = escape_marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return Some(index * 8 + (marks.trailing_zeros() / 8) as usize);
        }
    }
    let place = tail.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
    place.map(|place| words.len() * 8 + place)
}

/// The high bit of each byte that needs an escape. The sums carry nothing into the next byte.
#[inline(always)]
fn escape_marks(word: u64) -> u64 {
    let is_not_zero = |x: u64| ((x & !HIGH) + !HIGH) | x;
    let is_printable = ((word & !HIGH) + ONES * 0x60) | word;
    let is_no_quote = is_not_zero(word ^ (ONES * b'"' as u64));
    let is_no_backslash = is_not_zero(word ^ (ONES * b'\\' as u64));
    !(is_printable & is_no_quote & is_no_backslash) & HIGH
}

/// Appends at most a chunk through the table: stores eight bytes for each byte, then advances by its actual length.
fn push_looked_up(out: &mut Vec<u8>, bytes: &[u8], buffer: &mut [u8; LOOKED_UP]) {
    let mut used = 0;
    for &byte in bytes {
        let (text, length) = TABLE[usize::from(byte)];
        // A chunk takes at most 192 bytes; the mask lets the compiler remove the bounds check.
        let place = used & 0xff;
        buffer[place..place + 8].copy_from_slice(&text.to_le_bytes());
        used += length as usize;
    }
    out.extend_from_slice(&buffer[..used]);
}

/// Appends one byte that needs an escape.
fn push_escape(out: &mut Vec<u8>, byte: u8) {
    let (text, length) = TABLE[usize::from(byte)];
    match length {
        2 => out.extend_from_slice(&(text as u16).to_le_bytes()),
        _ => out.extend_from_slice(&text.to_le_bytes()[..length as usize]),
    }
}

/// The encoding of each byte, lowest byte first, and its length.
static TABLE: [(u64, u64); 256] = table();

const fn table() -> [(u64, u64); 256] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut table = [(0, 1); 256];
    let mut byte = 0;
    while byte < 256 {
        let short = match byte as u8 {
            b'\n' => b'n',
            b'"' => b'"',
            b'\\' => b'\\',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            _ => 0,
        };
        table[byte] = if short != 0 {
            (u64::from_le_bytes([b'\\', short, 0, 0, 0, 0, 0, 0]), 2)
        } else if byte < 0x20 {
            (u64::from_le_bytes([b'\\', b'u', b'0', b'0', HEX[byte >> 4], HEX[byte & 15], 0, 0]), 6)
        } else {
            (byte as u64, 1)
        };
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ours(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        push_json_string(&mut out, text);
        out
    }

    #[test]
    fn every_single_byte_character_is_escaped_as_by_serde_json_at_every_index_of_a_chunk() {
        for byte in 0..0x80u8 {
            for place in 0..70 {
                let mut text = "a".repeat(place);
                text.push(char::from(byte));
                text.push_str("é tail");
                assert_eq!(ours(&text), serde_json::to_vec(&text).unwrap(), "byte {byte:#x} at {place}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_equals_serde_json_and_survives_decoding(text in "(\\PC|[\\x00-\\x24\\\\]|[a-z]{0,40}){0,60}") {
            let encoded = ours(&text);
            prop_assert_eq!(&encoded, &serde_json::to_vec(&text).unwrap());
            prop_assert_eq!(serde_json::from_slice::<String>(&encoded).unwrap(), text);
        }
    }
}
