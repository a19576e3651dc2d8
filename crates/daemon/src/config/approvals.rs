//! `[approvals]`: who can answer approval requests, and their timeout.

use std::time::Duration;

use engine::policy::Glob;

use super::section::{ConfigError, Section};

/// Who can answer approval requests, and when they expire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalsConfig {
    /// The time after which an unanswered request is denied.
    pub within: Duration,
    /// The callers that can answer, as globs such as `token:phone` or `uid:1000`.
    pub approvers: Vec<Glob>,
    /// Whether the requester can approve its own request.
    pub self_approval: bool,
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        Self { within: Duration::from_secs(300), approvers: vec![Glob::new("*")], self_approval: true }
    }
}

pub(super) fn read(section: Section<'_, '_>) -> Result<ApprovalsConfig, ConfigError> {
    let base = ApprovalsConfig::default();
    let approvers = section.globs("approvers")?;
    Ok(ApprovalsConfig {
        within: section.number("timeout_ms")?.map_or(base.within, Duration::from_millis),
        approvers: if approvers.is_empty() { base.approvers } else { approvers },
        self_approval: section.boolean("self_approval", base.self_approval)?,
    })
}
