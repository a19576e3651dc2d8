//! The session of each run: relative paths start in its directory, and approvals for it hold in it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use wire::jsonrpc::RpcError;

use super::Host;
use super::errors::rpc_error;
use super::run::Run;
use crate::core::events::EventOptions;
use crate::core::request::Requester;
use crate::core::session::{Face as _, SessionConnection, SessionHandle, SessionOptions};
use crate::net::auth::Caller;

/// A session of this face.
pub(super) type Session = crate::core::session::Session<Host>;
/// A handle to one.
pub(super) type HostHandle = SessionHandle<Host>;

/// Open sessions; beyond it, those of ended runs are closed, and open again with the next request.
const MAX_SESSIONS: usize = 256;
/// The session of requests without a run.
const HOST_SESSION: &str = "host";

/// What this face keeps per session.
#[derive(Debug)]
pub struct HostState {
    /// The run; `None` for requests that concern the host.
    pub(super) run: Option<Arc<Run>>,
}

/// The open sessions by the ids of their runs.
#[derive(Debug, Default)]
pub(super) struct RunSessions(Mutex<HashMap<String, OpenSession>>);

/// A session and its run.
type OpenSession = (HostHandle, Option<Arc<Run>>);

/// The session of a run, or of the host, for requests of a caller.
pub(super) fn session(
    host: &Arc<Host>,
    run: Option<&Arc<Run>>,
    caller: &Arc<Caller>,
) -> Result<HostHandle, RpcError> {
    let id = run.map_or(HOST_SESSION, |run| &run.record.run_id);
    let mut open = host.run_sessions.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((handle, _)) = open.get(id).filter(|(handle, _)| !handle.is_over()) {
        return Ok(on_behalf_of(handle, caller));
    }
    if open.len() >= MAX_SESSIONS {
        open.retain(|_, (handle, run)| {
            let is_needed = run.as_ref().is_none_or(|run| !run.is_over());
            if !is_needed {
                handle.end_soon();
            }
            is_needed
        });
    }
    let handle = open_session(host, (id, run), caller)?;
    open.insert(id.to_owned(), (handle.clone(), run.cloned()));
    Ok(handle)
}

fn on_behalf_of(handle: &HostHandle, caller: &Arc<Caller>) -> HostHandle {
    handle.on_behalf_of(Requester { caller: caller.clone(), ..handle.requester.clone() })
}

fn open_session(
    host: &Arc<Host>,
    (id, run): (&str, Option<&Arc<Run>>),
    caller: &Arc<Caller>,
) -> Result<HostHandle, RpcError> {
    let requester = Requester { session: Some(id.into()), ..Requester::new(Host::NAME, caller.clone()) };
    let engine = host.core().engine.open_uncounted_session(|_| ()).map_err(rpc_error)?;
    let state = HostState { run: run.cloned() };
    let mut options = SessionOptions::new(host, requester, engine, state);
    options.is_resumable = false;
    options.events = EventOptions::replaying(0);
    if let Some(run) = run {
        options.cwd = PathBuf::from(&run.record.cwd);
        // Its requests reach nothing outside its directory; one outside the roots can only be watched and ended.
        let own = host.core().roots.narrowed(vec![options.cwd.clone()]);
        options.roots = own.unwrap_or_else(|_outside| engine::Roots::new(Vec::new()));
    }
    // It publishes no events: what a run does is in its journal.
    let (_, outgoing, _) = link::posted(Bytes::new(), &link::Limits::default());
    Ok(options.open(SessionConnection { outgoing, hang_up: None }))
}
