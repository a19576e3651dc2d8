//! The chain: how a line is bound to the line before it.
//!
//! A line is `BODY,"prev":"P","hash":"H"}` where `BODY` is a JSON object without its closing brace, `P` the hash
//! of the line before (zeros for the first) and `H` the SHA-256 of `P` followed by the line without `,"hash":"H"`.

use sha2::{Digest, Sha256};

/// Length of a hash in hexadecimal.
const HEX: usize = 64;
const PREV: &[u8] = b",\"prev\":\"";
const HASH: &[u8] = b",\"hash\":\"";
const END: &[u8] = b"\"}";

/// A hash in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash([u8; HEX]);

impl Hash {
    /// What the first line of a file is bound to.
    pub(super) const START: Self = Self([b'0'; HEX]);

    /// The hash of some bytes.
    pub(super) fn of(parts: &[&[u8]]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hasher = Sha256::new();
        parts.iter().for_each(|part| hasher.update(part));
        let mut hex = [0; HEX];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(hasher.finalize()) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        Self(hex)
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    fn from_hex(hex: &[u8]) -> Option<Self> {
        let digits = hex.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        <[u8; HEX]>::try_from(hex).ok().filter(|_| digits).map(Self)
    }
}

/// Appends a line whose body is given without its closing brace, and returns its hash.
pub(super) fn append(batch: &mut Vec<u8>, body: &[u8], prev: &Hash) -> Hash {
    let start = batch.len();
    for part in [body, PREV, &prev.0, END] {
        batch.extend_from_slice(part);
    }
    let hash = Hash::of(&[&prev.0, &batch[start..]]);
    // The closing brace makes room for the hash.
    batch.truncate(batch.len() - 1);
    for part in [HASH, &hash.0, END, b"\n"] {
        batch.extend_from_slice(part);
    }
    hash
}

/// What a line says about its place in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainLinks {
    pub(super) prev: Hash,
    pub(super) hash: Hash,
}

/// The links of a line (without its line end), if it is one and its hash is right.
pub(super) fn links(line: &[u8]) -> Option<ChainLinks> {
    let (rest, hash) = field(line, HASH)?;
    // With the quote of `prev` and a brace instead of the hash, this is what was hashed.
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
    fn a_line_carries_its_own_proof() {
        let mut batch = Vec::new();
        let first = append(&mut batch, br#"{"a":1"#, &Hash::START);
        let second = append(&mut batch, br#"{"b":2"#, &first);
        let lines: Vec<&[u8]> = batch.split(|byte| *byte == b'\n').collect();
        assert_eq!(links(lines[0]), Some(ChainLinks { prev: Hash::START, hash: first }));
        assert_eq!(links(lines[1]), Some(ChainLinks { prev: first, hash: second }));
        let parsed: serde_json::Value = serde_json::from_slice(lines[1]).unwrap();
        assert_eq!(parsed["prev"], first.as_str());
        assert_eq!(parsed["hash"], second.as_str());
    }

    #[test]
    fn no_byte_of_a_line_can_be_changed() {
        let mut batch = Vec::new();
        append(&mut batch, br#"{"a":1"#, &Hash::START);
        let line = &batch[..batch.len() - 1];
        for at in 0..line.len() {
            let mut changed = line.to_vec();
            changed[at] ^= 1;
            assert_eq!(links(&changed), None, "byte {at}");
        }
    }
}
