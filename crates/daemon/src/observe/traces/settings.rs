//! The settings of traces, from OpenTelemetry's environment variables and from the configuration.

use std::time::Duration;

use super::http::Endpoint;

/// The default timeout of one request to the collector.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const NAME: &str = "service.name";

/// The collector, and the resource attributes of the spans.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    pub(super) endpoint: Endpoint,
    pub(super) headers: Vec<(String, String)>,
    pub(super) resource: Vec<(String, String)>,
    /// Delays and timeouts of the exporter.
    pub timing: ExportTiming,
}

/// Delays and timeouts of the exporter.
#[derive(Debug, Clone)]
pub struct ExportTiming {
    /// How long spans are collected into one batch.
    pub batch_delay: Duration,
    /// The timeout of one request to the collector.
    pub request_timeout: Duration,
    /// The pause after the first failure; each further failure doubles it.
    pub initial_backoff: Duration,
    /// The number of attempts before a batch is dropped.
    pub attempts: u32,
    /// How long the daemon waits for the last spans when it stops.
    pub shutdown: Duration,
}

impl Default for ExportTiming {
    fn default() -> ExportTiming {
        ExportTiming {
            batch_delay: Duration::from_secs(1),
            request_timeout: DEFAULT_TIMEOUT,
            initial_backoff: Duration::from_secs(1),
            attempts: 5,
            shutdown: Duration::from_secs(1),
        }
    }
}

/// Why the settings of traces are invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TraceSettingsError {
    /// The collector's URL is `https`.
    #[error(
        "cannot send traces to {0}: only http:// is supported\n\
         hint: run a collector on this machine (http://127.0.0.1:4318) that forwards over https"
    )]
    Https(String),
    /// The endpoint is not an `http` URL.
    #[error("cannot send traces to {0:?}: expected http://HOST:PORT, such as http://127.0.0.1:4318")]
    Endpoint(String),
    /// Another protocol is configured.
    #[error(
        "cannot send traces with protocol {0:?}: only http/json is supported, on port 4318 of most collectors"
    )]
    Protocol(String),
    /// An environment variable is invalid.
    #[error("invalid {name}: {reason}")]
    Variable {
        /// The name of the variable.
        name: &'static str,
        /// Why it is invalid.
        reason: &'static str,
    },
}

impl TraceSettings {
    /// Reads the settings. The environment takes precedence over `configured`, the endpoint of the configuration.
    /// `None` if there is no endpoint, or a variable switches traces off.
    pub fn read(
        configured: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<TraceSettings>, TraceSettingsError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        if is_off {
            return Ok(None);
        }
        let whole = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT").or_else(|| configured.map(str::to_owned));
        let url =
            whole.or_else(|| base.map(|base| format!("{}/v1/traces", base.trim().trim_end_matches('/'))));
        let Some(url) = url else { return Ok(None) };
        let endpoint = Endpoint::parse(url.trim())?;
        let either = |traces: &str, all: &str| variable(traces).or_else(|| variable(all));
        let protocol = either("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
        if let Some(protocol) = protocol.filter(|protocol| !protocol.starts_with("http/")) {
            return Err(TraceSettingsError::Protocol(protocol));
        }
        let headers = either("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
        let timeout = either("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
        let resource =
            resource(variable("OTEL_SERVICE_NAME"), variable("OTEL_RESOURCE_ATTRIBUTES").as_deref())?;
        let timing =
            ExportTiming { request_timeout: request_timeout(timeout.as_deref())?, ..ExportTiming::default() };
        Ok(Some(TraceSettings { endpoint, headers: request_headers(headers.as_deref())?, resource, timing }))
    }
}

/// The resource attributes: our own, then those that the environment adds or replaces.
fn resource(name: Option<String>, more: Option<&str>) -> Result<Vec<(String, String)>, TraceSettingsError> {
    let mut resource = vec![
        (NAME.to_owned(), "rexd".to_owned()),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let mut put = |key: String, value: String| match resource.iter_mut().find(|(known, _)| *known == key) {
        Some((_, known)) => *known = value,
        None => resource.push((key, value)),
    };
    for (key, value) in pairs("OTEL_RESOURCE_ATTRIBUTES", more)? {
        put(key, value);
    }
    // OpenTelemetry gives `OTEL_SERVICE_NAME` precedence.
    if let Some(name) = name {
        put(NAME.to_owned(), name);
    }
    Ok(resource)
}

fn request_headers(text: Option<&str>) -> Result<Vec<(String, String)>, TraceSettingsError> {
    const VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    let headers = pairs(VARIABLE, text)?;
    let is_name =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let is_value = |value: &str| value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    match headers.iter().all(|(name, value)| is_name(name) && is_value(value)) {
        true => Ok(headers),
        false => {
            Err(TraceSettingsError::Variable { name: VARIABLE, reason: "a header has invalid characters" })
        }
    }
}

fn request_timeout(text: Option<&str>) -> Result<Duration, TraceSettingsError> {
    let Some(text) = text else { return Ok(DEFAULT_TIMEOUT) };
    let wrong = TraceSettingsError::Variable {
        name: "OTEL_EXPORTER_OTLP_TIMEOUT",
        reason: "expected a number of milliseconds above 0",
    };
    text.trim().parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis).ok_or(wrong)
}

/// `key=value,key=value`, values percent-encoded.
fn pairs(name: &'static str, text: Option<&str>) -> Result<Vec<(String, String)>, TraceSettingsError> {
    let wrong = |reason| TraceSettingsError::Variable { name, reason };
    let mut pairs = Vec::new();
    for item in text.unwrap_or_default().split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (key, value) = item.split_once('=').ok_or_else(|| wrong("expected a list of key=value"))?;
        let value = percent_decoded(value.trim())
            .ok_or_else(|| wrong("a % must be followed by two hexadecimal digits"))?;
        match key.trim() {
            "" => return Err(wrong("a key is empty")),
            key => pairs.push((key.to_owned(), value)),
        }
    }
    Ok(pairs)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                // `from_str_radix` accepts a sign.
                let digits = std::str::from_utf8(digits).ok().filter(|text| !text.contains('+'))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}
