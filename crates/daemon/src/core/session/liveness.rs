//! Whether a session has a connection, and how long it is kept without one.

use std::time::Duration;

use link::task::Tasks;
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How long sessions are kept without a connection, and how many of them.
#[derive(Debug, Clone)]
pub struct Retention {
    /// A resumable session, after its last connection or request. A client's keep-alive should be shorter.
    pub resume: Duration,
    /// Bytes of events kept for a resumable session beside the logs of its processes; beyond it the oldest are dropped
    /// and counted as lost.
    pub resume_bytes: usize,
    /// A session that never had a connection or event stream, after its last request.
    pub idle: Duration,
    /// A session whose event stream was closed and that cannot be resumed, after its last request.
    pub stream_closed: Duration,
    /// Sessions that may be disconnected at the same time; one more ends at once.
    pub max_disconnected: usize,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            resume: Duration::from_secs(600),
            resume_bytes: 8 * 1024 * 1024,
            idle: Duration::from_secs(300),
            stream_closed: Duration::from_secs(3),
            max_disconnected: usize::MAX,
        }
    }
}

/// Identifies one connection or event stream of a session; a later one has a larger number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubscriptionId(u64);

impl SubscriptionId {
    /// The connection that opened the session.
    pub const FIRST: SubscriptionId = SubscriptionId(0);
}

/// A subscriber: its id, and whether it is a connection rather than an event stream.
pub type Subscriber = (SubscriptionId, bool);

/// Which connection a session has, and since when it has none.
#[derive(Debug)]
pub struct SessionLiveness {
    subscriber: Option<SubscriptionId>,
    next: u64,
    /// Whether the subscriber is a connection: then no other may take the session.
    on_connection: bool,
    is_resumable: bool,
    was_subscribed: bool,
    last_active: Instant,
    /// Holds a token for every running request.
    running: Tasks,
}

impl SessionLiveness {
    /// A session on the connection that opened it.
    pub fn connected(is_resumable: bool) -> SessionLiveness {
        SessionLiveness {
            subscriber: Some(SubscriptionId::FIRST),
            on_connection: true,
            was_subscribed: true,
            ..SessionLiveness::unsubscribed(is_resumable)
        }
    }

    /// A session of a client that sends each request by itself.
    pub fn unsubscribed(is_resumable: bool) -> SessionLiveness {
        let running = Tasks::new();
        running.close();
        SessionLiveness {
            subscriber: None,
            next: 1,
            on_connection: false,
            is_resumable,
            was_subscribed: false,
            last_active: Instant::now(),
            running,
        }
    }

    /// Whether a connection has it.
    pub fn is_connected(&self) -> bool {
        self.on_connection && self.subscriber.is_some()
    }

    /// The connection or event stream that receives its events.
    pub fn subscriber(&self) -> Option<SubscriptionId> {
        self.subscriber
    }

    /// Whether any connection or event stream receives its events.
    pub fn is_subscribed(&self) -> bool {
        self.subscriber.is_some()
    }

    /// Makes a new connection or event stream the subscriber.
    pub fn subscribe(&mut self, is_connection: bool) -> SubscriptionId {
        let id = SubscriptionId(self.next);
        self.next += 1;
        self.subscriber = Some(id);
        self.on_connection = is_connection;
        self.was_subscribed = true;
        self.last_active = Instant::now();
        id
    }

    /// The connection or event stream is gone; ignored if another has replaced it.
    pub fn unsubscribe(&mut self, id: SubscriptionId) {
        if self.subscriber == Some(id) {
            self.subscriber = None;
            self.last_active = Instant::now();
        }
    }

    /// A subscription was refused: the one before it stays.
    pub fn restore(&mut self, refused: SubscriptionId, before: Option<Subscriber>) {
        if self.subscriber == Some(refused) {
            self.subscriber = before.map(|(id, _)| id);
            self.on_connection = before.is_some_and(|(_, is_connection)| is_connection);
            self.last_active = Instant::now();
        }
    }

    /// A request has arrived; it counts as running while the token is held.
    pub fn request_started(&mut self) -> TaskTrackerToken {
        self.last_active = Instant::now();
        self.running.token()
    }

    /// Waits until no request runs.
    pub fn idle(&self) -> impl Future<Output = ()> + Send + 'static {
        let running = self.running.clone();
        async move { running.wait().await }
    }

    /// When the session ends for want of a connection; `None` while it has one.
    pub fn expires_at(&self, retention: &Retention) -> Option<Instant> {
        let kept = match (self.is_resumable, self.was_subscribed) {
            _ if self.subscriber.is_some() => return None,
            (true, _) => retention.resume,
            (false, true) => retention.stream_closed,
            (false, false) => retention.idle,
        };
        Some(self.last_active + kept)
    }

    /// Whether a request runs; the time without a connection counts from the end of the last one.
    pub fn is_busy(&mut self) -> bool {
        let is_busy = !self.running.is_empty();
        if is_busy {
            self.last_active = Instant::now();
        }
        is_busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARCHITECTURE.md, invariant 32.
    #[tokio::test(start_paused = true)]
    async fn a_session_is_kept_as_long_as_its_kind_says() {
        let retention = Retention::default();
        let now = Instant::now();
        let mut resumable = SessionLiveness::connected(true);
        assert_eq!(resumable.expires_at(&retention), None, "it has a connection");
        resumable.unsubscribe(SubscriptionId(7));
        assert!(resumable.is_connected(), "the end of another connection changes nothing");
        resumable.unsubscribe(SubscriptionId::FIRST);
        assert_eq!(resumable.expires_at(&retention), Some(now + retention.resume));
        let mut polled = SessionLiveness::unsubscribed(false);
        assert_eq!(polled.expires_at(&retention), Some(now + retention.idle));
        let id = polled.subscribe(false);
        assert_eq!(polled.expires_at(&retention), None);
        polled.unsubscribe(id);
        assert_eq!(polled.expires_at(&retention), Some(now + retention.stream_closed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_subscriber_leaves_the_one_before_in_place() {
        let mut liveness = SessionLiveness::unsubscribed(false);
        let first = liveness.subscribe(false);
        let second = liveness.subscribe(true);
        liveness.restore(second, Some((first, false)));
        assert!(liveness.is_subscribed() && !liveness.is_connected());
        liveness.restore(second, None);
        assert_eq!(liveness.expires_at(&Retention::default()), None, "the first is still subscribed");
        liveness.unsubscribe(first);
        assert!(!liveness.is_subscribed());
    }

    /// ARCHITECTURE.md, invariant 32.
    #[tokio::test(start_paused = true)]
    async fn a_running_request_keeps_its_session() {
        let mut liveness = SessionLiveness::unsubscribed(false);
        let running = liveness.request_started();
        tokio::time::advance(Duration::from_secs(1_000)).await;
        assert!(liveness.is_busy());
        let ended = Instant::now();
        drop(running);
        assert!(!liveness.is_busy());
        assert_eq!(liveness.expires_at(&Retention::default()), Some(ended + Retention::default().idle));
    }
}
