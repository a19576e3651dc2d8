//! The HTTP request to a collector, on a new connection each time.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method};
use link::dial::{self, DialError, Request};

use super::settings::TraceSettingsError;

/// The maximal size of a response body.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;
const USER_AGENT_VALUE: &str = concat!("rexd/", env!("CARGO_PKG_VERSION"));

/// The URL of a collector, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: String,
}

/// The response of a collector.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CollectorResponse {
    pub(super) status: u16,
    /// The pause that `Retry-After` requests.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

impl Endpoint {
    /// Parses an `http://` URL.
    pub fn parse(url: &str) -> Result<Endpoint, TraceSettingsError> {
        let wrong = || TraceSettingsError::Endpoint(url.to_owned());
        let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        match scheme.as_deref() {
            Some("http") => {}
            Some("https") => return Err(TraceSettingsError::Https(url.to_owned())),
            _ => return Err(wrong()),
        }
        let (_, rest) = url.split_once("://").ok_or_else(wrong)?;
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, format!("/{path}")),
            None => (rest, "/".to_owned()),
        };
        let is_plain = |text: &str| text.bytes().all(|byte| matches!(byte, b'!'..=b'~'));
        if !is_plain(authority)
            || !is_plain(&path)
            || authority.contains(['@', '?', '#'])
            || path.contains('#')
        {
            return Err(wrong());
        }
        host_and_port(authority).ok_or_else(wrong)?;
        Ok(Endpoint { url: url.to_owned() })
    }

    /// Posts JSON and reads the response. The caller sets the timeout.
    pub(super) async fn post(
        &self,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<CollectorResponse, DialError> {
        let mut request = Request::new(Method::POST, self.url.as_str());
        request.body = Bytes::copy_from_slice(body);
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
        for (name, value) in headers {
            let wrong = || DialError::Header(format!("invalid header {name}"));
            let name: HeaderName = name.parse().map_err(|_| wrong())?;
            request.headers.insert(name, value.parse().map_err(|_| wrong())?);
        }
        let response = dial::http(request).await?;
        let retry_after =
            response.headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
        Ok(CollectorResponse {
            status: response.status.as_u16(),
            retry_after: retry_after.map(Duration::from_secs),
            body: response.bytes(MAX_RESPONSE_BYTES).await?,
        })
    }
}

/// A host in brackets is an IPv6 address, whose colons are its own.
fn host_and_port(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map_or(Some(80), |port| port.parse().ok().filter(|port| *port > 0))?;
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_plain_http() {
        for url in ["http://a:4318/v1/traces", "HTTP://a", "http://[::1]:1/x?y=z"] {
            assert_eq!(Endpoint::parse(url), Ok(Endpoint { url: url.to_owned() }));
        }
        let error = Endpoint::parse("https://a/v1/traces").unwrap_err();
        assert!(error.to_string().contains("a collector on this machine"), "{error}");
        for url in [
            "",
            "a:1",
            "ftp://a",
            "http://",
            "http://:1",
            "http://a:0",
            "http://a:x",
            "http://u@a",
            "http://a b",
        ]
        .into_iter()
        .chain([
            "http://a/\r\nX: y",
            "http://a/#x",
            "http://[::1",
            "http://[::1]x",
            "http://a:70000",
        ]) {
            assert_eq!(Endpoint::parse(url), Err(TraceSettingsError::Endpoint(url.to_owned())), "{url}");
        }
    }
}
