//! One HTTP/1.1 request over its own connection, with a streamed response.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, LOCATION, PROXY_AUTHORIZATION,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};

use crate::task::OwnedTask;

use super::endpoint::Endpoint;
use super::{DialError, Proxies, Tls};

/// The limit on followed redirects.
const MAX_REDIRECTS: usize = 10;
/// Effectively no deadline.
const NO_DEADLINE: Duration = Duration::from_secs(365 * 24 * 3_600);

/// An HTTP request to be sent.
#[derive(Debug, Clone)]
pub struct Request {
    /// The HTTP method.
    pub method: Method,
    /// A URL with `http://` or `https://`.
    pub url: String,
    /// The request headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// The time limit, including the body of the response.
    pub timeout: Option<Duration>,
    /// Whether redirects are followed.
    pub redirects: Redirects,
    /// Certificates other than the system's.
    pub tls: Tls,
    /// The proxies to use, if any.
    pub proxies: Proxies,
    /// The address to connect to, for a caller that has resolved the name of the URL and checked the result.
    pub address: Option<SocketAddr>,
}

/// Whether redirects are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// Follow up to ten redirects.
    Follow,
    /// Return the redirect as the response.
    Stop,
}

/// A response. Its body is read with [`DialResponse::chunk`]; dropping it ends the connection.
#[derive(Debug)]
pub struct DialResponse {
    /// The HTTP status.
    pub status: StatusCode,
    /// The response headers.
    pub headers: HeaderMap,
    body: Incoming,
    deadline: (Instant, Duration),
    _connection: ConnectionTask,
}

/// The task of a connection; dropping it ends the connection.
type ConnectionTask = OwnedTask<hyper::Result<()>>;

impl Request {
    /// A request without headers or body.
    pub fn new(method: Method, url: impl Into<String>) -> Request {
        Request {
            method,
            url: url.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: None,
            redirects: Redirects::Stop,
            tls: Tls::default(),
            proxies: Proxies::default(),
            address: None,
        }
    }
}

/// Sends a request and waits for the head of the response. Must be called within a tokio runtime.
pub async fn http(mut request: Request) -> Result<DialResponse, DialError> {
    let limit = request.timeout.unwrap_or(NO_DEADLINE);
    let deadline = Instant::now() + limit.min(NO_DEADLINE);
    for _ in 0..=MAX_REDIRECTS {
        let endpoint = Endpoint::parse(&request.url, ("http", "https"))?;
        let answered = timeout_at(deadline, send(&endpoint, &request)).await;
        let (response, connection) = answered.map_err(|_| DialError::Late(limit))??;
        let next = match request.redirects {
            Redirects::Follow => redirect_target(&endpoint, response.status(), response.headers()),
            Redirects::Stop => None,
        };
        let Some(next) = next else {
            let (head, body) = response.into_parts();
            let deadline = (deadline, limit);
            return Ok(DialResponse {
                status: head.status,
                headers: head.headers,
                body,
                deadline,
                _connection: connection,
            });
        };
        redirect(&mut request, response.status(), &endpoint, next);
    }
    Err(DialError::Broken(format!("more than {MAX_REDIRECTS} redirects")))
}

async fn send(
    endpoint: &Endpoint,
    request: &Request,
) -> Result<(http::Response<Incoming>, ConnectionTask), DialError> {
    let broken = |error: hyper::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        DialError::Broken(format!("the request to {} failed: {error}{cause}", endpoint.authority))
    };
    let proxy = request.proxies.of(endpoint);
    let stream = match proxy {
        Some(proxy) => proxy.connect(endpoint, &request.tls).await?,
        None => endpoint.connect_to(request.address, &request.tls).await?,
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // Errors of the connection are returned by the request.
    let connection = OwnedTask::spawn(connection);
    let mut wanted = http::Request::new(Full::new(request.body.clone()));
    *wanted.method_mut() = request.method.clone();
    // A proxy for plain HTTP needs the whole URL.
    let proxy = proxy.filter(|_| !endpoint.is_encrypted);
    let uri = match proxy {
        Some(_) => format!("http://{}{}", endpoint.authority, endpoint.path),
        None => endpoint.path.clone(),
    };
    *wanted.uri_mut() = uri.parse().map_err(|_| DialError::Broken("invalid path".to_owned()))?;
    *wanted.headers_mut() = request.headers.clone();
    if let Some(credentials) = proxy.and_then(|proxy| proxy.credentials.clone()) {
        wanted.headers_mut().insert(PROXY_AUTHORIZATION, credentials);
    }
    let host = HeaderValue::from_str(&endpoint.authority);
    wanted.headers_mut().entry(HOST).or_insert(host.map_err(|error| DialError::Header(error.to_string()))?);
    let response = sender.send_request(wanted).await.map_err(broken)?;
    Ok((response, connection))
}

/// The target of a redirect, if the response is one.
fn redirect_target(from: &Endpoint, status: StatusCode, headers: &HeaderMap) -> Option<String> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    // The fragment is not sent to the server.
    let location = headers.get(LOCATION)?.to_str().ok()?.split('#').next().unwrap_or_default();
    let scheme = if from.is_encrypted { "https" } else { "http" };
    let here = format!("{scheme}://{}", from.authority);
    let (path, _query) = from.path.split_once('?').unwrap_or((&from.path, ""));
    Some(match location {
        "" => format!("{here}{}", from.path),
        _ if has_scheme(location) => location.to_owned(),
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('?') => format!("{here}{path}{location}"),
        _ if location.starts_with('/') => format!("{here}{}", without_dots(location)),
        _ => {
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{here}{}", without_dots(&format!("{directory}/{location}")))
        }
    })
}

/// True if a location begins with a scheme, and so is absolute.
fn has_scheme(location: &str) -> bool {
    let is_scheme = |text: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_part)
    };
    location.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// A path with `.` and `..` resolved.
fn without_dots(location: &str) -> String {
    let (path, query) = location.split_at(location.find('?').unwrap_or(location.len()));
    let mut parts = Vec::new();
    let mut rest = path.split('/').skip(1).peekable();
    while let Some(part) = rest.next() {
        let is_last = rest.peek().is_none();
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
        if is_last && matches!(part, "." | "..") {
            parts.push("");
        }
    }
    format!("/{}{query}", parts.join("/"))
}

/// The request for a redirect: with the method that browsers use, and without secrets for another host.
fn redirect(request: &mut Request, status: StatusCode, from: &Endpoint, next: String) {
    let is_read = matches!(request.method, Method::GET | Method::HEAD);
    if !is_read && matches!(status.as_u16(), 301..=303) {
        request.method = Method::GET;
        request.body = Bytes::new();
        request.headers.remove(CONTENT_TYPE);
    }
    request.headers.remove(CONTENT_LENGTH);
    request.headers.remove(HOST);
    let to = Endpoint::parse(&next, ("http", "https"));
    let same =
        |to: &Endpoint| (&to.host, to.port, to.is_encrypted) == (&from.host, from.port, from.is_encrypted);
    if !to.is_ok_and(|to| same(&to)) {
        let is_secret = |(name, value): &(&HeaderName, &HeaderValue)| {
            value.is_sensitive() || [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION].contains(name)
        };
        let secrets: Vec<_> =
            request.headers.iter().filter(is_secret).map(|(name, _)| name.clone()).collect();
        for name in secrets {
            request.headers.remove(name);
        }
    }
    request.url = next;
}

impl DialResponse {
    /// The next piece of the body; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, DialError> {
        let (deadline, limit) = self.deadline;
        loop {
            let frame = timeout_at(deadline, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| DialError::Late(limit))? else { return Ok(None) };
            let frame =
                frame.map_err(|error| DialError::Broken(format!("the response broke off: {error}")))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// The body, up to `most` bytes; the rest is not read.
    pub async fn bytes(mut self, most: usize) -> Result<Vec<u8>, DialError> {
        let mut all = Vec::new();
        while all.len() < most
            && let Some(chunk) = self.chunk().await?
        {
            all.extend_from_slice(&chunk);
        }
        all.truncate(most);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_resolved_against_the_request() {
        let from = Endpoint::parse("https://h:1/a/b?page=1", ("http", "https")).unwrap();
        for (location, next) in [
            ("http://other/x?y", "http://other/x?y"),
            ("HTTPS://other/", "HTTPS://other/"),
            ("//other/x", "https://other/x"),
            ("/login?next=https://x/", "https://h:1/login?next=https://x/"),
            ("login?next=https://x/..", "https://h:1/a/login?next=https://x/.."),
            ("?page=2", "https://h:1/a/b?page=2"),
            ("c", "https://h:1/a/c"),
            ("./c", "https://h:1/a/c"),
            ("../c/", "https://h:1/c/"),
            ("../../..", "https://h:1/"),
            ("/x/./y/../z", "https://h:1/x/z"),
            ("/c#part", "https://h:1/c"),
            ("#part", "https://h:1/a/b?page=1"),
        ] {
            let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(location))]);
            assert_eq!(
                redirect_target(&from, StatusCode::FOUND, &headers).as_deref(),
                Some(next),
                "{location}"
            );
        }
        assert_eq!(redirect_target(&from, StatusCode::FOUND, &HeaderMap::new()), None);
    }

    #[test]
    fn another_host_gets_no_secrets() {
        let from = Endpoint::parse("https://h/a", ("http", "https")).unwrap();
        for (next, has_secrets) in [("https://h/b", true), ("https://other/b", false), ("http://h/b", false)]
        {
            let mut request = Request::new(Method::GET, "https://h/a");
            for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
                request.headers.insert(name, HeaderValue::from_static("secret"));
            }
            redirect(&mut request, StatusCode::FOUND, &from, next.to_owned());
            assert_eq!(request.headers.len(), if has_secrets { 3 } else { 0 }, "{next}");
        }
    }
}
