//! Secrets: tokens on their way in, which nothing prints, and the digests that are kept of them.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// Bytes of a SHA-256.
const BYTES: usize = 32;

/// A token as it was given. Nothing prints it; it is dropped as soon as its [`Digest`] is known.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text to itself.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for those who have to hash or write it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.0)
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

/// The SHA-256 of a token: all that stays in memory of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; BYTES]);

impl Digest {
    /// The digest of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// A digest as an operator writes it: 64 hexadecimal digits.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digits: Vec<u8> =
            hex.chars().map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect::<Option<_>>()?;
        let bytes: Vec<u8> =
            digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
        <[u8; BYTES]>::try_from(bytes).ok().filter(|_| digits.len() == 2 * BYTES).map(Self)
    }

    /// Whether both are the same, in a time that does not depend on where they differ.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |sum, (one, two)| sum | (one ^ two));
        std::hint::black_box(difference) == 0
    }
}

/// A short token could be guessed from its digest, so that is not printed either.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

/// As many random bytes as a digest has, in hexadecimal: a new token.
pub(super) fn random_token() -> Result<Secret, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(Secret::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_from_hexadecimal_and_from_nothing_else() {
        let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(Digest::from_hex(hex), Some(Digest::of("test")));
        assert_eq!(Digest::from_hex(&hex.to_uppercase()), Some(Digest::of("test")));
        for wrong in
            ["", "9f", &hex[1..], &format!("{hex}0"), &hex.replace('9', "g"), &hex.replace("9f", "é")]
        {
            assert_eq!(Digest::from_hex(wrong), None, "{wrong}");
        }
    }

    /// ARCHITECTURE.md, invariant 36.
    #[test]
    fn nothing_prints_a_secret() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?} {:?}", secret.digest()), "Secret Digest");
    }

    #[test]
    fn new_tokens_are_long_and_differ() {
        let (one, two) = (random_token().unwrap(), random_token().unwrap());
        assert_eq!(one.expose().len(), 64);
        assert_ne!(one, two);
    }
}
