//! `[keepers]`: limits of detached processes, their logs and their retention.

use std::time::Duration;

use super::section::{ConfigError, Section};

/// Limits of detached processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepersConfig {
    /// The log limit per process; beyond it the oldest output is removed and reported as lost.
    pub log_bytes: u64,
    /// The log limit of all processes together; beyond it the output of ended processes is removed first.
    pub quota_bytes: u64,
    /// How long the log and the status are kept after the end of a process.
    pub keep: Duration,
    /// The maximal number of running detached processes of one user; further starts are refused.
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
    Ok(KeepersConfig {
        log_bytes: section.number("log_bytes")?.unwrap_or(base.log_bytes),
        quota_bytes: section.number("quota_bytes")?.unwrap_or(base.quota_bytes),
        keep: section.number("keep_ms")?.map_or(base.keep, Duration::from_millis),
        max: section.number("max")?.map_or(base.max, |max| usize::try_from(max).unwrap_or(usize::MAX)),
    })
}
