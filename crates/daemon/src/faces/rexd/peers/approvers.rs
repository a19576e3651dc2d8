//! The approver sessions of this daemon, and their links to daemons that have called for approvers. A session is one of them
//! once it has listed the pending approvals: an interactive command that answers only its own does not.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use wire::rexd::v1;

use super::session::{PeerEvent, PeerSession};
use crate::core::peers::{ForwardedCaller, Peers};
use crate::core::session::{Face as _, SessionMessage};
use crate::faces::rexd::Rexd;
use crate::faces::rexd::methods::approvals::{publish_decided, publish_requested, requested_event};
use crate::faces::rexd::session::{RexdHandle, Session};

/// How long a link without a pending approval is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The sessions of this daemon that answer approvals, and the links that they share.
#[derive(Debug, Default)]
pub(in crate::faces::rexd) struct ApproverSessions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<Arc<str>, (RexdHandle, ForwardedCaller)>,
    links: HashMap<LinkKey, Arc<LinkControl>>,
}

/// A daemon and the caller that is linked to it.
type LinkKey = (String, ForwardedCaller);

/// How an open link is kept or closed.
#[derive(Debug, Default)]
struct LinkControl {
    /// The other daemon has called again.
    called: Notify,
    /// The last session of its caller has ended.
    close: CancellationToken,
}

impl ApproverSessions {
    /// Adds a session that has listed the pending approvals.
    pub(in crate::faces::rexd) fn add(&self, session: RexdHandle, caller: ForwardedCaller) {
        self.state().sessions.insert(session.id.clone(), (session, caller));
    }

    /// Removes a session that has ended, and closes the links that no session uses.
    pub(in crate::faces::rexd) fn remove(&self, session: &str) {
        let mut state = self.state();
        let Some((_, caller)) = state.sessions.remove(session) else { return };
        if !state.sessions.values().any(|(_, other)| *other == caller) {
            let unused = state.links.iter().filter(|((_, linked), _)| *linked == caller);
            unused.for_each(|(_, link)| link.close.cancel());
        }
    }

    /// The callers of the sessions that are connected now.
    fn callers(&self) -> HashSet<ForwardedCaller> {
        let state = self.state();
        let connected = state.sessions.values().filter(|(session, _)| session.is_connected());
        connected.map(|(_, caller)| caller.clone()).collect()
    }

    /// Adds a link; `None` if there is one, which is kept then.
    fn add_link(&self, key: &LinkKey) -> Option<Arc<LinkControl>> {
        let mut state = self.state();
        if let Some(link) = state.links.get(key) {
            link.called.notify_one();
            return None;
        }
        let link = Arc::<LinkControl>::default();
        state.links.insert(key.clone(), link.clone());
        Some(link)
    }

    fn remove_link(&self, key: &LinkKey) {
        self.state().links.remove(key);
    }

    /// Has every session of this caller do something.
    async fn update(&self, caller: &ForwardedCaller, update: impl Fn(&mut Session) + Clone + Send + 'static) {
        let sessions: Vec<RexdHandle> = {
            let state = self.state();
            let own = state.sessions.values().filter(|(_, other)| other == caller);
            own.map(|(session, _)| session.clone()).collect()
        };
        for session in sessions {
            session.send(SessionMessage::update(update.clone())).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, so the state is consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Links every approver of this daemon to another one. Returns when all are linked, or cannot be.
pub(in crate::faces::rexd) async fn connect_approvers(face: Arc<Rexd>, daemon: String) {
    let Some(peers) = face.core().peers.clone() else { return };
    let callers = face.approvers.callers();
    join_all(callers.into_iter().map(|caller| connect(&face, &peers, (daemon.clone(), caller)))).await;
}

async fn connect(face: &Arc<Rexd>, peers: &Peers, key: LinkKey) {
    let Some(control) = face.approvers.add_link(&key) else { return };
    let opened = async {
        let mut session = PeerSession::open(peers, &key.0, key.1.clone(), true).await?;
        // What was requested before the session was open.
        let params = v1::ApprovalList { session_id: session.id.clone() };
        let pending = session.call(&params).await?;
        Ok::<_, wire::jsonrpc::RpcError>((session, pending))
    };
    match opened.await {
        Ok((session, pending)) => {
            let link = ApproverLink { face: face.clone(), caller: key.1.clone(), pending: HashSet::new() };
            let (face, core) = (face.clone(), face.core().clone());
            core.tasks.spawn(async move {
                let stop = face.core().stop.clone();
                let following = link.follow(session, pending, &control);
                stop.run_until_cancelled(control.close.run_until_cancelled(following)).await;
                face.approvers.remove_link(&key);
            });
        }
        Err(error) => {
            tracing::debug!(daemon = key.0, %error, "no approver link");
            face.approvers.remove_link(&key);
        }
    }
}

/// A link of one caller to another daemon.
struct ApproverLink {
    face: Arc<Rexd>,
    caller: ForwardedCaller,
    /// The ids of pending approvals that were published.
    pending: HashSet<String>,
}

impl ApproverLink {
    /// Publishes the approvals of the other daemon until none is pending for a while.
    async fn follow(mut self, mut session: PeerSession, list: v1::ApprovalListResult, control: &LinkControl) {
        for approval in list.approvals {
            self.requested(requested_event(approval)).await;
        }
        loop {
            let event = tokio::select! {
                event = session.next_event() => event,
                () = control.called.notified() => continue,
                () = tokio::time::sleep(IDLE_TIMEOUT), if self.pending.is_empty() => None,
            };
            match event {
                Some(PeerEvent::Requested(event)) => self.requested(*event).await,
                Some(PeerEvent::Decided(event)) => self.decided(event).await,
                None => break,
            }
        }
        for approval_id in std::mem::take(&mut self.pending) {
            let decision = "withdrawn".to_owned();
            let gone = v1::ApprovalDecided { approval_id, decision, ..v1::ApprovalDecided::default() };
            self.publish_decided(gone).await;
        }
    }

    async fn requested(&mut self, event: v1::ApprovalRequested) {
        if self.pending.insert(event.approval_id.clone()) {
            let publish = move |session: &mut Session| publish_requested(session, event.clone());
            self.face.approvers.update(&self.caller, publish).await;
        }
    }

    async fn decided(&mut self, event: v1::ApprovalDecided) {
        if self.pending.remove(&event.approval_id) {
            self.publish_decided(event).await;
        }
    }

    async fn publish_decided(&self, event: v1::ApprovalDecided) {
        let publish = move |session: &mut Session| publish_decided(session, event.clone());
        self.face.approvers.update(&self.caller, publish).await;
    }
}
