//! The desk: what every request goes through before a session sees it, whatever carried it.

use std::sync::Arc;

use link::rpc::Request;
use serde_json::json;
use wire::rexd::v1::{RpcError, codes};

use super::answer::{Answer, Asker, Observed};
use super::call::Call;
use super::mailbox::{Asked, Handle};
use super::methods::details;
use super::{Arrival, Service};
use crate::net::auth::{Caller, Scope};
use crate::observe::metrics::RefusalReason;
use crate::observe::traces;

/// A request that goes no further, and what to say to it.
pub(super) struct TurnedAway {
    pub(super) answer: Answer,
    pub(super) error: RpcError,
}

/// Decodes a request and checks that its caller may ask for it. `find` knows the sessions the caller may name.
pub(super) fn receive(
    service: &Service,
    (arrival, caller): (&Arrival, &Arc<Caller>),
    request: Request,
    find: impl FnOnce(&str) -> Option<Handle>,
) -> Result<(Asked, Option<Handle>), Box<TurnedAway>> {
    let Request { method, params, reply, cancel } = request;
    let call = Call::decode(&method, &params);
    let asker = Asker::new(caller.clone());
    let asked =
        traces::RequestAttributes { method: &method, caller: &caller.name, transport: arrival.transport };
    let observed = Observed {
        metrics: service.metrics.clone(),
        timer: service.metrics.request(&method),
        span: service.traces.begin(asked, arrival.parent.as_ref()),
    };
    let mut answer = Answer::new((reply, cancel), service.audit.clone(), (method, observed), asker.clone());
    let call = match call {
        Ok(call) => call,
        Err(error) => return Err(Box::new(TurnedAway { answer, error })),
    };
    let handle = call.session_id().and_then(find);
    answer.describe(handle.as_ref().map_or(asker, |handle| handle.asker.clone()), details(&call));
    match may(caller, &call) {
        Ok(()) => Ok((Asked::new(call, answer), handle)),
        Err(error) => {
            service.metrics.refused(RefusalReason::Scope);
            Err(Box::new(TurnedAway { answer, error }))
        }
    }
}

/// Whether a caller may ask for this at all.
fn may(caller: &Caller, call: &Call) -> Result<(), RpcError> {
    let scope = needs(call);
    if caller.scopes.allow(scope) {
        return Ok(());
    }
    let message = format!("{} may not do this: it needs the scope {:?}", caller.name, scope.name());
    Err(RpcError::new(codes::UNAUTHORIZED, message)
        .with_data(json!({ "scope": scope.name(), "caller": &*caller.name })))
}

/// What a caller must be allowed to do for a request.
fn needs(call: &Call) -> Scope {
    match call {
        Call::SessionOpen(_) | Call::SessionResume(_) | Call::SessionClose(_) => Scope::Read,
        Call::SessionInfo(_) | Call::SessionSetCwd(_) | Call::ServerPing(_) => Scope::Read,
        Call::ExecList(_) | Call::ExecAttach(_) | Call::ExecWait(_) => Scope::Read,
        Call::FsRead(_) | Call::FsList(_) | Call::FsGlob(_) | Call::FsStat(_) | Call::FsGrep(_) => {
            Scope::Read
        }
        Call::FsWatch(_) | Call::FsUnwatch(_) | Call::ApprovalList(_) => Scope::Read,
        Call::ExecStart(_) | Call::ExecKill(_) | Call::ExecInput(_) => Scope::Exec,
        Call::PtyOpen(_) | Call::PtyInput(_) | Call::PtyResize(_) | Call::PtyClose(_) => Scope::Exec,
        Call::FsWrite(_) | Call::FsEdit(_) | Call::FsPatch(_) | Call::FsMkdir(_) => Scope::Exec,
        Call::FsRemove(_) | Call::FsRename(_) | Call::FsCopy(_) => Scope::Exec,
        Call::ApprovalAnswer(_) => Scope::Exec,
    }
}
