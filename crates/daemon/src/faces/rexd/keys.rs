//! Idempotency keys: a request that was answered is not done again, its answer is given again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use wire::jsonrpc::RpcError;

use super::errors::key_in_use;

/// Keys remembered per session; past it the oldest is forgotten.
const KEYS_KEPT: usize = 1_000;

/// The answers of one session by key. Shared with the tasks that finish requests; locked for moments only.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    answers: HashMap<String, Entry>,
    oldest: VecDeque<String>,
    /// Keys of requests that somebody is asked about; as many as may be in flight.
    claimed: HashSet<String>,
}

#[derive(Debug)]
struct Entry {
    /// What the request said, as a fingerprint: the request itself may be large.
    request: u64,
    answer: Option<Result<Value, RpcError>>,
}

/// What is known about a key.
#[derive(Debug)]
pub(super) enum Seen {
    /// Never seen: do it, and keep the answer under this.
    First(Kept),
    /// Done before.
    Answered(Result<Value, RpcError>),
}

/// What a key says about a request before anybody looks at what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyState {
    /// Nothing, or it has none.
    Free,
    /// The request was answered before.
    Answered,
    /// Somebody is being asked about a request with this key.
    Claimed,
}

/// A key whose request waits for somebody to decide. Dropped, the key is free again.
#[derive(Debug)]
pub(super) struct Claim {
    keys: Keys,
    key: String,
}

/// A key whose request is being done. Dropped without an answer, the key is free again.
#[derive(Debug)]
pub(super) struct Kept {
    keys: Keys,
    key: String,
    is_answered: bool,
}

impl Keys {
    /// Whether no request had one.
    pub(super) fn is_empty(&self) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.answers.is_empty() && known.claimed.is_empty()
    }

    /// Looks a key up for a request; the same key for another request, or while the first is under way, is refused.
    pub(super) fn look(&self, key: &str, request: u64) -> Result<Seen, RpcError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.answers.get(key) {
            Some(Entry { request: first, answer: Some(answer) }) if *first == request => {
                Ok(Seen::Answered(answer.clone()))
            }
            Some(_) => Err(key_in_use()),
            None => {
                known.answers.insert(key.to_owned(), Entry { request, answer: None });
                known.oldest.push_back(key.to_owned());
                known.forget_oldest();
                Ok(Seen::First(Kept { keys: self.clone(), key: key.to_owned(), is_answered: false }))
            }
        }
    }
}

impl Keys {
    /// What a key says about a request.
    pub(super) fn state(&self, key: &str, request: impl FnOnce() -> u64) -> KeyState {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.answers.get(key) {
            Some(entry) if entry.answer.is_some() && entry.request == request() => KeyState::Answered,
            _ if known.claimed.contains(key) => KeyState::Claimed,
            _ => KeyState::Free,
        }
    }

    /// Holds a key while somebody is asked about its request.
    pub(super) fn claim(&self, key: &str) -> Claim {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).claimed.insert(key.to_owned());
        Claim { keys: self.clone(), key: key.to_owned() }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.keys.0.lock().unwrap_or_else(PoisonError::into_inner).claimed.remove(&self.key);
    }
}

impl Known {
    /// Forgets the oldest answers beyond the bound. A request that is under way keeps its key: in-flight requests
    /// have a bound of their own.
    fn forget_oldest(&mut self) {
        while self.oldest.len() > KEYS_KEPT {
            let is_answered = |key: &String| self.answers.get(key).is_none_or(|entry| entry.answer.is_some());
            let Some(place) = self.oldest.iter().position(is_answered) else { return };
            if let Some(key) = self.oldest.remove(place) {
                self.answers.remove(&key);
            }
        }
    }
}

impl Kept {
    /// Remembers the answer.
    pub(super) fn answered(mut self, answer: Result<Value, RpcError>) {
        self.is_answered = true;
        let mut known = self.keys.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.answers.get_mut(&self.key) {
            entry.answer = Some(answer);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.is_answered {
            let mut known = self.keys.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.answers.remove(&self.key);
            known.oldest.retain(|key| *key != self.key);
        }
    }
}
