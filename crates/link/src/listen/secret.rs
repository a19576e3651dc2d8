//! Secrets, which nothing prints, and their digests, which are compared and stored instead.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The length of a SHA-256 digest, and of the random bytes in a new token.
const BYTES: usize = 32;

/// A token in clear text. Drop it as soon as its [`TokenDigest`] is known.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text that must not be printed.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// A new token: 32 random bytes in hexadecimal.
    pub fn random() -> Result<Secret, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Secret(hex::encode(bytes)))
    }

    /// The text, to write or send it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The digest to compare or store.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest::of(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.digest().matches(&other.digest())
    }
}

impl Eq for Secret {}

/// The SHA-256 digest of a token. Look-ups by digest take a time that reveals nothing about the token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenDigest([u8; BYTES]);

impl TokenDigest {
    /// The digest of a token in clear text.
    pub fn of(token: &str) -> TokenDigest {
        TokenDigest(Sha256::digest(token.as_bytes()).into())
    }

    /// Parses 64 hexadecimal digits.
    pub fn from_hex(digits: &str) -> Option<TokenDigest> {
        let mut bytes = [0; BYTES];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        Some(TokenDigest(bytes))
    }

    /// The raw bytes, to store them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Compares in a time that does not depend on the position of a difference.
    pub fn matches(&self, other: &TokenDigest) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |sum, (one, two)| sum | (one ^ two));
        std::hint::black_box(difference) == 0
    }
}

/// Prints no bytes: a short token could be guessed from its digest.
impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_parsed_from_64_hexadecimal_digits() {
        let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(TokenDigest::from_hex(hex), Some(TokenDigest::of("test")));
        assert_eq!(TokenDigest::from_hex(&hex.to_uppercase()), Some(TokenDigest::of("test")));
        for wrong in
            ["", "9f", &hex[1..], &format!("{hex}0"), &hex.replace('9', "g"), &hex.replace("9f", "é")]
        {
            assert_eq!(TokenDigest::from_hex(wrong), None, "{wrong}");
        }
    }

    /// ARCHITECTURE.md, invariant 36.
    #[test]
    fn nothing_prints_a_secret() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?} {:?}", secret.digest()), "Secret TokenDigest");
    }

    #[test]
    fn new_tokens_are_long_and_differ() {
        let (one, two) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_eq!(one.expose().len(), 64);
        assert_ne!(one, two);
    }
}
