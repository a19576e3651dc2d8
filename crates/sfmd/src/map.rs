//! A map with short texts as keys. Its hash is faster than the standard one and seeded, so that no document can choose
//! keys that collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A map from texts to values.
pub(crate) type TextMap<V> = HashMap<String, V, TextHash>;

/// Makes the hashers of one map.
#[derive(Debug, Clone)]
pub(crate) struct TextHash(u64);

impl Default for TextHash {
    fn default() -> TextHash {
        TextHash(RandomState::new().build_hasher().finish())
    }
}

impl BuildHasher for TextHash {
    type Hasher = TextHasher;

    fn build_hasher(&self) -> TextHasher {
        TextHasher(self.0)
    }
}

/// Folds the product of the text and the seed.
#[derive(Debug)]
pub(crate) struct TextHasher(u64);

/// An odd number without a pattern: the digits of pi.
const PI: u64 = 0x243f_6a88_85a3_08d3;

impl TextHasher {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(PI ^ self.0.rotate_left(32));
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for TextHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.fold(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.fold(u64::from_le_bytes(last));
    }

    /// The end of a text; the length is in the hash already.
    fn write_u8(&mut self, _end: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_found_and_similar_ones_are_not() {
        let mut map = TextMap::default();
        for number in 0..10_000 {
            assert_eq!(map.insert(format!("id-{number}"), number), None);
        }
        assert_eq!((map.get("id-77"), map.get("id-77\0"), map.get("")), (Some(&77), None, None));
        let hash = |text: &str| map.hasher().hash_one(text);
        assert_ne!(hash("a"), hash("a\0"));
        assert_ne!(hash("12345678"), hash("12345678\0"));
    }
}
