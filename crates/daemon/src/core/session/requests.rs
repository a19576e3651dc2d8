//! A request on its way through a session: scheduled, looked up by its key, converted, authorized, run.

use std::sync::Arc;

use engine::Error;
use engine::approval::ApprovalIdentity;
use engine::audit::PolicyOutcome;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::RpcError;

use super::keys::{KeyLookup, KeyReservation};
use super::scheduler::SchedulerGuard;
use super::{Face, Session, SessionHandle, SessionMessage};
use crate::core::Core;
use crate::core::authorize::{ApprovalWait, Asking, Refusal, authorize};
use crate::core::effects::Effects;
use crate::core::prepare::PrepareContext;
use crate::core::request::{AuthorizedRequest, RequestContext};
use crate::core::responder::Responder;
use crate::core::runtime_policy::RuntimePolicy;
use crate::core::table::{Call, Prepared, Schedule};

/// A decoded request that has not run yet.
pub struct PendingRequest<F: Face> {
    call: Box<dyn Call<F>>,
    /// Where its response goes.
    pub responder: Responder,
    /// The id that its client gave it, in protocols that match approvals to requests.
    pub request_id: Option<Arc<str>>,
    /// The approval that an earlier daemon has requested for it.
    pub earlier_approval: Option<ApprovalIdentity>,
    /// True while approvers decide about it, in faces whose clocks stop meanwhile.
    pub asks: Option<watch::Sender<bool>>,
    key: Option<KeyReservation>,
    prepared: Option<(Prepared<F>, RequestContext)>,
    /// The policy under which an approver accepted it.
    approved_under: Option<Arc<RuntimePolicy>>,
    is_authorized: bool,
}

impl<F: Face> PendingRequest<F> {
    /// A request that was just decoded.
    pub fn new(call: Box<dyn Call<F>>, responder: Responder) -> PendingRequest<F> {
        PendingRequest {
            call,
            responder,
            request_id: None,
            earlier_approval: None,
            asks: None,
            key: None,
            prepared: None,
            approved_under: None,
            is_authorized: false,
        }
    }

    /// The session that its parameters name.
    pub fn session_id(&self) -> Option<&str> {
        self.call.session_id()
    }
}

impl<F: Face> Session<F> {
    /// Runs a request in order: at once if nothing before it has to end first.
    pub(super) fn schedule(&mut self, mut request: Box<PendingRequest<F>>) {
        request.responder.keep_busy(self.connections.liveness.request_started());
        let class = match request.call.method().schedule() {
            // Authorization happens beside the session; a request that shares a batch could overtake it.
            Schedule::Write if self.core.policy.current().policy.restricts_files() => Schedule::Exclusive,
            class => class,
        };
        match self.scheduler.schedule(class) {
            Ok(guard) => self.begin(request, guard),
            Err(waiting) => {
                let handle = self.handle();
                self.spawn(async move {
                    let guard = waiting.await;
                    handle.send(SessionMessage::Scheduled(request, guard)).await;
                });
            }
        }
    }

    /// Runs a request whose turn has come, as far as its authorization does not have to be waited for.
    pub(super) fn begin(&mut self, mut request: Box<PendingRequest<F>>, guard: SchedulerGuard) {
        if request.key.is_none()
            && let Some((key, fingerprint)) = request.call.key()
        {
            match self.keys.reserve(key, fingerprint) {
                KeyLookup::New(reservation) => request.key = Some(reservation),
                KeyLookup::Completed(result) => return self.respond(request.responder, result),
                KeyLookup::InUse => return self.reject(request.responder, F::key_in_use()),
            }
        }
        if request.prepared.is_none() {
            let context = RequestContext {
                // One session may serve several callers.
                requester: request.responder.requester().unwrap_or(&self.requester).clone(),
                method: request.call.method().name(),
                request_id: request.request_id.clone(),
                earlier_approval: request.earlier_approval.clone(),
                cwd: self.cwd.clone(),
                authorization: Default::default(),
                cancel: request.responder.cancel.clone(),
            };
            match request.call.prepare(&PrepareContext { session: self, request: &context }) {
                Ok(prepared) => request.prepared = Some((prepared, context)),
                Err(error) => return self.reject(request.responder, error),
            }
        }
        self.authorize(request, guard);
    }

    fn authorize(&mut self, mut request: Box<PendingRequest<F>>, guard: SchedulerGuard) {
        let policy = self.core.policy.current();
        let is_current = |under: &Arc<RuntimePolicy>| Arc::ptr_eq(under, &policy);
        if request.is_authorized || request.approved_under.as_ref().is_some_and(is_current) {
            return self.run(request, guard);
        }
        let check = RequestCheck {
            session: self.handle(),
            core: self.core.clone(),
            over: self.over.clone(),
            policy: policy.clone(),
        };
        let always_asks =
            request.prepared.as_ref().is_some_and(|(prepared, _)| prepared.always_asks.is_some());
        match request.prepared.as_ref().map(|(prepared, _)| &prepared.effects) {
            Some(Effects::Files(_)) if policy.policy.restricts_files() || always_asks => {
                self.spawn(check.files(request, guard));
            }
            Some(Effects::Command(_)) => match check.decide(&request) {
                Ok(decision) => {
                    request.record_decision(decision);
                    self.run(request, guard);
                }
                Err(refusal) => {
                    drop(guard);
                    self.spawn(check.refuse(request, refusal));
                }
            },
            Some(Effects::Files(_) | Effects::None) | None => self.run(request, guard),
        }
    }

    fn run(&mut self, request: Box<PendingRequest<F>>, guard: SchedulerGuard) {
        let PendingRequest { responder, key, prepared, .. } = *request;
        match prepared {
            Some((prepared, context)) => {
                (prepared.run)(self, AuthorizedRequest { context, responder, guard, key })
            }
            None => self.reject(responder, RpcError::internal("the request was not prepared")),
        }
    }
}

impl<F: Face> PendingRequest<F> {
    fn record_decision(&mut self, decision: Option<PolicyOutcome>) {
        // The decision that an approver was asked about is the one to record.
        if let (Some(decision), None) = (decision, &self.approved_under) {
            self.responder.record_decision(decision);
        }
    }
}

/// What it takes to authorize a request beside its session.
struct RequestCheck<F: Face> {
    session: SessionHandle<F>,
    core: Arc<Core>,
    over: CancellationToken,
    policy: Arc<RuntimePolicy>,
}

impl<F: Face> RequestCheck<F> {
    fn decide(&self, request: &PendingRequest<F>) -> Result<Option<PolicyOutcome>, Refusal> {
        let Some((prepared, context)) = &request.prepared else { return Ok(None) };
        let asking = Asking { always: prepared.always_asks, was_approved: request.approved_under.is_some() };
        authorize(&self.policy, context, &prepared.effects, &|| request.call.digest(), asking)
    }

    /// Checks effects on files, which may wait for a disk, and runs the request or refuses it.
    async fn files(self, request: Box<PendingRequest<F>>, guard: SchedulerGuard) {
        let work = move || {
            let outcome = self.decide(&request);
            (self, request, outcome)
        };
        // If the daemon ends meanwhile, the dropped responder says so.
        let Ok((this, mut request, outcome)) = tokio::task::spawn_blocking(work).await else { return };
        match outcome {
            Ok(decision) => {
                request.record_decision(decision);
                request.is_authorized = true;
                this.session.send(SessionMessage::Scheduled(request, guard)).await;
            }
            Err(refusal) => {
                drop(guard);
                this.refuse(request, refusal).await;
            }
        }
    }

    /// Responds to a request that is denied, or asks approvers. An accepted request is scheduled again, without the turn
    /// it had.
    async fn refuse(self, mut request: Box<PendingRequest<F>>, refusal: Refusal) {
        let approval = match refusal {
            Refusal::Denied(denied) => {
                let (error, decision) = *denied;
                decision.into_iter().for_each(|decision| request.responder.record_decision(decision));
                return request.responder.reject(F::error(error)).await;
            }
            Refusal::Ask(approval) => approval,
        };
        request.responder.record_decision(approval.decision.clone());
        let authorization = request.prepared.as_ref().map(|(_, context)| context.authorization.clone());
        let cancel = request.responder.cancel.clone();
        let wait = ApprovalWait { cancel: &cancel, over: &self.over };
        let approvers = (&self.core.approvals, self.core.peers.as_ref());
        let set_asks = |asks: bool| {
            request.asks.iter().for_each(|sender| {
                sender.send_replace(asks);
            });
        };
        set_asks(true);
        let (record, result) = approval.wait(approvers, &authorization.unwrap_or_default(), wait).await;
        set_asks(false);
        record.into_iter().for_each(|record| request.responder.record_approval(record));
        match result {
            Ok(()) => {
                request.approved_under = Some(self.policy);
                if let Err(request) = self.session.request(request).await {
                    request.responder.reject(F::error(Error::Gone)).await;
                }
            }
            Err(error) => request.responder.reject(F::error(error)).await,
        }
    }
}

opaque_debug!(PendingRequest<F: Face>);
