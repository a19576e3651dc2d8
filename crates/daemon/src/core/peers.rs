//! The other daemons of this user on this machine. Each serves a private socket in the state directory, and the others
//! show its approvals and processes to their own clients.
//!
//! Every daemon keeps its own configuration, processes and approvals: a connection between two daemons carries requests
//! on behalf of a caller that one of them has authenticated, and the other decides what this caller may do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use engine::Roots;
use futures_util::future::join_all;
use link::listen::accept;
use link::task::Tasks;
use link::{Incoming, Limits, Link};
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::core::request::ConnectionContext;
use crate::core::session::ServeLink;
use crate::core::sockets::{ListeningSocket, SocketDir};
use crate::net::auth::{Caller, Scopes};
use crate::net::listen::peer_caller;
use crate::observe::metrics::Transport;

/// How long a daemon runs before it gets its socket. Most daemons on standard streams end before that.
const SOCKET_DELAY: Duration = Duration::from_millis(20);
/// Daemons that are asked; beyond it the rest is left out.
const MAX_PEERS: usize = 256;
/// Connections of other daemons at the same time; one more is closed at once.
const MAX_CONNECTIONS: usize = 256;
/// How long another daemon may take to open a connection or to respond.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);
/// The response to a greeting.
const ACCEPTED: &[u8] = b"{}";

/// The first line of a connection between two daemons.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Greeting {
    /// Messages of REXD follow, on behalf of this caller.
    Connect(ForwardedCaller),
    /// The daemon with this id has an operation that needs an approver. Accepted when every approver is connected to it.
    CallApprovers(String),
}

/// A caller of another daemon of this user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ForwardedCaller {
    name: String,
    scopes: Vec<String>,
    /// The directories whose processes and approvals it may reach; `None` for all.
    roots: Option<Vec<PathBuf>>,
}

impl ForwardedCaller {
    /// A caller as other daemons see it. The user reaches everything; other callers reach what is below the roots that
    /// they have here.
    pub fn new(caller: &Caller, roots: &Roots) -> ForwardedCaller {
        ForwardedCaller {
            name: caller.name.to_string(),
            scopes: caller.scopes.names().into_iter().map(str::to_owned).collect(),
            roots: match caller.is_user() {
                true => caller.roots.clone(),
                false => Some(roots.paths().to_vec()),
            },
        }
    }

    fn caller(self) -> Caller {
        let has = |scope: &str| self.scopes.iter().any(|name| name == scope);
        let scopes = Scopes { read: has("read"), exec: has("exec"), admin: has("admin") };
        Caller::forwarded(&self.name, scopes, self.roots)
    }
}

/// Serves connections of other daemons.
pub trait ServePeers: ServeLink {
    /// Connects the approvers of this daemon to the daemon with this id. Returns when all are connected.
    fn connect_approvers(self: Arc<Self>, daemon: String) -> impl Future<Output = ()> + Send + 'static;
}

/// The other daemons of this user. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Peers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sockets: SocketDir,
    /// The id of this daemon.
    id: String,
    /// Held while other daemons connect their approvers: one that was called twice is connected twice otherwise.
    calling: Mutex<()>,
    /// Whether this daemon serves others.
    is_served: AtomicBool,
    /// Cancelled when the socket is needed at once.
    needed: CancellationToken,
    /// Cancelled when other daemons can connect, or never will.
    ready: CancellationToken,
}

impl Peers {
    /// The daemons with this state directory; `None` without one.
    pub fn new(state: Option<&Path>) -> Option<Peers> {
        let id = format!("d_{}", engine::session::random_name().ok()?);
        Some(Peers(Arc::new(Shared {
            sockets: SocketDir::new(state?.join("daemons"), "d_"),
            id,
            calling: Mutex::new(()),
            is_served: AtomicBool::new(false),
            needed: CancellationToken::new(),
            ready: CancellationToken::new(),
        })))
    }

    /// Serves other daemons until the daemon stops.
    pub async fn serve<F: ServePeers>(self, face: Arc<F>) {
        let stop = face.core().stop.clone();
        self.0.is_served.store(true, Ordering::Relaxed);
        let serving = async {
            tokio::select! {
                () = self.0.needed.cancelled() => {}
                () = tokio::time::sleep(SOCKET_DELAY) => {}
            }
            let socket = self.bind().await;
            self.0.ready.cancel();
            match socket {
                Ok(socket) => self.accept(&socket, &face).await,
                Err(error) => tracing::warn!(%error, "other daemons of this user cannot reach this one"),
            }
        };
        stop.run_until_cancelled(serving).await;
        self.0.ready.cancel();
    }

    async fn bind(&self) -> io::Result<ListeningSocket> {
        let this = self.0.clone();
        let bound = tokio::task::spawn_blocking(move || this.sockets.bind(&this.id)).await;
        ListeningSocket::listen(bound.unwrap_or_else(|error| Err(io::Error::other(error)))?)
    }

    async fn accept<F: ServePeers>(&self, socket: &ListeningSocket, face: &Arc<F>) {
        let connections = Tasks::new();
        loop {
            let (stream, _unnamed) = accept(|| socket.accept(), || {}).await;
            if peer_caller(&stream).is_ok() && connections.len() < MAX_CONNECTIONS {
                let serving = connections.track_future(serve_connection(face.clone(), stream));
                face.core().tasks.spawn(serving);
            }
        }
    }

    /// Waits until other daemons can reach this one, if it serves them.
    pub async fn reachable(&self) {
        if self.0.is_served.load(Ordering::Relaxed) {
            self.0.needed.cancel();
            self.0.ready.cancelled().await;
        }
    }

    /// The ids of the other daemons.
    pub async fn others(&self) -> Vec<String> {
        let this = self.0.clone();
        let listed = tokio::task::spawn_blocking(move || this.sockets.ids(MAX_PEERS)).await;
        let mut ids = listed.ok().and_then(Result::ok).unwrap_or_default();
        ids.retain(|id| *id != self.0.id);
        ids
    }

    /// A connection for messages of REXD to another daemon, on behalf of a caller.
    pub async fn connect(&self, daemon: &str, caller: ForwardedCaller) -> io::Result<Link> {
        tokio::time::timeout(PEER_TIMEOUT, self.greet(daemon, &Greeting::Connect(caller))).await?
    }

    /// Asks all other daemons to connect their approvers to this one, and waits until they are connected.
    pub async fn call_approvers(&self) {
        let _calling = self.0.calling.lock().await;
        let others = self.others().await;
        if others.is_empty() {
            return;
        }
        self.reachable().await;
        let greeting = Greeting::CallApprovers(self.0.id.clone());
        let calls = others.iter().map(|daemon| async {
            // A daemon that has ended or does not respond has no approver.
            tokio::time::timeout(PEER_TIMEOUT, self.greet(daemon, &greeting)).await.ok();
        });
        join_all(calls).await;
    }

    async fn greet(&self, daemon: &str, greeting: &Greeting) -> io::Result<Link> {
        let stream = self.0.sockets.connect(daemon).await?;
        let mut link = open_link(stream, &Limits::default());
        let line = serde_json::to_vec(greeting)?;
        link.outgoing.respond(line.into()).await.map_err(|_closed| io::ErrorKind::BrokenPipe)?;
        match link.incoming.recv().await {
            Some(Incoming::Message(message)) if *message == *ACCEPTED => Ok(link),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

fn open_link(stream: UnixStream, limits: &Limits) -> Link {
    let (input, output) = stream.into_split();
    link::ndjson::link(input, output, limits)
}

async fn serve_connection<F: ServePeers>(face: Arc<F>, stream: UnixStream) {
    let mut link = open_link(stream, &crate::serve::link_limits(face.core()));
    let first = tokio::time::timeout(PEER_TIMEOUT, link.incoming.recv()).await;
    let Ok(Some(Incoming::Message(line))) = first else { return };
    let accepted = Bytes::from_static(ACCEPTED);
    match serde_json::from_slice(&line) {
        Ok(Greeting::Connect(caller)) => {
            // A connection that is closed ends by itself.
            link.outgoing.respond(accepted).await.ok();
            let context = ConnectionContext::new(caller.caller(), Transport::Unix).of_peer();
            face.serve_link(link, context).await;
        }
        Ok(Greeting::CallApprovers(daemon)) => {
            face.connect_approvers(daemon).await;
            // The other daemon may have stopped waiting.
            link.outgoing.respond(accepted).await.ok();
        }
        Err(error) => tracing::debug!(%error, "a connection without a greeting"),
    }
}
