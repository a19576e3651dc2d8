//! Presence: whether anybody is there for a session, and how long it waits for somebody.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How long sessions wait for somebody to come back.
#[derive(Debug, Clone)]
pub struct Retention {
    /// A session that may be resumed, after its client was last heard of. A client's keep-alive should be shorter.
    pub resume: Duration,
    /// Bytes of events kept for such a session beside the logs of its processes; past it the oldest go, counted.
    pub resume_bytes: usize,
    /// A session without a link whose client has never listened, after its last request.
    pub idle: Duration,
    /// A session without a link whose client listened and stopped, after its last request.
    pub unheard: Duration,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            resume: Duration::from_secs(600),
            resume_bytes: 8 * 1024 * 1024,
            idle: Duration::from_secs(300),
            unheard: Duration::from_secs(3),
        }
    }
}

/// Who is there for one session.
#[derive(Debug)]
pub(super) struct Presence {
    /// The number of the link or stream that hears its events.
    heard_by: Option<u64>,
    next: u64,
    /// Whether it belongs to one link, and not to whoever names it.
    has_link: bool,
    may_resume: bool,
    has_been_heard: bool,
    last_seen: Instant,
    /// Held by every request that runs.
    busy: TaskTracker,
}

impl Presence {
    /// A session on a link, which hears it as number 0.
    pub(super) fn on_link(may_resume: bool) -> Presence {
        Presence { heard_by: Some(0), has_link: true, has_been_heard: true, ..Presence::unheard(may_resume) }
    }

    /// A session of a client that asks request by request.
    pub(super) fn unheard(may_resume: bool) -> Presence {
        Presence {
            heard_by: None,
            next: 1,
            has_link: false,
            may_resume,
            has_been_heard: false,
            last_seen: Instant::now(),
            busy: {
                let busy = TaskTracker::new();
                busy.close();
                busy
            },
        }
    }

    /// Whether a link has it: then nobody else may take it.
    pub(super) fn is_on_link(&self) -> bool {
        self.has_link && self.heard_by.is_some()
    }

    /// The number of the link or stream that hears its events.
    pub(super) fn heard_by(&self) -> Option<u64> {
        self.heard_by
    }

    /// Whether anybody hears its events.
    pub(super) fn is_heard(&self) -> bool {
        self.heard_by.is_some()
    }

    /// A number for a link or stream that is about to hear it.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// This link or stream hears it from now on.
    pub(super) fn heard(&mut self, attachment: u64, is_link: bool) {
        self.heard_by = Some(attachment);
        self.has_link = is_link;
        self.has_been_heard = true;
        self.last_seen = Instant::now();
    }

    /// That link or stream is gone, unless another has taken its place.
    pub(super) fn left(&mut self, attachment: u64) {
        if self.heard_by == Some(attachment) {
            self.heard_by = None;
            self.last_seen = Instant::now();
        }
    }

    /// That link or stream may not hear it after all: who did before, a link or not, still does.
    pub(super) fn refused(&mut self, attachment: u64, before: Option<(u64, bool)>) {
        if self.heard_by == Some(attachment) {
            self.heard_by = before.map(|(attachment, _)| attachment);
            self.has_link = before.is_some_and(|(_, is_link)| is_link);
            self.last_seen = Instant::now();
        }
    }

    /// A request came; it counts for as long as this is held.
    pub(super) fn asked(&mut self) -> TaskTrackerToken {
        self.last_seen = Instant::now();
        self.busy.token()
    }

    /// Waits until no request runs.
    pub(super) fn idle(&self) -> impl Future<Output = ()> + Send + 'static {
        let busy = self.busy.clone();
        async move { busy.wait().await }
    }

    /// When the session has waited long enough; never while somebody is there.
    pub(super) fn gives_up_at(&self, retention: &Retention) -> Option<Instant> {
        let patience = match (self.may_resume, self.has_been_heard) {
            _ if self.heard_by.is_some() => return None,
            (true, _) => retention.resume,
            (false, true) => retention.unheard,
            (false, false) => retention.idle,
        };
        Some(self.last_seen + patience)
    }

    /// Whether a request still runs; if not, the waiting counts from its end on.
    pub(super) fn is_busy(&mut self) -> bool {
        let is_busy = !self.busy.is_empty();
        if is_busy {
            self.last_seen = Instant::now();
        }
        is_busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARCHITECTURE.md, invariant 32.
    #[tokio::test(start_paused = true)]
    async fn a_session_waits_as_long_as_its_kind_says() {
        let retention = Retention::default();
        let now = Instant::now();
        let mut link = Presence::on_link(true);
        assert_eq!(link.gives_up_at(&retention), None, "somebody is there");
        link.left(7);
        assert!(link.is_on_link(), "another link's end is none of its business");
        link.left(0);
        assert_eq!(link.gives_up_at(&retention), Some(now + retention.resume));
        let mut asked = Presence::unheard(false);
        assert_eq!(asked.gives_up_at(&retention), Some(now + retention.idle));
        let number = asked.number();
        asked.heard(number, false);
        assert_eq!(asked.gives_up_at(&retention), None);
        asked.left(number);
        assert_eq!(asked.gives_up_at(&retention), Some(now + retention.unheard));
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_was_refused_leaves_the_one_before_in_its_place() {
        let mut presence = Presence::unheard(false);
        presence.heard(1, false);
        presence.heard(2, true);
        presence.refused(2, Some((1, false)));
        assert!(presence.is_heard() && !presence.is_on_link());
        presence.refused(2, None);
        assert_eq!(presence.gives_up_at(&Retention::default()), None, "the first still listens");
        presence.left(1);
        assert!(!presence.is_heard());
    }

    /// ARCHITECTURE.md, invariant 32.
    #[tokio::test(start_paused = true)]
    async fn a_running_request_counts_as_being_there() {
        let mut presence = Presence::unheard(false);
        let running = presence.asked();
        tokio::time::advance(Duration::from_secs(1_000)).await;
        assert!(presence.is_busy());
        let began = Instant::now();
        drop(running);
        assert!(!presence.is_busy());
        assert_eq!(presence.gives_up_at(&Retention::default()), Some(began + Retention::default().idle));
    }
}
