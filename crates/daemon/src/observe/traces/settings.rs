//! The settings of traces, from OpenTelemetry's environment variables and from the configuration.

use std::time::Duration;

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use wire::exec_server::uri::percent_decoded;

/// The default timeout of one request to the collector.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const NAME: &str = "service.name";

/// The collector, and the resource attributes of the spans.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    /// The URL of the collector.
    pub(super) endpoint: String,
    /// The headers of every request to it.
    pub(super) headers: HeaderMap,
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
        let endpoint = url.trim().to_owned();
        check_endpoint(&endpoint)?;
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

/// Checks that a URL is a collector's: plain HTTP, without a user, a password or a fragment.
pub fn check_endpoint(url: &str) -> Result<(), TraceSettingsError> {
    let wrong = || TraceSettingsError::Endpoint(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    if uri.scheme() == Some(&Scheme::HTTPS) {
        return Err(TraceSettingsError::Https(url.to_owned()));
    }
    let authority = uri.authority().filter(|_| uri.scheme() == Some(&Scheme::HTTP)).ok_or_else(wrong)?;
    let (whole, host) = (authority.as_str(), authority.host());
    let is_port_valid = whole == host || authority.port_u16().is_some_and(|port| port > 0);
    match is_port_valid && !host.is_empty() && !whole.contains('@') && !url.contains('#') {
        true => Ok(()),
        false => Err(wrong()),
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

fn request_headers(text: Option<&str>) -> Result<HeaderMap, TraceSettingsError> {
    const VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("rexd/", env!("CARGO_PKG_VERSION"))));
    for (name, value) in pairs(VARIABLE, text)? {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) else {
            let reason = "a header has invalid characters";
            return Err(TraceSettingsError::Variable { name: VARIABLE, reason });
        };
        headers.insert(name, value);
    }
    Ok(headers)
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
        let value = percent_decoded(value.trim()).and_then(|value| String::from_utf8(value).ok());
        let value = value.ok_or_else(|| wrong("a % must be followed by two hexadecimal digits"))?;
        match key.trim() {
            "" => return Err(wrong("a key is empty")),
            key => pairs.push((key.to_owned(), value)),
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_plain_http() {
        for url in ["http://a:4318/v1/traces", "HTTP://a", "http://[::1]:1/x?y=z"] {
            assert_eq!(check_endpoint(url), Ok(()));
        }
        let error = check_endpoint("https://a/v1/traces").unwrap_err();
        assert!(error.to_string().contains("a collector on this machine"), "{error}");
        let wrong = "|a:1|ftp://a|http://|http://:1|http://a:0|http://a:x|http://u@a|http://u@a:1|http://a b|\
                     http://a/\r\nX: y|http://a/#x|http://[::1|http://[::1]x|http://a:70000";
        for url in wrong.split('|') {
            assert_eq!(check_endpoint(url), Err(TraceSettingsError::Endpoint(url.to_owned())), "{url}");
        }
    }
}
