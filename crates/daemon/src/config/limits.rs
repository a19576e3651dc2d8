//! `[limits]`: the limits of sessions, processes and files.

use std::time::Duration;

use engine::Limits;
use engine::limits::OnOutputLimit;

use super::section::{ConfigError, Section};

/// The limits of the file, on top of `base`. Zero means no limit where that is possible.
pub(super) fn read(section: Section<'_, '_>, base: Limits) -> Result<Limits, ConfigError> {
    let choices = [("kill", OnOutputLimit::Kill), ("truncate", OnOutputLimit::Truncate)];
    let limits = Limits {
        default_timeout: optional_time(&section, "default_timeout_ms", base.default_timeout)?,
        hard_timeout: optional_time(&section, "hard_timeout_ms", base.hard_timeout)?,
        max_output_bytes: optional_size(&section, "max_output_bytes", base.max_output_bytes)?,
        hard_output_bytes: optional_size(&section, "hard_output_bytes", base.hard_output_bytes)?,
        max_file_read_bytes: section.positive("max_file_read_bytes")?.unwrap_or(base.max_file_read_bytes),
        max_processes_per_session: count(
            &section,
            "max_processes_per_session",
            base.max_processes_per_session,
        )?,
        max_concurrent_sessions: count(&section, "max_concurrent_sessions", base.max_concurrent_sessions)?,
        on_output_limit: section.choice("on_output_limit", &choices)?.unwrap_or(base.on_output_limit),
        log_bytes: count(&section, "log_bytes", base.log_bytes)?,
        spill_bytes: section.number("spill_bytes")?.unwrap_or(base.spill_bytes),
        finished_kept: count(&section, "finished_kept", base.finished_kept)?,
        finished_for: time(&section, "finished_for_ms", base.finished_for)?,
        stdin_start_bytes: count(&section, "stdin_start_bytes", base.stdin_start_bytes)?,
        scan_deadline: time(&section, "scan_deadline_ms", base.scan_deadline)?,
        ..base
    };
    check_order(&section, &limits);
    section.finish();
    Ok(limits)
}

/// Warns about a default that is above its maximum.
fn check_order(section: &Section<'_, '_>, limits: &Limits) {
    let document = section.document;
    if let (Some(default), Some(hard)) = (limits.default_timeout, limits.hard_timeout)
        && default > hard
    {
        let text = "limits.default_timeout_ms is larger than limits.hard_timeout_ms, which applies";
        document.warn(section.span_of("default_timeout_ms"), text);
    }
    if let (Some(default), Some(hard)) = (limits.max_output_bytes, limits.hard_output_bytes)
        && default > hard
    {
        let text = "limits.max_output_bytes is larger than limits.hard_output_bytes, which applies";
        document.warn(section.span_of("max_output_bytes"), text);
    }
}

fn optional_time(
    section: &Section<'_, '_>,
    key: &'static str,
    base: Option<Duration>,
) -> Result<Option<Duration>, ConfigError> {
    let base = base.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    Ok(optional_size(section, key, base)?.map(Duration::from_millis))
}

fn optional_size(
    section: &Section<'_, '_>,
    key: &'static str,
    base: Option<u64>,
) -> Result<Option<u64>, ConfigError> {
    Ok(match section.number(key)? {
        None => base,
        Some(0) => None,
        Some(bytes) => Some(bytes),
    })
}

fn time(section: &Section<'_, '_>, key: &'static str, base: Duration) -> Result<Duration, ConfigError> {
    Ok(section.positive(key)?.map_or(base, Duration::from_millis))
}

fn count(section: &Section<'_, '_>, key: &'static str, base: usize) -> Result<usize, ConfigError> {
    Ok(section.positive(key)?.map_or(base, |number| usize::try_from(number).unwrap_or(usize::MAX)))
}
