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

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { otlp_endpoint: None, metrics: true }
    }
}

pub(super) fn telemetry(section: Section<'_, '_>) -> Result<TelemetryConfig, ConfigError> {
    let otlp_endpoint = section.text("otlp_endpoint")?.filter(|url| !url.is_empty());
    if let Some(Err(error)) = otlp_endpoint.as_deref().map(check_endpoint) {
        return Err(section.document.error(section.span_of("otlp_endpoint"), error.to_string()));
    }
    let metrics = section.boolean("metrics")?.unwrap_or(true);
    section.finish();
    Ok(TelemetryConfig { otlp_endpoint, metrics })
}
