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
/// Requests of one app that wait for a response; further ones are rejected.
const WAITING_OF_APP: usize = 1024;
/// The time for which a response is delivered to its client; later ones are dropped. Longer than an approval takes.
const RESPONSE_WITHIN: Duration = Duration::from_secs(3600);
/// The time for which a request that changes something waits for its host to connect again; then it fails.
const RECONNECT_WITHIN: Duration = Duration::from_secs(120);
/// Bytes of waiting requests that can be sent again; a request beyond it fails when its host disconnects.
const REPEATABLE_BYTES: usize = 64 << 20;

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

/// A request for a host.
#[derive(Debug, Clone)]
pub struct HostRequest {
    /// The id that its response has.
    pub request_id: String,
    /// The type of its message.
    pub rpc_type: String,
    /// The run that it is about.
    pub run_id: Option<String>,
    /// Whether it only reads. Then it fails when its host disconnects; another one is sent again when the host connects,
    /// because it may wait for an approval. A host runs a repeated request once.
    pub is_read: bool,
    /// The message.
    pub frame: Bytes,
}

/// A request that has no response, and the clients that wait for it.
#[derive(Debug)]
pub struct Unanswered {
    /// The host that it was sent to.
    pub host: String,
    /// The request; without its message if that was too large to keep.
    pub request: HostRequest,
    /// Who waits for the response.
    pub waiters: Vec<RpcWaiter>,
}

/// The connected hosts of this node.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Arc<Mutex<HostsState>>);

#[derive(Debug, Default)]
struct HostsState {
    connected: HashMap<String, ConnectedHost>,
    /// By host and request. The same request may come from several apps: it runs once.
    waiting: HashMap<(String, String), WaitingRequest>,
    /// How many of them each app waits for.
    of_app: HashMap<AppId, usize>,
    /// The size of the messages in `waiting`.
    kept_bytes: usize,
}

#[derive(Debug)]
struct WaitingRequest {
    since: Instant,
    /// The generation of the connection on which it was sent.
    sent_on: i64,
    /// When its host disconnected.
    offline_since: Option<Instant>,
    request: HostRequest,
    waiters: Vec<RpcWaiter>,
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

    /// Removes a connection, and returns the requests that fail because of it. `None` if a newer one has replaced it.
    pub fn disconnect(&self, host: &str, generation: i64) -> Option<Vec<Unanswered>> {
        let mut state = self.state();
        state.connected.get(host).filter(|current| current.generation == generation)?;
        state.connected.remove(host);
        for waiting in state.of_host(host) {
            waiting.offline_since = Some(Instant::now());
        }
        Some(state.take_all(|key, waiting| key.0 == host && !waiting.is_repeatable()))
    }

    /// The requests of a host that were sent on earlier connections: those to send again on this one, and those that fail.
    pub fn take_over(&self, host: &str, generation: i64) -> (Vec<Bytes>, Vec<Unanswered>) {
        let mut state = self.state();
        let is_lost = |waiting: &WaitingRequest| waiting.request.frame.is_empty();
        let failed =
            state.take_all(|key, waiting| key.0 == host && waiting.sent_on < generation && is_lost(waiting));
        let earlier = state.of_host(host).filter(|waiting| waiting.sent_on < generation);
        let frames = earlier.map(|waiting| {
            (waiting.sent_on, waiting.offline_since) = (generation, None);
            waiting.request.frame.clone()
        });
        (frames.collect(), failed)
    }

    /// The requests of a host that is connected to another node now, or was removed.
    pub fn abandon_host(&self, host: &str) -> Vec<Unanswered> {
        self.state().take_all(|key, _| key.0 == host)
    }

    /// The requests whose host did not connect again in time.
    pub fn abandon_overdue(&self) -> Vec<Unanswered> {
        let is_overdue = |since: Instant| since.elapsed() >= RECONNECT_WITHIN;
        self.state().take_all(|_, waiting| waiting.offline_since.is_some_and(is_overdue))
    }

    /// Ends the connection of a host to this node if it is older than this generation. True if it was.
    pub fn replace_older(&self, host: &str, generation: i64) -> bool {
        let state = self.state();
        let older = state.connected.get(host).filter(|current| current.generation < generation);
        older.inspect(|older| older.replaced.cancel()).is_some()
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
        queue(&outgoing.ok_or(HostUnreachable::Offline)?, frame)
    }

    /// Queues a message for a host, and waits while its queue is full. Returns once the host's connection has it or has ended.
    pub async fn send_when_free(&self, host: &str, frame: Bytes) {
        let outgoing = self.state().connected.get(host).map(|connected| connected.outgoing.clone());
        if let Some(outgoing) = outgoing {
            outgoing.respond(frame).await.ok();
        }
    }

    /// Queues a request for a host; its response is delivered to `waiter`.
    pub fn request(
        &self,
        host: &str,
        request: HostRequest,
        waiter: RpcWaiter,
    ) -> Result<(), HostUnreachable> {
        let key = (host.to_owned(), request.request_id.clone());
        let mut state = self.state();
        if state.waiting.len() >= WAITING_REQUESTS {
            state.forget(|since, _| since.elapsed() >= RESPONSE_WITHIN);
        }
        let is_full = match &waiter {
            RpcWaiter::App(app) => {
                let waiting = state.of_app.get(app).copied().unwrap_or(0);
                waiting >= WAITING_OF_APP && !state.is_waiting(&key, *app)
            }
            RpcWaiter::Hub(_) => false,
        };
        let connected = state.connected.get(host).ok_or(HostUnreachable::Offline)?;
        if is_full || state.waiting.len() >= WAITING_REQUESTS {
            return Err(HostUnreachable::TooManyRequests);
        }
        let generation = connected.generation;
        // Under the lock: the response cannot arrive before its client waits.
        queue(&connected.outgoing, request.frame.clone())?;
        state.wait(key, (request, generation), waiter);
        Ok(())
    }

    /// The clients that wait for this response.
    pub fn waiters(&self, host: &str, request_id: &str) -> Vec<RpcWaiter> {
        self.state().take(&(host.to_owned(), request_id.to_owned()))
    }

    /// Forgets the requests of an app that has disconnected.
    pub fn forget_app(&self, app: AppId) {
        let mut state = self.state();
        if state.of_app.contains_key(&app) {
            state.forget(|_, waiter| matches!(waiter, RpcWaiter::App(other) if *other == app));
        }
    }
}

fn queue(outgoing: &Outgoing, frame: Bytes) -> Result<(), HostUnreachable> {
    outgoing.try_respond(frame).map_err(|error| match error {
        link::TryRespondError::Full(_) => HostUnreachable::Busy,
        link::TryRespondError::Closed => HostUnreachable::Offline,
    })
}

impl WaitingRequest {
    /// True if it can be sent again on the next connection of its host.
    fn is_repeatable(&self) -> bool {
        !self.request.is_read && !self.request.frame.is_empty()
    }
}

impl HostsState {
    fn is_waiting(&self, key: &(String, String), app: AppId) -> bool {
        let is_app = |waiter: &RpcWaiter| matches!(waiter, RpcWaiter::App(other) if *other == app);
        self.waiting.get(key).is_some_and(|waiting| waiting.waiters.iter().any(is_app))
    }

    fn wait(&mut self, key: (String, String), (request, sent_on): (HostRequest, i64), waiter: RpcWaiter) {
        if let RpcWaiter::App(app) = &waiter {
            // A repeated request is answered once.
            if self.is_waiting(&key, *app) {
                return;
            }
            *self.of_app.entry(*app).or_default() += 1;
        }
        let waiting = self.waiting.entry(key).or_insert_with(|| {
            let is_kept = self.kept_bytes + request.frame.len() <= REPEATABLE_BYTES;
            let frame = if is_kept { request.frame.clone() } else { Bytes::new() };
            self.kept_bytes += frame.len();
            let request = HostRequest { frame, ..request };
            WaitingRequest {
                since: Instant::now(),
                sent_on,
                offline_since: None,
                request,
                waiters: Vec::new(),
            }
        });
        waiting.waiters.push(waiter);
    }

    fn of_host(&mut self, host: &str) -> impl Iterator<Item = &mut WaitingRequest> {
        self.waiting.iter_mut().filter(move |(key, _)| key.0 == host).map(|(_, waiting)| waiting)
    }

    /// Removes the clients that wait for a response.
    fn take(&mut self, key: &(String, String)) -> Vec<RpcWaiter> {
        let Some(waiting) = self.waiting.remove(key) else { return Vec::new() };
        self.kept_bytes -= waiting.request.frame.len();
        waiting.waiters.iter().for_each(|waiter| release(&mut self.of_app, waiter));
        waiting.waiters
    }

    /// Removes the requests that match.
    fn take_all(&mut self, is_over: impl Fn(&(String, String), &WaitingRequest) -> bool) -> Vec<Unanswered> {
        let over = self.waiting.iter().filter(|(key, waiting)| is_over(key, waiting));
        let over: Vec<_> = over.map(|(key, waiting)| (key.clone(), waiting.request.clone())).collect();
        let take = |(key, request): ((String, String), HostRequest)| {
            let waiters = self.take(&key);
            Unanswered { host: key.0, request, waiters }
        };
        over.into_iter().map(take).collect()
    }

    /// Removes the waiting clients that match.
    fn forget(&mut self, is_over: impl Fn(Instant, &RpcWaiter) -> bool) {
        let (of_app, kept_bytes) = (&mut self.of_app, &mut self.kept_bytes);
        self.waiting.retain(|_, waiting| {
            waiting.waiters.retain(|waiter| {
                let is_over = is_over(waiting.since, waiter);
                if is_over {
                    release(of_app, waiter);
                }
                !is_over
            });
            if waiting.waiters.is_empty() {
                *kept_bytes -= waiting.request.frame.len();
            }
            !waiting.waiters.is_empty()
        });
    }
}

/// Counts that an app no longer waits for a response.
fn release(of_app: &mut HashMap<AppId, usize>, waiter: &RpcWaiter) {
    if let RpcWaiter::App(app) = waiter
        && let Some(waiting) = of_app.get_mut(app)
    {
        *waiting -= 1;
        if *waiting == 0 {
            of_app.remove(app);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(number: u64) -> AppId {
        AppId::numbered(number)
    }

    fn wait(state: &mut HostsState, id: &str, bytes: usize, number: u64) {
        let (request_id, rpc_type) = (id.to_owned(), "rpc.bash".to_owned());
        let frame = Bytes::from(vec![b'x'; bytes]);
        let request = HostRequest { request_id, rpc_type, run_id: None, is_read: false, frame };
        state.wait(("h".to_owned(), id.to_owned()), (request, 1), RpcWaiter::App(app(number)));
    }

    #[test]
    fn an_app_that_disconnects_waits_for_nothing() {
        let mut state = HostsState::default();
        wait(&mut state, "q", 5, 1);
        wait(&mut state, "q", 5, 1);
        wait(&mut state, "q", 5, 2);
        wait(&mut state, "p", 7, 1);
        assert_eq!(state.of_app.get(&app(1)), Some(&2), "a repeated request counts once");
        assert_eq!(state.kept_bytes, 12);
        let hosts = Hosts(Arc::new(Mutex::new(state)));
        hosts.forget_app(app(1));
        assert!(hosts.waiters("h", "p").is_empty());
        assert_eq!(hosts.waiters("h", "q").len(), 1);
        let state = hosts.state();
        assert!(state.waiting.is_empty() && state.of_app.is_empty() && state.kept_bytes == 0);
    }

    #[test]
    fn requests_beyond_the_limit_are_not_kept_and_fail_with_the_next_connection() {
        let mut state = HostsState::default();
        wait(&mut state, "kept", REPEATABLE_BYTES, 1);
        wait(&mut state, "large", 1, 1);
        let hosts = Hosts(Arc::new(Mutex::new(state)));
        let (frames, failed) = hosts.take_over("h", 1);
        assert!(frames.is_empty() && failed.is_empty(), "they were sent on this connection");
        let (frames, failed) = hosts.take_over("h", 2);
        assert_eq!((frames.len(), failed.len()), (1, 1));
        assert_eq!(failed[0].request.request_id, "large");
        assert!(hosts.take_over("h", 2).0.is_empty(), "it is sent once on each connection");
        assert_eq!(hosts.waiters("h", "kept").len(), 1);
    }
}
