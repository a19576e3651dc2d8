//! Bytes as base64: the standard alphabet, padded, strict when decoding.

use base64_simd::STANDARD;

/// Appends the base64 text of `bytes`.
pub fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    STANDARD.encode_append(bytes, out);
}

/// Encodes bytes as base64 text.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode_to_string(bytes)
}

/// Decodes base64 text. Padding is required; blanks and other alphabets are errors.
pub fn decode(text: &str) -> Result<Vec<u8>, InvalidBase64> {
    STANDARD.decode_to_vec(text.as_bytes()).map_err(|_| InvalidBase64)
}

/// The error for text that is not padded base64 in the standard alphabet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidBase64;

impl std::fmt::Display for InvalidBase64 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("invalid base64 (expected the standard alphabet with padding and without blanks)")
    }
}

impl std::error::Error for InvalidBase64 {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_standard_padded_alphabet_is_decoded() {
        assert_eq!(decode("aGk=").unwrap(), b"hi");
        assert_eq!(decode("").unwrap(), b"");
        for bad in ["aGk", "aGk==", "a GK", "aGk=\n", "-_-_", "aGl=", "=", "é"] {
            assert_eq!(decode(bad), Err(InvalidBase64), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_survive_encoding_and_decoding(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut out = b"before".to_vec();
            push_base64(&mut out, &bytes);
            prop_assert_eq!(String::from_utf8_lossy(&out[6..]), encode(&bytes));
            prop_assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }
    }
}
