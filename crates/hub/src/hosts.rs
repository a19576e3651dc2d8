//! Connected hosts of this node: messages to them, and the clients that wait for their responses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use link::Outgoing;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::feed::AppId;

/// Requests that wait for a response of a host; further ones are rejected.
const WAITING_REQUESTS: usize = 16 * 1024;
/// The time for which a response is delivered to its client; later ones are dropped. Longer than an approval takes.
const RESPONSE_WITHIN: Duration = Duration::from_secs(3600);

/// Why a message did not reach a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostUnreachable {
    /// The host is not connected.
    #[error("host offline")]
    Offline,
    /// The host does not read its messages.
    #[error("host busy: it does not read its messages")]
    Busy,
    /// Too many clients wait for responses.
    #[error("too many requests are waiting for a response")]
    TooManyRequests,
}

/// Who waits for a response.
#[derive(Debug)]
pub enum RpcWaiter {
    /// An app receives the message as it is.
    App(AppId),
    /// The hub itself.
    Hub(oneshot::Sender<Bytes>),
}

/// The connected hosts of this node.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Arc<Mutex<HostsState>>);

#[derive(Debug, Default)]
struct HostsState {
    connected: HashMap<String, ConnectedHost>,
    /// By host and request. The same request may come from several apps: it runs once.
    waiting: HashMap<(String, String), (Instant, Vec<RpcWaiter>)>,
}

#[derive(Debug)]
struct ConnectedHost {
    generation: i64,
    outgoing: Outgoing,
    replaced: CancellationToken,
}

impl Hosts {
    fn state(&self) -> MutexGuard<'_, HostsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection; the older one of the same host ends. The token is cancelled when a newer one replaces this.
    /// `None` if a newer one is connected already.
    pub fn connect(&self, host: &str, generation: i64, outgoing: Outgoing) -> Option<CancellationToken> {
        let replaced = CancellationToken::new();
        let mut state = self.state();
        if state.connected.get(host).is_some_and(|other| other.generation > generation) {
            return None;
        }
        let new = ConnectedHost { generation, outgoing, replaced: replaced.clone() };
        if let Some(older) = state.connected.insert(host.to_owned(), new) {
            older.replaced.cancel();
        }
        Some(replaced)
    }

    /// Removes a connection. False if a newer one has replaced it.
    pub fn disconnect(&self, host: &str, generation: i64) -> bool {
        let mut state = self.state();
        let is_current = state.connected.get(host).is_some_and(|current| current.generation == generation);
        if is_current {
            state.connected.remove(host);
        }
        is_current
    }

    /// True if the host is connected to this node.
    pub fn is_connected(&self, host: &str) -> bool {
        self.state().connected.contains_key(host)
    }

    /// The number of connected hosts.
    pub fn connected(&self) -> usize {
        self.state().connected.len()
    }

    /// Queues a message for a host.
    pub fn send(&self, host: &str, frame: Bytes) -> Result<(), HostUnreachable> {
        let outgoing = self.state().connected.get(host).map(|connected| connected.outgoing.clone());
        let outgoing = outgoing.ok_or(HostUnreachable::Offline)?;
        outgoing.try_respond(frame).map_err(|error| match error {
            link::TryRespondError::Full(_) => HostUnreachable::Busy,
            link::TryRespondError::Closed => HostUnreachable::Offline,
        })
    }

    /// Queues a request for a host; its response is delivered to `waiter`.
    pub fn request(
        &self,
        host: &str,
        request_id: &str,
        frame: Bytes,
        waiter: RpcWaiter,
    ) -> Result<(), HostUnreachable> {
        let key = (host.to_owned(), request_id.to_owned());
        let mut state = self.state();
        if !state.connected.contains_key(host) {
            return Err(HostUnreachable::Offline);
        }
        if state.waiting.len() >= WAITING_REQUESTS {
            state.waiting.retain(|_, (since, _)| since.elapsed() < RESPONSE_WITHIN);
            if state.waiting.len() >= WAITING_REQUESTS {
                return Err(HostUnreachable::TooManyRequests);
            }
        }
        let (_, waiters) = state.waiting.entry(key.clone()).or_insert_with(|| (Instant::now(), Vec::new()));
        if let (RpcWaiter::App(new), true) = (&waiter, waiters.len() < WAITING_REQUESTS) {
            waiters.retain(|known| !matches!(known, RpcWaiter::App(app) if app == new));
        }
        waiters.push(waiter);
        drop(state);
        self.send(host, frame).inspect_err(|_| {
            self.state().waiting.remove(&key);
        })
    }

    /// The clients that wait for this response.
    pub fn waiters(&self, host: &str, request_id: &str) -> Vec<RpcWaiter> {
        let key = (host.to_owned(), request_id.to_owned());
        self.state().waiting.remove(&key).map(|(_, waiters)| waiters).unwrap_or_default()
    }
}
