//! Commands and requests of clients: who may send them, and the host that receives them.

use bytes::Bytes;
use serde_json::{Map, Value};
use wire::hub::v1::{Envelope, RpcResponse, kind, rpc};

use crate::approvals::{self, DecisionError};
use crate::auth::{Principal, UserRole};
use crate::hosts::{HostRequest, HostUnreachable, RpcWaiter, Unanswered};
use crate::runs::is_usable_id;
use crate::services::{Services, addressed, timestamp};
use crate::store::{AuditEntry, StoreError};

/// Why a message was not delivered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RouteError {
    #[error("unknown run_id")]
    UnknownRun,
    #[error("unknown host_id")]
    UnknownHost,
    #[error(transparent)]
    Unreachable(#[from] HostUnreachable),
    #[error("forbidden: {needed} role required, {name} is {role}")]
    Forbidden { needed: UserRole, name: String, role: UserRole },
    #[error("forbidden: this link only shows one run")]
    OutsideShare,
    #[error("{0}")]
    Invalid(String),
    #[error("unknown message type")]
    UnknownType,
    #[error(transparent)]
    Decision(#[from] DecisionError),
    #[error("the hub cannot access its database")]
    Store(#[from] StoreError),
}

impl RouteError {
    /// The word for programs in `app.error`.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            RouteError::UnknownRun => "unknown_run",
            RouteError::UnknownHost => "unknown_host",
            RouteError::Unreachable(HostUnreachable::Offline) => "host_offline",
            RouteError::Unreachable(_) => "host_busy",
            RouteError::Forbidden { .. } | RouteError::OutsideShare => "forbidden",
            RouteError::Invalid(_) => "bad_message",
            RouteError::UnknownType => "unknown_type",
            RouteError::Decision(error) => error.code(),
            RouteError::Store(_) => "store_failed",
        }
    }
}

/// The role that a message needs; `None` if it is not one that is forwarded.
fn needed_role(name: &str) -> Option<UserRole> {
    match name {
        kind::RUN_SEND_INPUT | kind::RUN_SEND_STDIN | kind::RUN_RESIZE | kind::RUN_STOP => {
            Some(UserRole::Operator)
        }
        kind::RUN_PERMISSION_APPROVE | kind::RUN_PERMISSION_DENY => Some(UserRole::Operator),
        rpc::FS_READ | rpc::FS_SEARCH | rpc::FS_LIST | rpc::GIT_STATUS | rpc::GIT_DIFF => {
            Some(UserRole::Viewer)
        }
        rpc::RUN_SCREEN | rpc::RUNS_LIST => Some(UserRole::Viewer),
        rpc::HOST_INFO | rpc::HOST_DOCTOR | rpc::HOST_CAPABILITIES => Some(UserRole::Viewer),
        // Also requests that this version does not know.
        name if name.starts_with("rpc.") && name != kind::RPC_RESPONSE => Some(UserRole::Operator),
        _ => None,
    }
}

/// True if the message is recorded: everything that changes something, except single keys and sizes. Each card of the app
/// reads its approval; the decision is recorded.
fn is_audited(name: &str) -> bool {
    let is_frequent = matches!(name, kind::RUN_SEND_STDIN | kind::RUN_RESIZE | rpc::APPROVAL_SHOW);
    needed_role(name) >= Some(UserRole::Operator) && !is_frequent
}

/// True for everyone but the viewer of a share link, who only watches the run of the link.
pub(crate) fn is_within_share(principal: &Principal, envelope: &Envelope) -> bool {
    let Some(only) = principal.only_run() else { return true };
    match envelope.kind.as_str() {
        kind::RUN_SUBSCRIBE | kind::RUN_UNSUBSCRIBE | rpc::RUN_SCREEN => {
            envelope.run_id.as_deref() == Some(&**only)
        }
        kind::APP_AUTH | kind::APP_PING => true,
        _ => false,
    }
}

/// Checks that a principal has a role.
pub(crate) fn require(principal: &Principal, needed: UserRole) -> Result<(), RouteError> {
    match principal.role >= needed {
        true => Ok(()),
        false => {
            let (name, role) = (principal.name.to_string(), principal.role);
            Err(RouteError::Forbidden { needed, name, role })
        }
    }
}

/// Forwards a command or a request to its host. The response to a request is delivered to `waiter`.
pub(crate) async fn forward(
    services: &Services,
    principal: &Principal,
    envelope: &Envelope,
    waiter: Option<RpcWaiter>,
) -> Result<(), RouteError> {
    let name = envelope.kind.as_str();
    require(principal, needed_role(name).ok_or(RouteError::UnknownType)?)?;
    let mut data: Map<String, Value> =
        envelope.decode().map_err(|error| RouteError::Invalid(format!("the data is invalid: {error}")))?;
    data.insert("user".to_owned(), principal.name.as_ref().into());
    let host = target_host(services, envelope, &data).await?;
    let request_id = data.get("request_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_rpc = name.starts_with("rpc.");
    if is_rpc && !is_usable_id(&request_id) {
        return Err(RouteError::Invalid("missing request_id".to_owned()));
    }
    if matches!(name, kind::RUN_PERMISSION_APPROVE | kind::RUN_PERMISSION_DENY) {
        let run = envelope.run_id.as_deref().unwrap_or_default();
        return Ok(approvals::decide(services, principal, (&host, run), name, data).await?);
    }
    let frame = command(name, &host, envelope.run_id.as_deref(), data);
    match (is_rpc, waiter) {
        (true, Some(waiter)) => {
            let request = HostRequest {
                request_id: request_id.clone(),
                rpc_type: name.to_owned(),
                run_id: envelope.run_id.clone(),
                is_read: needed_role(name) == Some(UserRole::Viewer),
                frame,
            };
            services.hosts.request(&host, request, waiter)?;
        }
        _ => services.hosts.send(&host, frame)?,
    }
    if is_audited(name) {
        let target = envelope.run_id.as_deref().unwrap_or(&host);
        let entry = AuditEntry::new(principal.actor(), name, target).with_detail(request_id);
        services.audit_log.append(entry).await;
    }
    Ok(())
}

/// Answers requests that get no response of their host.
pub(crate) fn fail(services: &Services, requests: Vec<Unanswered>) {
    for Unanswered { host, request, waiters } in requests {
        let error = match request.is_read {
            true => "host offline",
            false => "host offline: the outcome is not known; repeat the request with the same request_id",
        };
        let response = RpcResponse {
            request_id: request.request_id,
            ok: false,
            rpc_type: request.rpc_type,
            result: None,
            error: Some(error.to_owned()),
        };
        let run = request.run_id.as_deref();
        let frame = addressed(kind::RPC_RESPONSE, &response, Some(&host), run);
        for waiter in waiters {
            services.deliver(waiter, &frame);
        }
    }
}

/// The host that a message is for: that of its run, or the one in its data.
async fn target_host(
    services: &Services,
    envelope: &Envelope,
    data: &Map<String, Value>,
) -> Result<String, RouteError> {
    if rpc::is_for_host(&envelope.kind) {
        let named = data.get("host_id").and_then(Value::as_str).map(str::to_owned);
        let host = named.or_else(|| envelope.host_id.clone()).filter(|host| is_usable_id(host));
        let host = host.ok_or_else(|| RouteError::Invalid("missing host_id".to_owned()))?;
        return match services.hosts.is_connected(&host) || services.store.host(&host, 0).await?.is_some() {
            true => Ok(host),
            false => Err(RouteError::UnknownHost),
        };
    }
    let run = envelope.run_id.as_deref().filter(|run| is_usable_id(run)).ok_or(RouteError::UnknownRun)?;
    services.store.host_of_run(run).await?.ok_or(RouteError::UnknownRun)
}

/// A message to a host: only the type, the run and the data of the client's.
pub(crate) fn command(name: &str, host: &str, run: Option<&str>, data: Map<String, Value>) -> Bytes {
    let mut envelope = Map::new();
    envelope.insert("type".to_owned(), name.into());
    envelope.insert("ts".to_owned(), timestamp().into());
    envelope.insert("host_id".to_owned(), host.into());
    envelope.extend(run.map(|run| ("run_id".to_owned(), run.into())));
    envelope.insert("data".to_owned(), Value::Object(data));
    Value::Object(envelope).to_string().into()
}
