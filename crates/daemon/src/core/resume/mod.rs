//! `rexd --stdio` after its streams are gone: the daemon waits for the clients of its resumable sessions, and the next
//! `rexd --stdio` connects a returning client to it.
//!
//! Each such session has a socket in the state directory. A client that returns starts `rexd --stdio` as it
//! always does; that process finds the socket and becomes a proxy that copies bytes.

mod proxy;

pub(crate) use crate::core::sockets::{ListeningSocket, SocketName};
pub use proxy::HandoverOutcome;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use link::listen::accept;
use link::stdio::Streams;
use link::task::Tasks;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::core::code_pages;
use crate::core::request::ConnectionContext;
use crate::core::session::{Face, ServeLink, SessionHandle, SessionRegistry};
use crate::core::sockets::{STALE_AFTER, SocketDir};
use crate::core::state;
use crate::net::auth::{Caller, RejectionLog};
use crate::net::listen::peer_caller;
use crate::observe::metrics::Transport;

/// What the ids of sessions start with.
const SESSION_PREFIX: &str = "s_";
/// How long a session is open before it gets its socket. Most sessions end before that and never need one.
const SOCKET_DELAY: Duration = Duration::from_millis(20);
/// Connections to one socket at the same time; one more is closed at once.
const MAX_CONNECTIONS: usize = 8;
/// How late a client may send its resume key again: until then the socket of the session that it has opened is left, even if
/// the daemon has ended.
pub(crate) const MAX_RESEND_DELAY: Duration = Duration::from_secs(STALE_AFTER.as_secs() - 10);
/// The digits in the id of a session.
const ID_DIGITS: usize = 12;

/// The id of the session that a resume key opens; without salt, every daemon derives the same.
pub(crate) fn session_of_key(salt: &str, key: &str) -> String {
    let digest = hex::encode(Sha256::digest(format!("{salt}{key}")));
    format!("{SESSION_PREFIX}{}", &digest[..ID_DIGITS])
}

/// The resume token with this secret. It names the daemon, so that the next one can see whether it still runs.
pub(crate) fn token_of(secret: &str) -> String {
    format!("{}.{secret}", state::own_name())
}

/// Whether the daemon that issued a token still runs.
fn is_issuer_running(token: &str) -> bool {
    token.rsplit_once('.').is_some_and(|(daemon, _secret)| state::is_running(daemon))
}

/// Keeps a daemon without listeners alive for its disconnected sessions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ResumeWait {
    sockets: SocketDir,
    /// Cancelled when the streams are gone: sessions without a socket then need one at once.
    is_cut: CancellationToken,
    /// The sockets and their connections.
    tasks: Tasks,
}

impl ResumeWait {
    /// Waits below this state directory, if it can be used.
    pub fn new(state: Option<&Path>) -> Option<ResumeWait> {
        let sockets = SocketDir::new(state?.join("sessions"), SESSION_PREFIX);
        match sockets.check().or_else(|_missing| sockets.create()) {
            Ok(()) => Some(ResumeWait { sockets, is_cut: CancellationToken::new(), tasks: Tasks::new() }),
            Err(error) => {
                tracing::debug!(%error, "no directory for resume sockets: sessions end with their streams");
                None
            }
        }
    }

    /// Connects a returning client to the older daemon that has its session, if there is one.
    pub async fn hand_over(&self, streams: Streams, stop: &CancellationToken) -> HandoverOutcome {
        proxy::hand_over(&self.sockets, streams, stop).await
    }

    /// The streams are gone, or a proxy has taken over.
    pub(crate) fn connection_closed(&self) {
        self.is_cut.cancel();
    }

    /// Creates the socket of a session before it is opened. Fails if the session exists already, or did until a short time ago.
    /// It blocks for some file operations: the client waits for nothing else yet. Must be called within a tokio runtime.
    pub(crate) fn reserve(&self, id: &str) -> io::Result<(ListeningSocket, SocketName)> {
        self.sockets.reserve(id)?.into_parts()
    }

    /// Makes a session reachable through the socket that was created for it, until it ends.
    pub(crate) fn serve_socket<F: ServeLink>(
        &self,
        face: &Arc<F>,
        socket: ListeningSocket,
        session: SessionHandle<F>,
    ) {
        let (this, face) = (self.clone(), face.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = session.ended() => {}
                () = this.accept(&socket, &face, &session.id) => {}
            }
        });
    }

    /// Makes a session reachable through a socket until it ends.
    pub(crate) fn serve_session<F: ServeLink>(
        &self,
        face: &Arc<F>,
        id: &Arc<str>,
        session: SessionHandle<F>,
    ) {
        let (this, face, id) = (self.clone(), face.clone(), id.clone());
        self.tasks.spawn(async move {
            let over = session.ended();
            tokio::pin!(over);
            tokio::select! {
                biased;
                () = &mut over => return,
                () = this.is_cut.cancelled() => {}
                () = tokio::time::sleep(SOCKET_DELAY) => {}
            }
            let (sockets, name) = (this.sockets.clone(), id.clone());
            let bound = tokio::task::spawn_blocking(move || sockets.bind(&name)).await;
            match bound.unwrap_or_else(|error| Err(io::Error::other(error))).and_then(ListeningSocket::listen) {
                Ok(socket) => tokio::select! {
                    () = over => {}
                    () = this.accept(&socket, &face, &id) => {}
                },
                Err(error) => {
                    tracing::warn!(%error, session = &*id, "no resume socket: the session ends with its streams");
                }
            }
        });
    }

    /// Accepts connections of this user to one session.
    async fn accept<F: ServeLink>(&self, socket: &ListeningSocket, face: &Arc<F>, session: &Arc<str>) {
        let (rejections, connections) = (RejectionLog::new(face.core().audit.clone()), Tasks::new());
        loop {
            let (stream, _unnamed) = accept(|| socket.accept(), || {}).await;
            if let Err(rejection) = peer_caller(&stream) {
                rejections.record("resume", &rejection, None);
                continue;
            }
            if connections.len() >= MAX_CONNECTIONS {
                continue;
            }
            let (input, output) = stream.into_split();
            let link = link::ndjson::link(input, output, &crate::serve::link_limits(face.core()));
            // The same caller as on the streams: only this user reaches the socket, and only with the session's token.
            let context =
                ConnectionContext::new(Caller::on_stdio(), Transport::Stdio).resuming(session.clone());
            self.tasks.spawn(connections.track_future(face.clone().serve_link(link, context)));
        }
    }

    /// Closes the streams and waits until no session and no client is left, or until `stop`.
    pub async fn wait<F: Face>(&self, sessions: &SessionRegistry<F>, stop: &CancellationToken) {
        self.tasks.close();
        if sessions.is_empty() && self.tasks.is_empty() {
            return;
        }
        // The other end, such as sshd, waits until no process holds the streams.
        if let Err(error) = state::detach_standard_streams() {
            tracing::warn!(%error, "cannot close the standard streams");
        }
        code_pages::release();
        let all_ended = async {
            loop {
                sessions.wait_empty().await;
                self.tasks.wait().await;
                // The last client may have opened another session.
                if sessions.is_empty() {
                    return;
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = all_ended => {}
        }
    }

    /// Waits until every socket is removed, after all sessions were ended.
    pub async fn close(&self, timeout: Duration) {
        self.tasks.close();
        if tokio::time::timeout(timeout, self.tasks.wait()).await.is_err() {
            tracing::debug!("some clients of disconnected sessions did not close in time");
        }
    }
}
