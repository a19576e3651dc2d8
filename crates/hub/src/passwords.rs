//! Passwords: argon2id hashes, computed on a few threads of their own and in a time that does not depend on the user.

use std::sync::{Arc, OnceLock};

use argon2::Argon2;
use argon2::password_hash::rand_core::{self, CryptoRng, RngCore};
use argon2::password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString};
use tokio::sync::Semaphore;

/// Hashes that are computed at a time; further ones wait. Each uses 19 MiB.
const CONCURRENT: usize = 2;

/// Why a password cannot be hashed.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The password is empty or too long.
    #[error("a password has 1 to {MAX_PASSWORD} bytes")]
    Length,
    /// Hashing failed.
    #[error("hashing the password failed: {0}")]
    Hash(argon2::password_hash::Error),
}

/// The limit on the length of a password, in bytes.
const MAX_PASSWORD: usize = 1024;

/// The hash of a new password, in PHC format.
pub fn hash(password: &str) -> Result<String, PasswordError> {
    if password.is_empty() || password.len() > MAX_PASSWORD {
        return Err(PasswordError::Length);
    }
    let salt = SaltString::generate(SystemRandom);
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt).map_err(PasswordError::Hash)?;
    Ok(hash.to_string())
}

/// Checks passwords off the async threads.
#[derive(Debug, Clone)]
pub struct PasswordChecker {
    slots: Arc<Semaphore>,
}

impl Default for PasswordChecker {
    fn default() -> PasswordChecker {
        PasswordChecker { slots: Arc::new(Semaphore::new(CONCURRENT)) }
    }
}

impl PasswordChecker {
    /// True if the password matches the hash. Without a hash, the same work is done and the result is false.
    pub async fn matches(&self, password: String, hash: Option<String>) -> bool {
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await;
        let checked = tokio::task::spawn_blocking(move || {
            let is_right = verify(&password, hash.as_deref().unwrap_or_else(|| absent_user()));
            is_right && hash.is_some()
        });
        checked.await.unwrap_or(false)
    }
}

fn verify(password: &str, hash: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    password.len() <= MAX_PASSWORD && Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
}

/// A hash with the parameters of all others, for users that do not exist.
fn absent_user() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| hash("no user has this password").unwrap_or_default())
}

/// The random bytes of the operating system.
struct SystemRandom;

impl RngCore for SystemRandom {
    fn next_u32(&mut self) -> u32 {
        rand_core::impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        rand_core::impls::next_u64_via_fill(self)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        // A salt has to differ from others; it is no secret. Without randomness it is derived from the time.
        if getrandom::fill(bytes).is_err() {
            let time = jiff::Timestamp::now().as_nanosecond().to_le_bytes();
            bytes.iter_mut().zip(time.iter().cycle()).for_each(|(byte, part)| *byte = *part);
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

impl CryptoRng for SystemRandom {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_right_password_of_an_existing_user_matches() {
        let checker = PasswordChecker::default();
        let stored = hash("correct horse").unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(checker.matches("correct horse".to_owned(), Some(stored.clone())).await);
        assert!(!checker.matches("wrong".to_owned(), Some(stored.clone())).await);
        assert!(!checker.matches("no user has this password".to_owned(), None).await);
        assert!(!checker.matches("x".to_owned(), Some("not a hash".to_owned())).await);
        assert_ne!(hash("correct horse").unwrap(), stored, "each hash has its own salt");
        assert!(hash("").is_err() && hash(&"x".repeat(MAX_PASSWORD + 1)).is_err());
    }
}
