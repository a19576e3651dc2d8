//! The keys of accepted inputs: an input with a known key has no effect.

use std::collections::VecDeque;
use std::future::Future;

use engine::Error;
use tokio::sync::Mutex;
use wire::keeper::MAX_INPUT_KEYS;

/// The keys that a keeper remembers, the oldest first. They live in memory, as long as the process that got the inputs.
#[derive(Debug, Default)]
pub(super) struct InputKeys {
    accepted: Mutex<VecDeque<String>>,
}

impl InputKeys {
    /// Runs `input` unless its key is known; `None` for a repetition. One at a time: a repetition that arrives while the
    /// first input waits for the program gets the result of the first.
    pub(super) async fn once(
        &self,
        key: String,
        input: impl Future<Output = Result<usize, Error>>,
    ) -> Result<Option<usize>, Error> {
        let mut accepted = self.accepted.lock().await;
        if accepted.contains(&key) {
            return Ok(None);
        }
        let count = input.await?;
        if accepted.len() >= MAX_INPUT_KEYS {
            accepted.pop_front();
        }
        accepted.push_back(key);
        Ok(Some(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failed_input_leaves_its_key_unused() {
        let keys = InputKeys::default();
        let failed = keys.once("a".to_owned(), async { Err(Error::InputClosed) }).await;
        assert!(matches!(failed, Err(Error::InputClosed)));
        assert_eq!(keys.once("a".to_owned(), async { Ok(3) }).await.unwrap(), Some(3));
        assert_eq!(keys.once("a".to_owned(), async { Ok(3) }).await.unwrap(), None);
    }

    #[tokio::test]
    async fn the_oldest_key_is_forgotten_at_the_limit() {
        let keys = InputKeys::default();
        for number in 0..=MAX_INPUT_KEYS {
            assert_eq!(keys.once(number.to_string(), async { Ok(1) }).await.unwrap(), Some(1));
        }
        assert_eq!(keys.once("1".to_owned(), async { Ok(1) }).await.unwrap(), None);
        assert_eq!(keys.once("0".to_owned(), async { Ok(1) }).await.unwrap(), Some(1));
    }
}
