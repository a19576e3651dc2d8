//! Lingering: `rexd --stdio` outlives its streams for the sessions that wait for their client, and the next one brings the
//! client to them.
//!
//! Each such session has a `Landing`, a socket in the state folder. A client that comes back starts `rexd --stdio` anew,
//! as it always does; that one finds the landing and becomes a `ferry`: it carries bytes and knows nothing.

mod ferry;
mod landing;

pub use ferry::Crossing;
pub use landing::Landings;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use link::stdio::Streams;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::core::state;
use crate::faces::rexd::{self, Arrival, Service, Sessions};
use crate::net::auth::{Caller, RejectionLog};
use crate::net::listen::peer_caller;
use crate::observe::metrics::Transport;
use landing::Landing;
use link::listen::accept;

/// The longest that a session waits for its client. Nobody looks after a daemon without a listener, so it is soon gone;
/// a client whose link was cut is back in less.
pub const LINGER: Duration = Duration::from_secs(60);
/// How long a session is open before it gets its landing. Most sessions are over by then and never need one.
const QUIET: Duration = Duration::from_millis(20);
/// Connections at one landing at the same time; the next one is closed at once.
const MAX_CONNECTIONS: usize = 8;

/// What makes a daemon without listeners wait for its clients. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Lingering {
    landings: Landings,
    /// Cancelled when the streams are gone: whoever has no landing yet needs one now.
    is_cut: CancellationToken,
    /// The landings and their connections.
    tasks: TaskTracker,
}

impl Lingering {
    /// Lingers below this state folder, if it can be used.
    pub fn new(state: Option<&Path>) -> Option<Lingering> {
        let landings = Landings::new(state?);
        match landings.check().or_else(|_none_yet| landings.make()) {
            Ok(()) => {
                Some(Lingering { landings, is_cut: CancellationToken::new(), tasks: TaskTracker::new() })
            }
            Err(error) => {
                tracing::debug!(%error, "sessions end with their streams: there is no place to wait");
                None
            }
        }
    }

    /// Brings a client to the session it comes back to, if an older daemon has it.
    pub async fn cross(&self, streams: Streams, stop: &CancellationToken) -> Crossing {
        ferry::cross(&self.landings, streams, stop).await
    }

    /// The streams are gone, or as good as that.
    pub(crate) fn hurry(&self) {
        self.is_cut.cancel();
    }

    /// Makes a session reachable until it is `over`. Nothing is done for it at once.
    pub(crate) fn attend(
        &self,
        service: &Arc<Service>,
        session: Arc<str>,
        over: impl Future<Output = ()> + Send + 'static,
    ) {
        let (this, service) = (self.clone(), service.clone());
        // Lives until the session is over.
        self.tasks.spawn(async move {
            tokio::pin!(over);
            tokio::select! {
                biased;
                () = &mut over => return,
                () = this.is_cut.cancelled() => {}
                () = tokio::time::sleep(QUIET) => {}
            }
            let (landings, name) = (this.landings.clone(), session.clone());
            let bound = tokio::task::spawn_blocking(move || landings.bind(&name)).await;
            match bound.unwrap_or_else(|error| Err(std::io::Error::other(error))).and_then(Landing::listen) {
                Ok(landing) => tokio::select! {
                    () = over => {}
                    () = this.receive(&landing, &service, &session) => {}
                },
                Err(error) => {
                    tracing::warn!(%error, session = &*session, "the session cannot be resumed after a cut");
                }
            }
        });
    }

    /// Takes connections of this user to one session.
    async fn receive(&self, landing: &Landing, service: &Arc<Service>, session: &Arc<str>) {
        let (rejections, here) = (RejectionLog::new(service.audit.clone()), TaskTracker::new());
        loop {
            let (stream, _unnamed) = accept(|| landing.accept(), || {}).await;
            if let Err(rejection) = peer_caller(&stream) {
                rejections.record("landing", &rejection, None);
                continue;
            }
            if here.len() >= MAX_CONNECTIONS {
                continue;
            }
            let (input, output) = stream.into_split();
            let link = link::ndjson::link(input, output, &crate::serve::link_limits());
            // The same somebody as on the streams: only the same user comes here, and only with the session's token.
            let arrival = Arrival::new(Caller::on_stdio(), Transport::Stdio).resuming(session.clone());
            let serving = rexd::serve(service.clone(), link, arrival, service.stop.clone());
            self.tasks.spawn(here.track_future(serving));
        }
    }

    /// Lets go of the streams and waits until no session and no client is left, or until `stop`.
    pub async fn wait(&self, sessions: &Sessions, stop: &CancellationToken) {
        self.tasks.close();
        if sessions.is_empty() && self.tasks.is_empty() {
            return;
        }
        // Whoever made them, as sshd did, waits until nobody holds them any more.
        if let Err(error) = state::detach_standard_streams() {
            tracing::warn!(%error, "cannot let go of the standard streams");
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.nobody_left(sessions) => {}
        }
    }

    async fn nobody_left(&self, sessions: &Sessions) {
        loop {
            sessions.all_over().await;
            self.tasks.wait().await;
            // The last client may have opened another session.
            if sessions.is_empty() {
                return;
            }
        }
    }

    /// Waits until every landing is removed, after all sessions were told to end.
    pub async fn ended(&self, within: Duration) {
        self.tasks.close();
        if tokio::time::timeout(within, self.tasks.wait()).await.is_err() {
            tracing::debug!("some clients of waiting sessions did not go");
        }
    }
}
