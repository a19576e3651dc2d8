//! `[approvals]`: who may answer what the policy asks about, and how long an answer is waited for.

use std::time::Duration;

use engine::policy::Glob;

use super::section::{ConfigError, Section};

/// What the operator decides about approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalsConfig {
    /// How long an answer is waited for; then it is a no.
    pub within: Duration,
    /// Who may answer, by what they proved, such as `token:phone` or `uid:1000`.
    pub approvers: Vec<Glob>,
    /// Whether whoever asks may answer.
    pub self_approval: bool,
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        Self { within: Duration::from_secs(300), approvers: vec![Glob::new("*")], self_approval: true }
    }
}

pub(super) fn read(section: Section<'_, '_>) -> Result<ApprovalsConfig, ConfigError> {
    let base = ApprovalsConfig::default();
    let approvers = section.texts("approvers")?;
    let config = ApprovalsConfig {
        within: section.number("timeout_ms")?.map_or(base.within, Duration::from_millis),
        approvers: match approvers.is_empty() {
            true => base.approvers,
            false => approvers.into_iter().map(Glob::new).collect(),
        },
        self_approval: section.boolean("self_approval")?.unwrap_or(base.self_approval),
    };
    section.finish();
    Ok(config)
}
