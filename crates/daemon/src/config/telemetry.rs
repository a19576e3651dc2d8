//! `[telemetry]`: metrics and traces.

use super::section::{ConfigError, Section};
use crate::observe::traces::check_endpoint;

/// The settings of metrics and traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The OpenTelemetry collector for traces, as `http://HOST:PORT`. Environment variables take precedence.
    pub otlp_endpoint: Option<String>,
    /// Whether `/metrics` is served.
    pub metrics: bool,
}

pub(super) fn read(section: Section<'_, '_>) -> Result<TelemetryConfig, ConfigError> {
    let otlp_endpoint = section.text("otlp_endpoint")?.filter(|url| !url.is_empty());
    if let Some(Err(error)) = otlp_endpoint.as_deref().map(check_endpoint) {
        return Err(section.error_at("otlp_endpoint", error.to_string()));
    }
    Ok(TelemetryConfig { otlp_endpoint, metrics: section.boolean("metrics", true)? })
}
