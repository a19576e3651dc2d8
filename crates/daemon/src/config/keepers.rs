//! `[keepers]`: how much detached processes may keep, and for how long.

use std::time::Duration;

use super::section::{ConfigError, Section};

/// What the operator decides about detached processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepersConfig {
    /// Output kept on disk per process; past it the oldest goes and is declared lost.
    pub log_bytes: u64,
    /// Output kept on disk of all processes together; past it ended ones lose theirs first.
    pub quota_bytes: u64,
    /// How long the log and the status stay after the end.
    pub keep: Duration,
    /// Detached processes of one user that may run at the same time; the next start is refused.
    pub max: usize,
}

impl Default for KeepersConfig {
    fn default() -> Self {
        Self {
            log_bytes: 64 * 1024 * 1024,
            quota_bytes: 1024 * 1024 * 1024,
            keep: Duration::from_secs(24 * 60 * 60),
            max: 256,
        }
    }
}

pub(super) fn read(section: Section<'_, '_>) -> Result<KeepersConfig, ConfigError> {
    let base = KeepersConfig::default();
    let config = KeepersConfig {
        log_bytes: section.number("log_bytes")?.unwrap_or(base.log_bytes),
        quota_bytes: section.number("quota_bytes")?.unwrap_or(base.quota_bytes),
        keep: section.number("keep_ms")?.map_or(base.keep, Duration::from_millis),
        max: section.number("max")?.map_or(base.max, |max| usize::try_from(max).unwrap_or(usize::MAX)),
    };
    section.finish();
    Ok(config)
}
