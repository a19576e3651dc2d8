//! Text as a JSON string, fast: bulk output passes through here.
//!
//! The usual encoder looks at one byte at a time. Here 32 bytes are tested at once with arithmetic that the
//! compiler turns into vector instructions, runs without an escape are copied whole, and the exact place of an
//! escape is found eight bytes at a time.

const CHUNK: usize = 32;
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Appends `text` as a JSON string with its quotes. The bytes are the same that serde_json writes.
pub fn push_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    push_json_fragment(out, text);
    out.push(b'"');
}

/// Appends `text` as the inside of a JSON string, without the quotes.
pub fn push_json_fragment(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + rest.len() / 16);
    loop {
        let clean = clean_prefix(rest);
        let (run, tail) = rest.split_at(clean);
        out.extend_from_slice(run);
        let Some((&byte, tail)) = tail.split_first() else { return };
        push_escape(out, byte);
        rest = tail;
    }
}

/// How many bytes from the start need no escape.
fn clean_prefix(bytes: &[u8]) -> usize {
    let mut done = 0;
    let (chunks, tail) = bytes.as_chunks::<CHUNK>();
    for chunk in chunks {
        if is_dirty(chunk) {
            return done + first_escape(chunk).unwrap_or(CHUNK);
        }
        done += CHUNK;
    }
    done + first_escape(tail).unwrap_or(tail.len())
}

/// Whether any byte needs an escape. Without a branch inside, so that it becomes vector code.
fn is_dirty(chunk: &[u8; CHUNK]) -> bool {
    let mut dirty = 0u8;
    for &byte in chunk {
        dirty |= u8::from(byte < 0x20) | u8::from(byte == b'"') | u8::from(byte == b'\\');
    }
    dirty != 0
}

/// The place of the first byte that needs an escape.
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

/// The high bit of each byte that needs an escape. A borrow may mark bytes above a true mark, never below the
/// first, and only the first is used.
fn escape_marks(word: u64) -> u64 {
    let zero = |x: u64| x.wrapping_sub(ONES) & !x;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = zero(word ^ (ONES * b'"' as u64));
    let backslash = zero(word ^ (ONES * b'\\' as u64));
    (control | quote | backslash) & HIGH
}

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'\n' => b'n',
        b'"' => b'"',
        b'\\' => b'\\',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        other => {
            let digits = [HEX[usize::from(other >> 4)], HEX[usize::from(other & 15)]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
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
    fn every_single_byte_character_is_escaped_as_serde_json_does_at_every_place_of_a_chunk() {
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
        fn any_text_equals_serde_json_and_comes_back(text in "(\\PC|[\\x00-\\x24\\\\]|[a-z]{0,40}){0,60}") {
            let encoded = ours(&text);
            prop_assert_eq!(&encoded, &serde_json::to_vec(&text).unwrap());
            prop_assert_eq!(serde_json::from_slice::<String>(&encoded).unwrap(), text);
        }
    }
}
