//! Requests for permission of all hosts of a hub: the list, the text of one, and the decision.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::api::{HubClient, path_segment};
use super::error::HubError;

/// A request for permission, as the hub lists it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRow {
    /// The run that waits.
    pub run_id: String,
    /// The request.
    pub request_id: String,
    /// The host of the run.
    pub host_id: String,
    /// `pending`, `sent` (decided, and not yet confirmed by the host) or `decided`.
    #[serde(default)]
    pub status: String,
    /// When the request was stored, RFC 3339.
    #[serde(default)]
    pub requested_at: Option<String>,
    /// When the host denies it without an answer, RFC 3339.
    #[serde(default)]
    pub expires_at: Option<String>,
    /// The decision.
    #[serde(default)]
    pub decision: Option<String>,
    /// Who decided.
    #[serde(default)]
    pub decided_by: Option<String>,
    /// The data of `run.permission_requested`, redacted.
    #[serde(default)]
    pub request: Option<Value>,
    /// The true text, which the hub fetches from the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Value>,
    /// Why the true text is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_error: Option<String>,
}

/// What a user decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// The operation may be performed once.
    Approve,
    /// The same operation may be performed for the rest of the run.
    ApproveForSession,
    /// The operation must not be performed.
    Deny,
}

impl ApprovalDecision {
    const fn as_str(self) -> &'static str {
        match self {
            ApprovalDecision::Approve => "approve",
            ApprovalDecision::ApproveForSession => "approve_for_session",
            ApprovalDecision::Deny => "deny",
        }
    }
}

#[derive(Serialize)]
struct DecisionParams<'a> {
    decision: &'a str,
    actor: &'a str,
}

impl HubClient {
    /// The pending requests of all hosts, or of one.
    pub async fn approvals(&self, host_id: Option<&str>) -> Result<Vec<ApprovalRow>, HubError> {
        self.get(&approvals_path(host_id)).await
    }

    /// One request with its true text.
    pub async fn approval(&self, run_id: &str, request_id: &str) -> Result<ApprovalRow, HubError> {
        self.get(&approval_path(run_id, request_id)).await
    }

    /// Decides a request. Repeated after a cut connection: the first decision counts, and the hub says which it was.
    pub async fn decide(
        &self,
        run_id: &str,
        request_id: &str,
        decision: ApprovalDecision,
    ) -> Result<(), HubError> {
        let path = approval_path(run_id, request_id);
        let params = DecisionParams { decision: decision.as_str(), actor: "cli" };
        let (sent, was_cut) = self.repeat(|| self.send(&path, &params)).await;
        let Err(error) = sent else { return Ok(()) };
        if was_cut && matches!(&error, HubError::Refused { status, .. } if status.is_client_error()) {
            // The first attempt may have decided it.
            let row = self.approval(run_id, request_id).await?;
            if row.decision.as_deref() == Some(decision.as_str()) {
                return Ok(());
            }
        }
        Err(error)
    }
}

/// The path of the list of pending requests.
pub fn approvals_path(host_id: Option<&str>) -> String {
    match host_id {
        Some(host) => format!("/approvals?host_id={}", path_segment(host)),
        None => "/approvals".to_owned(),
    }
}

fn approval_path(run_id: &str, request_id: &str) -> String {
    format!("/approvals/{}/{}", path_segment(run_id), path_segment(request_id))
}
