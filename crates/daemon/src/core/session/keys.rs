//! Idempotency keys: a request that was answered is not run again; its response is sent again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use wire::jsonrpc::RpcError;

use crate::core::responder::JsonResult;

/// Responses stored per session; beyond it the oldest is dropped.
const MAX_STORED: usize = 1_000;

/// The stored responses of one session. Cheap to clone; locked for short moments only.
#[derive(Debug, Clone, Default)]
pub struct IdempotencyKeys(Arc<Mutex<StoredResponses>>);

#[derive(Debug, Default)]
struct StoredResponses {
    by_key: HashMap<String, StoredResponse>,
    oldest: VecDeque<String>,
}

#[derive(Debug)]
struct StoredResponse {
    /// The request, as a fingerprint: the request itself may be large.
    fingerprint: u64,
    /// `None` while the request runs or waits for an approval.
    response: Option<Result<Value, RpcError>>,
}

/// What is known about a key.
#[derive(Debug)]
pub enum KeyLookup {
    /// Not used before: run the request and store its response.
    New(KeyReservation),
    /// The response to the same request.
    Completed(Result<Value, RpcError>),
    /// Used by another request, or by the same one, which has no response yet.
    InUse,
}

/// A key whose request runs. Dropped without a response, the key is free again.
#[derive(Debug)]
pub struct KeyReservation {
    keys: IdempotencyKeys,
    key: String,
    is_completed: bool,
}

impl IdempotencyKeys {
    /// Whether no request had a key.
    pub fn is_empty(&self) -> bool {
        self.stored().by_key.is_empty()
    }

    /// Looks a key up, and reserves it if it is new.
    pub fn reserve(&self, key: &str, fingerprint: u64) -> KeyLookup {
        let mut stored = self.stored();
        match stored.by_key.get(key) {
            Some(StoredResponse { fingerprint: first, response: Some(response) })
                if *first == fingerprint =>
            {
                KeyLookup::Completed(response.clone())
            }
            Some(_) => KeyLookup::InUse,
            None => {
                stored.by_key.insert(key.to_owned(), StoredResponse { fingerprint, response: None });
                stored.oldest.push_back(key.to_owned());
                stored.drop_oldest();
                KeyLookup::New(KeyReservation {
                    keys: self.clone(),
                    key: key.to_owned(),
                    is_completed: false,
                })
            }
        }
    }

    fn stored(&self) -> MutexGuard<'_, StoredResponses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoredResponses {
    /// Drops the oldest responses beyond the limit. Keys of running requests stay; those have a limit of their own.
    fn drop_oldest(&mut self) {
        while self.oldest.len() > MAX_STORED {
            let is_complete =
                |key: &String| self.by_key.get(key).is_none_or(|entry| entry.response.is_some());
            let Some(index) = self.oldest.iter().position(is_complete) else { return };
            if let Some(key) = self.oldest.remove(index) {
                self.by_key.remove(&key);
            }
        }
    }
}

impl KeyReservation {
    /// Stores the response under the key.
    pub fn complete(mut self, result: &JsonResult) {
        let response = match result {
            Ok(result) => serde_json::to_value(result).map_err(|error| RpcError::internal(error.to_string())),
            Err(error) => Err(error.clone()),
        };
        self.is_completed = true;
        if let Some(entry) = self.keys.stored().by_key.get_mut(&self.key) {
            entry.response = Some(response);
        }
    }
}

impl Drop for KeyReservation {
    fn drop(&mut self) {
        if !self.is_completed {
            let mut stored = self.keys.stored();
            stored.by_key.remove(&self.key);
            stored.oldest.retain(|key| *key != self.key);
        }
    }
}
