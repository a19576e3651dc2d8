//! Approvals and processes of the user's other daemons, for the clients of this one.
//!
//! Lists, answers and kills are requests to every other daemon. Its approval events arrive through an approver link, which
//! this daemon opens when the other one calls for approvers.

mod approvers;
mod session;

pub(super) use approvers::{ApproverSessions, connect_approvers};

use futures_util::future::join_all;
use wire::jsonrpc::RpcError;
use wire::rexd::v1::{self, codes};

use super::session::Session;
use crate::core::peers::{ForwardedCaller, Peers};
use session::PeerSession;

/// The other daemons, as one session reaches them.
#[derive(Debug, Clone)]
pub(super) struct OtherDaemons {
    peers: Peers,
    /// The caller of the session.
    pub(super) caller: ForwardedCaller,
}

impl OtherDaemons {
    /// The other daemons for this session; `None` without a state directory, and for a session of another daemon.
    pub(super) fn of(session: &Session) -> Option<OtherDaemons> {
        let peers = session.core.peers.clone().filter(|_| !session.state.is_of_peer)?;
        Some(OtherDaemons { peers, caller: ForwardedCaller::new(&session.requester.caller, &session.roots) })
    }

    /// The attached processes of the other daemons. One that does not respond is left out.
    pub(super) async fn processes(&self) -> Vec<v1::ListedProcess> {
        let lists = self.sessions().await.into_iter().map(|mut session| async move {
            let params = v1::ExecList { session_id: session.id.clone() };
            session.call(&params).await.ok()
        });
        let listed = join_all(lists).await.into_iter().flatten().flat_map(|list| list.processes);
        // Every daemon lists the detached ones.
        listed.filter(|process| !process.detached).collect()
    }

    /// Kills an attached process of another daemon; `None` if no other daemon has it.
    pub(super) async fn kill(&self, params: &v1::ExecKill) -> Option<Result<v1::ExecKillResult, RpcError>> {
        for mut session in self.sessions().await {
            let (session_id, process_id) = (session.id.clone(), params.process_id.clone());
            // From the end: its output is not needed.
            let attach = v1::ExecAttach {
                session_id: session_id.clone(),
                process_id,
                cursor: i64::MAX,
                ..v1::ExecAttach::default()
            };
            if session.call(&attach).await.is_ok() {
                return Some(session.call(&v1::ExecKill { session_id, ..params.clone() }).await);
            }
        }
        None
    }

    /// The approvals of the other daemons that the session may answer. Later ones reach the session as events.
    pub(super) async fn approvals(&self) -> Vec<v1::ApprovalListResult> {
        self.peers.reachable().await;
        let lists = self.sessions().await.into_iter().map(|mut session| async move {
            let params = v1::ApprovalList { session_id: session.id.clone() };
            session.call(&params).await.ok()
        });
        join_all(lists).await.into_iter().flatten().collect()
    }

    /// Answers an approval of another daemon; `None` if no other daemon has it.
    pub(super) async fn answer(&self, params: &v1::ApprovalAnswer) -> Option<Result<v1::OkResult, RpcError>> {
        for mut session in self.sessions().await {
            let answer = v1::ApprovalAnswer { session_id: session.id.clone(), ..params.clone() };
            match session.call(&answer).await {
                // It is not pending there.
                Err(error) if [codes::INVALID_PARAMS, codes::INTERNAL_ERROR].contains(&error.code) => {}
                answered => return Some(answered),
            }
        }
        None
    }

    /// A session in each of the other daemons that responds.
    async fn sessions(&self) -> Vec<PeerSession> {
        let opening = self.peers.others().await.into_iter().map(|daemon| {
            let OtherDaemons { peers, caller } = self.clone();
            async move { PeerSession::open(&peers, &daemon, caller, false).await.ok() }
        });
        join_all(opening).await.into_iter().flatten().collect()
    }
}
