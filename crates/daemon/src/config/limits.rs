//! `[limits]`: the limits of sessions, processes and files.

use std::time::Duration;

use engine::Limits;
use engine::limits::OnOutputLimit;

use super::section::{ConfigError, Section};

/// The limits of the file, on top of `base`. Zero means no limit where that is possible.
pub(super) fn read(section: Section<'_, '_>, base: Limits) -> Result<Limits, ConfigError> {
    let choices = [("kill", OnOutputLimit::Kill), ("truncate", OnOutputLimit::Truncate)];
    let limits = Limits {
        default_timeout: time(&section, "default_timeout_ms", base.default_timeout)?,
        hard_timeout: time(&section, "hard_timeout_ms", base.hard_timeout)?,
        max_output_bytes: limit(&section, "max_output_bytes", base.max_output_bytes)?,
        hard_output_bytes: limit(&section, "hard_output_bytes", base.hard_output_bytes)?,
        max_file_read_bytes: section.positive("max_file_read_bytes", base.max_file_read_bytes)?,
        max_processes_per_session: section
            .count("max_processes_per_session", base.max_processes_per_session)?,
        max_concurrent_sessions: section.count("max_concurrent_sessions", base.max_concurrent_sessions)?,
        on_output_limit: section.choice("on_output_limit", &choices)?.unwrap_or(base.on_output_limit),
        log_bytes: section.count("log_bytes", base.log_bytes)?,
        spill_bytes: section.number("spill_bytes")?.unwrap_or(base.spill_bytes),
        finished_kept: section.count("finished_kept", base.finished_kept)?,
        finished_for: section.time("finished_for_ms", base.finished_for)?,
        stdin_start_bytes: section.count("stdin_start_bytes", base.stdin_start_bytes)?,
        scan_deadline: section.time("scan_deadline_ms", base.scan_deadline)?,
        ..base
    };
    if is_above(limits.default_timeout, limits.hard_timeout) {
        warn(&section, "default_timeout_ms", "hard_timeout_ms");
    }
    if is_above(limits.max_output_bytes, limits.hard_output_bytes) {
        warn(&section, "max_output_bytes", "hard_output_bytes");
    }
    Ok(limits)
}

fn is_above<T: PartialOrd>(default: Option<T>, hard: Option<T>) -> bool {
    default.zip(hard).is_some_and(|(default, hard)| default > hard)
}

/// Warns about a default that is above its maximum.
fn warn(section: &Section<'_, '_>, default: &str, hard: &str) {
    section.warn(default, format_args!("limits.{default} is larger than limits.{hard}, which applies"));
}

type Limit<T> = Result<Option<T>, ConfigError>;

fn time(section: &Section<'_, '_>, key: &'static str, base: Option<Duration>) -> Limit<Duration> {
    let base = base.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    Ok(limit(section, key, base)?.map(Duration::from_millis))
}

fn limit(section: &Section<'_, '_>, key: &'static str, base: Option<u64>) -> Limit<u64> {
    Ok(section.number(key)?.or(base).filter(|limit| *limit > 0))
}
