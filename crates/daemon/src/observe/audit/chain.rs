//! The hash chain of the audit file.
//!
//! A line is `BODY,"prev":"P","hash":"H"}` where `BODY` is a JSON object without its closing brace, `P` the hash
//! of the line before (zeros for the first) and `H` the SHA-256 of `P` followed by the line without `,"hash":"H"`.

use sha2::{Digest, Sha256};

/// The length of a hash in hexadecimal digits.
const HEX: usize = 64;
const PREV: &[u8] = b",\"prev\":\"";
const HASH: &[u8] = b",\"hash\":\"";
const END: &[u8] = b"\"}";

/// A hash in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash([u8; HEX]);

impl Default for Hash {
    /// The `prev` of the first line of a file.
    fn default() -> Self {
        Self([b'0'; HEX])
    }
}

impl Hash {
    /// The hash of the concatenated parts.
    pub(super) fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        parts.iter().for_each(|part| hasher.update(part));
        let mut digits = [0; HEX];
        // The slice has the right length.
        let _encoded = hex::encode_to_slice(hasher.finalize(), &mut digits);
        Self(digits)
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    fn from_hex(digits: &[u8]) -> Option<Self> {
        let is_hex = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        <[u8; HEX]>::try_from(digits).ok().filter(|_| is_hex).map(Self)
    }
}

/// Appends a line to a batch and returns its hash. `body` has no closing brace.
pub(super) fn append(batch: &mut Vec<u8>, body: &[u8], prev: &Hash) -> Hash {
    let start = batch.len();
    for part in [body, PREV, &prev.0, END] {
        batch.extend_from_slice(part);
    }
    let hash = Hash::of(&[&prev.0, &batch[start..]]);
    // The hash goes before the closing brace.
    batch.truncate(batch.len() - 1);
    for part in [HASH, &hash.0, END, b"\n"] {
        batch.extend_from_slice(part);
    }
    hash
}

/// The two hashes at the end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainLinks {
    pub(super) prev: Hash,
    pub(super) hash: Hash,
}

/// The hashes of a line without its line end; `None` if it is not a record or its hash is wrong.
pub(super) fn links(line: &[u8]) -> Option<ChainLinks> {
    let (rest, hash) = field(line, HASH)?;
    // The hash covers the line with a brace in place of the `hash` field.
    let (_, prev) = field(&[rest, b"}"].concat(), PREV)?;
    (Hash::of(&[&prev.0, rest, b"}"]) == hash).then_some(ChainLinks { prev, hash })
}

/// Splits `…NAME<hash>"}` before the name.
fn field<'l>(line: &'l [u8], name: &[u8]) -> Option<(&'l [u8], Hash)> {
    let line = line.strip_suffix(END)?;
    let (rest, hex) = line.split_at_checked(line.len().checked_sub(HEX)?)?;
    Some((rest.strip_suffix(name)?, Hash::from_hex(hex)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_carries_its_hash_and_the_one_before() {
        let mut batch = Vec::new();
        let first = append(&mut batch, br#"{"a":1"#, &Hash::default());
        let second = append(&mut batch, br#"{"b":2"#, &first);
        let lines: Vec<&[u8]> = batch.split(|byte| *byte == b'\n').collect();
        assert_eq!(links(lines[0]), Some(ChainLinks { prev: Hash::default(), hash: first }));
        assert_eq!(links(lines[1]), Some(ChainLinks { prev: first, hash: second }));
        let parsed: serde_json::Value = serde_json::from_slice(lines[1]).unwrap();
        assert_eq!(parsed["prev"], first.as_str());
        assert_eq!(parsed["hash"], second.as_str());
    }

    #[test]
    fn no_byte_of_a_line_can_be_changed() {
        let mut batch = Vec::new();
        append(&mut batch, br#"{"a":1"#, &Hash::default());
        let line = &batch[..batch.len() - 1];
        for at in 0..line.len() {
            let mut changed = line.to_vec();
            changed[at] ^= 1;
            assert_eq!(links(&changed), None, "byte {at}");
        }
    }
}
