//! The method table of a face: one row per method.
//!
//! Dispatch, metrics, traces, the audit, approvals, idempotency and the reference documents read a row; no other code
//! compares method names.

use std::sync::Arc;

use bytes::Bytes;
use engine::audit::RecordPriority;
use link::rpc::Params;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use wire::jsonrpc::RpcError;

use super::effects::Effects;
use super::prepare::PrepareContext;
use super::request::{AuthorizedRequest, Details};
use super::session::{Face, Session};
use crate::net::auth::Scope;

/// How requests of a method run beside other requests of their session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// At once, whatever else runs.
    Immediate,
    /// Together with other reads; waits for writes that arrived before it.
    Read,
    /// Starts in order like a read, and lets later writes start while it runs.
    Scan,
    /// Alone, in order; consecutive writes share one worker thread.
    Write,
    /// Alone, in order.
    Exclusive,
}

/// What limits how many requests of a method a connection runs at the same time, for faces whose connections admit
/// requests by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Nothing: it runs at once.
    Unlimited,
    /// A slot; without a free one it waits, and so do the slotted requests behind it.
    Slot,
    /// Memory for input and output that waits for processes; without it the request is refused, because a later request
    /// may be the one that ends the process.
    ProcessMemory,
}

/// One row of a method table, whatever the type of its parameters.
pub trait Method<F: Face>: Sync {
    /// The name on the wire.
    fn name(&self) -> &'static str;
    /// What the caller must be allowed to do.
    fn scope(&self) -> Scope;
    /// How it runs beside others.
    fn schedule(&self) -> Schedule {
        Schedule::Immediate
    }
    /// What limits its connection.
    fn admission(&self) -> Admission {
        Admission::Unlimited
    }
    /// Whether it takes an idempotency key.
    fn is_idempotent(&self) -> bool {
        false
    }
    /// When it is refused while the audit file cannot be written.
    fn record_priority(&self) -> RecordPriority {
        RecordPriority::Normal
    }
    /// Decodes the parameters.
    fn decode(&'static self, params: &Params) -> Result<Decoded<F>, RpcError>;
}

/// Parameters that were decoded.
pub enum Decoded<F: Face> {
    /// For a session.
    Session(Box<dyn Call<F>>),
    /// For the connection itself: what opens or resumes sessions, or needs none.
    Connection(F::ConnectionCall, Details),
}

/// A decoded request for a session.
pub trait Call<F: Face>: Send {
    /// The row of its method.
    fn method(&self) -> &'static dyn Method<F>;
    /// The session that its parameters name.
    fn session_id(&self) -> Option<&str>;
    /// What the audit records of its parameters.
    fn details(&self) -> Details;
    /// Its idempotency key, and a fingerprint of the whole request.
    fn key(&self) -> Option<(&str, u64)>;
    /// A digest of everything that decides what it does, for approvals that hold for the same request again.
    fn digest(&self) -> String;
    /// Checks and converts the parameters, once.
    fn prepare(&self, context: &PrepareContext<'_, F>) -> Result<Prepared<F>, RpcError>;
}

/// The action of a request, which runs once it is authorized.
type RequestAction<F> = Box<dyn FnOnce(&mut Session<F>, AuthorizedRequest) + Send>;
/// Reads the idempotency key and the fingerprint of a request.
type KeyFn<P> = fn(&P) -> Option<(&str, u64)>;
/// Adds the payload of a binary message to its parameters.
type PayloadFn<P> = fn(&mut P, Bytes);
/// Checks and converts parameters.
type PrepareFn<F, P> = fn(&Arc<P>, &PrepareContext<'_, F>) -> Result<Prepared<F>, RpcError>;

/// A checked request: its effects, and the action that runs once they are authorized.
pub struct Prepared<F: Face> {
    pub(super) effects: Effects,
    /// Whether a person decides even where the policy allows.
    pub(super) always_asks: Option<AlwaysAsks>,
    pub(super) run: RequestAction<F>,
}

impl<F: Face> Prepared<F> {
    /// A request that needs no authorization beyond its scope.
    pub fn new(run: impl FnOnce(&mut Session<F>, AuthorizedRequest) + Send + 'static) -> Prepared<F> {
        Prepared::with_effects(Effects::None, run)
    }

    /// A request without effects whose response is the result of a future.
    pub fn response<T: Serialize + Send + 'static>(
        result: impl Future<Output = Result<T, RpcError>> + Send + 'static,
    ) -> Prepared<F> {
        Prepared::new(|session, request| session.spawn(async move { request.finish(result.await).await }))
    }

    /// A request whose response is the result of work that may block; it runs on a worker thread in the request's turn.
    pub fn blocking<T: Serialize + Send + 'static>(
        effects: Effects,
        work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
    ) -> Prepared<F> {
        Prepared::with_effects(effects, |session, request| session.spawn(request.run_blocking(work)))
    }

    /// A request with effects on commands or files.
    pub fn with_effects(
        effects: Effects,
        run: impl FnOnce(&mut Session<F>, AuthorizedRequest) + Send + 'static,
    ) -> Prepared<F> {
        Prepared { effects, always_asks: None, run: Box::new(run) }
    }

    /// The same, but a person decides even where the policy allows.
    pub fn asking(self, always_asks: AlwaysAsks) -> Prepared<F> {
        Prepared { always_asks: Some(always_asks), ..self }
    }
}

/// A rule of a protocol: a person decides about every request of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlwaysAsks {
    /// The name of the rule; an answer for the session holds for all requests under it.
    pub rule: &'static str,
    /// The reason for the approver.
    pub reason: &'static str,
}

/// The row of a method that runs in a session.
pub struct Row<F: Face, P> {
    /// The name on the wire.
    pub name: &'static str,
    /// What the caller must be allowed to do.
    pub scope: Scope,
    /// How it runs beside others.
    pub schedule: Schedule,
    /// What limits its connection.
    pub admission: Admission,
    /// When it is refused while the audit file cannot be written.
    pub record_priority: RecordPriority,
    /// The session that the parameters name, in protocols that name it there.
    pub session: fn(&P) -> Option<&str>,
    /// What the audit records of the parameters.
    pub audit: fn(&P) -> Details,
    /// The idempotency key and the fingerprint of the request, if the method takes a key.
    pub key: Option<KeyFn<P>>,
    /// Adds the payload of a binary message, if the method takes one.
    pub payload: Option<PayloadFn<P>>,
    /// Checks and converts the parameters into effects and an action.
    pub prepare: PrepareFn<F, P>,
}

impl<F: Face, P> Row<F, P> {
    /// The same row for a method that only ends or releases something: it runs while the audit file cannot be written.
    pub const fn releasing(self) -> Self {
        Self { record_priority: RecordPriority::Reserved, ..self }
    }
}

/// The row of a method that its connection handles.
pub struct ConnectionRow<F: Face, P> {
    /// The name on the wire.
    pub name: &'static str,
    /// What the caller must be allowed to do.
    pub scope: Scope,
    /// When it is refused while the audit file cannot be written.
    pub record_priority: RecordPriority,
    /// What the audit records of the parameters.
    pub audit: fn(&P) -> Details,
    /// Wraps the parameters for the connection.
    pub call: fn(P) -> F::ConnectionCall,
}

impl<F: Face, P: DeserializeOwned + Serialize + Send + Sync + 'static> Method<F> for Row<F, P> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn schedule(&self) -> Schedule {
        self.schedule
    }

    fn admission(&self) -> Admission {
        self.admission
    }

    fn is_idempotent(&self) -> bool {
        self.key.is_some()
    }

    fn record_priority(&self) -> RecordPriority {
        self.record_priority
    }

    fn decode(&'static self, params: &Params) -> Result<Decoded<F>, RpcError> {
        let mut decoded = F::decode(params)?;
        match (params.payload(), self.payload) {
            (None, _) => {}
            (Some(payload), Some(add)) => add(&mut decoded, payload.clone()),
            (Some(_), None) => return Err(unexpected_payload(self.name)),
        }
        Ok(Decoded::Session(Box::new(DecodedCall { row: self, params: Arc::new(decoded) })))
    }
}

impl<F: Face, P: DeserializeOwned + 'static> Method<F> for ConnectionRow<F, P> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn record_priority(&self) -> RecordPriority {
        self.record_priority
    }

    fn decode(&'static self, params: &Params) -> Result<Decoded<F>, RpcError> {
        if params.payload().is_some() {
            return Err(unexpected_payload(self.name));
        }
        let params = F::decode(params)?;
        let details = (self.audit)(&params);
        Ok(Decoded::Connection((self.call)(params), details))
    }
}

fn unexpected_payload(method: &str) -> RpcError {
    RpcError::invalid_params(format!("{method} takes no payload; send it as a JSON message"))
}

struct DecodedCall<F: Face, P: 'static> {
    row: &'static Row<F, P>,
    params: Arc<P>,
}

impl<F: Face, P: DeserializeOwned + Serialize + Send + Sync + 'static> Call<F> for DecodedCall<F, P> {
    fn method(&self) -> &'static dyn Method<F> {
        self.row
    }

    fn session_id(&self) -> Option<&str> {
        (self.row.session)(&self.params)
    }

    fn details(&self) -> Details {
        (self.row.audit)(&self.params)
    }

    fn key(&self) -> Option<(&str, u64)> {
        self.row.key.and_then(|key| key(&self.params))
    }

    fn digest(&self) -> String {
        digest(self.row.name, serde_json::to_value(&*self.params).unwrap_or_default(), F::IDENTITY_PARAMS)
    }

    fn prepare(&self, context: &PrepareContext<'_, F>) -> Result<Prepared<F>, RpcError> {
        (self.row.prepare)(&self.params, context)
    }
}

/// The digest of a request without the params that identify it alone.
fn digest(method: &str, mut params: serde_json::Value, identity_params: &[&str]) -> String {
    if let Some(params) = params.as_object_mut() {
        params.retain(|name, _| !identity_params.contains(&name.as_str()));
    }
    hex::encode(Sha256::digest(format!("{method} {params}")))
}

/// Audit details with one text.
pub fn detail(name: &'static str, value: &str) -> Details {
    vec![(name.into(), engine::audit::Detail::Text(value.to_owned()))]
}

/// The same details with the size of a value that the audit must not contain.
pub fn with_size(mut details: Details, name: &'static str, bytes: usize) -> Details {
    details.push((name.into(), engine::audit::Detail::Hidden { bytes: bytes as u64 }));
    details
}

/// No audit details, for methods without any.
pub fn no_details<P>(_params: &P) -> Details {
    Vec::new()
}

opaque_debug!(Decoded<F: Face>, Prepared<F: Face>, Row<F: Face, P>, ConnectionRow<F: Face, P>);
