//! Settings: where traces go, from the environment that OpenTelemetry defines and from the configuration.

use std::time::Duration;

use super::http::Endpoint;

/// How long one attempt to send may take, unless the operator says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
const NAME: &str = "service.name";

/// Where traces go and what they say about their sender.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    pub(super) endpoint: Endpoint,
    pub(super) headers: Vec<(String, String)>,
    pub(super) resource: Vec<(String, String)>,
    /// How patient the exporter is.
    pub pace: ExportTiming,
}

/// How patient the exporter is.
#[derive(Debug, Clone)]
pub struct ExportTiming {
    /// How long spans gather before they are sent.
    pub gather: Duration,
    /// How long one attempt to send may take.
    pub attempt: Duration,
    /// How long to wait after the first failure; each further one doubles it.
    pub back_off: Duration,
    /// How often a batch is tried before it is given up.
    pub attempts: u32,
    /// How long the end of the daemon waits for the last spans.
    pub farewell: Duration,
}

impl Default for ExportTiming {
    fn default() -> ExportTiming {
        ExportTiming {
            gather: Duration::from_secs(1),
            attempt: TIMEOUT,
            back_off: Duration::from_secs(1),
            attempts: 5,
            farewell: Duration::from_secs(1),
        }
    }
}

/// Why there can be no traces although somebody asked for them.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TraceSettingsError {
    /// The collector wants TLS.
    #[error(
        "traces cannot be sent to {0}: rexd speaks plain http to collectors; run a collector on this machine \
         (http://127.0.0.1:4318) and let it forward over https"
    )]
    Https(String),
    /// The endpoint is no URL of ours.
    #[error("traces cannot be sent to {0:?}: write http://HOST:PORT, as in http://127.0.0.1:4318")]
    Endpoint(String),
    /// The operator asked for another protocol.
    #[error("traces cannot be sent by {0:?}: rexd speaks http/json, which collectors take on port 4318")]
    Protocol(String),
    /// A variable cannot be read.
    #[error("{name} cannot be read: {reason}")]
    Variable {
        /// Which.
        name: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl TraceSettings {
    /// Reads the variables; the environment goes before `configured`, the endpoint in the configuration. Nothing if
    /// no endpoint is named, or traces are switched off by name.
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
        let pace = ExportTiming { attempt: attempt(timeout.as_deref())?, ..ExportTiming::default() };
        Ok(Some(TraceSettings { endpoint, headers: sent_headers(headers.as_deref())?, resource, pace }))
    }
}

/// What traces say about their sender: ours, then what the operator adds or replaces.
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
    // The variable of its own goes first, as OpenTelemetry has it.
    if let Some(name) = name {
        put(NAME.to_owned(), name);
    }
    Ok(resource)
}

fn sent_headers(text: Option<&str>) -> Result<Vec<(String, String)>, TraceSettingsError> {
    const VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    let headers = pairs(VARIABLE, text)?;
    let is_name =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let is_value = |value: &str| value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    match headers.iter().all(|(name, value)| is_name(name) && is_value(value)) {
        true => Ok(headers),
        false => Err(TraceSettingsError::Variable { name: VARIABLE, reason: "a header has odd characters" }),
    }
}

fn attempt(text: Option<&str>) -> Result<Duration, TraceSettingsError> {
    let Some(text) = text else { return Ok(TIMEOUT) };
    let wrong = TraceSettingsError::Variable {
        name: "OTEL_EXPORTER_OTLP_TIMEOUT",
        reason: "it is no number of milliseconds above 0",
    };
    text.trim().parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis).ok_or(wrong)
}

/// `key=value,key=value`, values percent-encoded.
fn pairs(name: &'static str, text: Option<&str>) -> Result<Vec<(String, String)>, TraceSettingsError> {
    let wrong = |reason| TraceSettingsError::Variable { name, reason };
    let mut pairs = Vec::new();
    for item in text.unwrap_or_default().split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (key, value) = item.split_once('=').ok_or_else(|| wrong("it is no list of key=value"))?;
        let value =
            percent_decoded(value.trim()).ok_or_else(|| wrong("a % is not followed by two digits"))?;
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
                // A sign would be read as part of a number.
                let digits = std::str::from_utf8(digits).ok().filter(|text| !text.contains('+'))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}
