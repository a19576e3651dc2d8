//! From a message to a decoded request whose caller has the scope it needs.

use std::sync::Arc;

use engine::audit::RecordPriority;
use link::rpc;
use serde_json::json;
use wire::jsonrpc::{RpcError, code};

use super::Core;
use super::request::{ConnectionContext, Requester};
use super::responder::Responder;
use super::session::{Face, PendingRequest, SessionHandle};
use super::table::{Decoded, Method};
use crate::net::auth::{Caller, Scope};
use crate::observe::metrics::RefusalReason;

/// A request that goes no further, and the error to respond with.
#[derive(Debug)]
pub struct Rejected {
    /// Where the response goes.
    pub responder: Responder,
    /// What is wrong with the request.
    pub error: RpcError,
}

impl Rejected {
    /// Responds with the error.
    pub async fn respond(self) {
        self.responder.reject(self.error).await;
    }
}

/// A request that was decoded and may be made.
pub enum Dispatch<F: Face> {
    /// For the connection itself.
    Connection(F::ConnectionCall, Responder),
    /// For a session that the caller has.
    Session(Box<PendingRequest<F>>, SessionHandle<F>),
    /// For a session that the caller does not have; its id, if the request has one.
    NoSession(Option<String>, Responder),
}

/// The row of a method in its face's table.
pub fn lookup<F: Face>(name: &str) -> Option<&'static dyn Method<F>> {
    F::table().iter().copied().find(|method| method.name() == name)
}

/// Decodes a request and checks its scope. `find` looks up a session that this connection or caller may use, by the id
/// in the parameters.
pub fn dispatch<F: Face>(
    core: &Arc<Core>,
    connection: &ConnectionContext,
    requester: Requester,
    request: rpc::Request,
    find: impl FnOnce(Option<&str>) -> Option<SessionHandle<F>>,
) -> Result<Dispatch<F>, Box<Rejected>> {
    let rpc::Request { method: name, params, reply, cancel } = request;
    let method = lookup::<F>(&name).ok_or_else(|| F::unknown_method(&name));
    let label = method.as_ref().ok().map(|method| method.name());
    let mut responder = Responder::new(core, connection, requester, (label, name), (reply, cancel));
    let priority = method.as_ref().map_or(RecordPriority::Normal, |method| method.record_priority());
    let refusal = core.audit.refusal(priority);
    // A request that is never refused has a record, unless that would take memory from other records.
    let skips_record =
        priority == RecordPriority::Unrecorded && core.audit.refusal(RecordPriority::Normal).is_some();
    if refusal.is_some() || skips_record {
        responder.skip_audit();
    }
    if let Some(problem) = refusal {
        let error = RpcError::new(code::RESOURCE_LIMIT, problem).with_data(json!({ "retry": true }));
        return Err(Box::new(Rejected { responder, error }));
    }
    let (method, decoded) = match method.and_then(|method| Ok((method, method.decode(&params)?))) {
        Ok(decoded) => decoded,
        Err(error) => return Err(Box::new(Rejected { responder, error })),
    };
    let dispatch = match decoded {
        Decoded::Connection(call, details) => {
            responder.set_details(details);
            Dispatch::Connection(call, responder)
        }
        Decoded::Session(call) => {
            responder.set_details(call.details());
            match find(call.session_id()) {
                Some(handle) => {
                    responder.set_requester(handle.requester.clone());
                    Dispatch::Session(Box::new(PendingRequest::new(call, responder)), handle)
                }
                None => Dispatch::NoSession(call.session_id().map(str::to_owned), responder),
            }
        }
    };
    match check_scope(&connection.caller, method.scope()) {
        Ok(()) => Ok(dispatch),
        Err(error) => {
            core.metrics.refused(RefusalReason::Scope);
            Err(Box::new(Rejected { responder: dispatch.into_responder(), error }))
        }
    }
}

impl<F: Face> Dispatch<F> {
    fn into_responder(self) -> Responder {
        match self {
            Dispatch::Connection(_, responder) | Dispatch::NoSession(_, responder) => responder,
            Dispatch::Session(request, _) => request.responder,
        }
    }
}

fn check_scope(caller: &Caller, scope: Scope) -> Result<(), RpcError> {
    if caller.scopes.allow(scope) {
        return Ok(());
    }
    let message = format!("{} is not allowed to do this: it needs the scope {:?}", caller.name, scope.name());
    Err(RpcError::new(UNAUTHORIZED, message)
        .with_data(json!({ "scope": scope.name(), "caller": &*caller.name })))
}

/// The code for a request that its caller may not make.
pub const UNAUTHORIZED: i64 = -32001;

/// Rejects a request before it is decoded.
pub fn reject<F: Face>(
    core: &Arc<Core>,
    connection: &ConnectionContext,
    requester: Requester,
    request: rpc::Request,
    error: RpcError,
) -> Rejected {
    let rpc::Request { method: name, reply, cancel, .. } = request;
    let label = lookup::<F>(&name).map(Method::name);
    Rejected { responder: Responder::new(core, connection, requester, (label, name), (reply, cancel)), error }
}

opaque_debug!(Dispatch<F: Face>);
