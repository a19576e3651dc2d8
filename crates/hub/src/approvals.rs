//! Requests for permission: a user's decision, taken once and repeated to the host until it confirms.

use serde_json::{Map, Value};
use wire::hub::v1::{RecordedDecision, kind};

use crate::auth::{Principal, now_ms};
use crate::hosts::HostUnreachable;
use crate::routing::command;
use crate::services::{Services, addressed};
use crate::store::{ApprovalStatus, AuditEntry, StoreError, UserDecision};

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecisionError {
    #[error("no pending request {0:?}")]
    Unknown(String),
    #[error(
        "already decided{}{}",
        .by.as_ref().map(|name| format!(" by {name}")).unwrap_or_default(),
        .decision.as_ref().map(|decision| format!(": {decision}")).unwrap_or_default()
    )]
    AlreadyDecided { by: Option<String>, decision: Option<String> },
    #[error(
        "the decision {0:?} does not match the message, or is none of approve, approve_for_session, deny, abort"
    )]
    Word(String),
    #[error("host offline")]
    HostOffline,
    #[error("the hub cannot access its database")]
    Store(#[from] StoreError),
}

impl DecisionError {
    /// The word for programs in `app.error`.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            DecisionError::Unknown(_) => "unknown_request",
            DecisionError::AlreadyDecided { .. } => "already_decided",
            DecisionError::Word(_) => "bad_message",
            DecisionError::HostOffline => "host_offline",
            DecisionError::Store(_) => "store_failed",
        }
    }
}

/// Records a decision and sends it to the host. `name` is `run.permission.approve` or `run.permission.deny`.
pub(crate) async fn decide(
    services: &Services,
    principal: &Principal,
    (host, run): (&str, &str),
    name: &str,
    data: Map<String, Value>,
) -> Result<(), DecisionError> {
    let text = |member: &str| data.get(member).and_then(Value::as_str).map(str::to_owned);
    let request = text("request_id").unwrap_or_default();
    let by_type = if name == kind::RUN_PERMISSION_APPROVE { "approve" } else { "deny" };
    let decision = text("decision").unwrap_or_else(|| by_type.to_owned());
    // A message that denies never approves.
    let is_valid = match decision.as_str() {
        "approve" | "approve_for_session" => by_type == "approve",
        word => matches!(word, "deny" | "abort"),
    };
    if !is_valid {
        return Err(DecisionError::Word(decision));
    }
    let reason = text("reason");
    let known = services.store.approval(run, &request).await?;
    match known {
        None => return Err(DecisionError::Unknown(request)),
        Some(known) if known.status != ApprovalStatus::Pending => {
            return Err(DecisionError::AlreadyDecided { by: known.decided_by, decision: known.decision });
        }
        Some(_pending) => {}
    }
    if !services.hosts.is_connected(host) {
        return Err(DecisionError::HostOffline);
    }
    let frame = command(name, host, Some(run), data);
    let recorded = UserDecision {
        decision: &decision,
        user: &principal.name,
        reason: reason.as_deref(),
        command: std::str::from_utf8(&frame).unwrap_or_default(),
        now_ms: now_ms(),
    };
    if !services.store.decide(run, &request, &recorded).await? {
        let known = services.store.approval(run, &request).await?;
        let (by, decision) = known.map(|known| (known.decided_by, known.decision)).unwrap_or_default();
        return Err(DecisionError::AlreadyDecided { by, decision });
    }
    let user = principal.name.to_string();
    let recorded = RecordedDecision { request_id: request.clone(), decision: decision.clone(), user, reason };
    services.feed.publish_frame(&addressed(kind::APPROVAL_DECISION, &recorded, Some(host), Some(run)));
    services.notifier.settled(run, &request);
    let entry = AuditEntry::new(principal.actor(), name, run).with_detail(format!("{request} {decision}"));
    services.audit(entry).await;
    match services.hosts.send(host, frame.clone()) {
        Err(HostUnreachable::Busy) => {
            let (hosts, host) = (services.hosts.clone(), host.to_owned());
            services.tasks.spawn(async move { hosts.send_when_free(&host, frame).await });
        }
        // It is sent again when the host connects the next time.
        Ok(()) | Err(HostUnreachable::Offline | HostUnreachable::TooManyRequests) => {}
    }
    Ok(())
}
