//! HubClient: single requests to the HTTP API of a hub, and the WebSockets that it opens.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, StatusCode};
use link::dial::{DialError, DialResponse, Request, Socket};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::error::HubError;
use super::rows::{HostRow, RunRow};
use crate::dial;
use crate::error::{ConnectError, ConnectStep};
use crate::target::{BearerToken, HubTarget, SharedTokenProvider, Target, UrlTarget};

/// Time limit for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The bytes of a response that are read; a longer one is invalid.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// The characters of an error message that are shown; the rest is dropped.
const MAX_MESSAGE_CHARS: usize = 300;
/// How long a request is repeated after a cut connection.
const REPEAT_TIMEOUT: Duration = Duration::from_secs(55);
/// The pause after the first attempt; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The HTTP API of a hub, for one user.
#[derive(Debug, Clone)]
pub struct HubClient {
    target: Target,
    url: UrlTarget,
    sign_in: Option<SharedTokenProvider>,
    refused_hint: String,
}

/// A successful response.
struct Answer {
    request: String,
    body: Vec<u8>,
}

impl HubClient {
    /// The API of the hub of a target.
    pub fn new(hub: &HubTarget) -> Result<HubClient, ConnectError> {
        let absent = |cause: String, hint: String| {
            let error = match &hub.host {
                Some(_) => ConnectError::new(hub, ConnectStep::Authenticate, cause),
                None => ConnectError::new("the hub", ConnectStep::Authenticate, cause),
            };
            Err(error.hint(hint))
        };
        match &hub.hub {
            None => absent("not signed in to a hub".to_owned(), "sign in with `rex login URL`".to_owned()),
            Some(url) if url.token.is_none() && hub.sign_in.is_none() => {
                absent(format!("not signed in to {url}"), format!("sign in with `rex login {url}`"))
            }
            Some(url) => Ok(HubClient {
                target: Target::Hub(hub.clone()),
                sign_in: hub.sign_in.clone(),
                ..HubClient::anonymous(url.clone())
            }),
        }
    }

    /// The API of a hub before signing in.
    pub fn anonymous(url: UrlTarget) -> HubClient {
        let target = HubTarget { host: None, hub: Some(url.clone()), sign_in: None };
        let refused_hint = format!("is `rexhub serve` running at {}?", url.authority);
        HubClient { target: Target::Hub(target), url, sign_in: None, refused_hint }
    }

    /// The address of the hub.
    pub fn url(&self) -> &UrlTarget {
        &self.url
    }

    /// The hint for a hub that does not accept connections.
    pub(crate) fn refused_hint(&self) -> &str {
        &self.refused_hint
    }

    /// The hosts of the hub.
    pub async fn hosts(&self) -> Result<Vec<HostRow>, HubError> {
        self.get("/hosts").await
    }

    /// The runs of all hosts, those with the newest activity first.
    pub async fn runs(&self) -> Result<Vec<RunRow>, HubError> {
        self.get("/runs").await
    }

    /// One run; `None` if the hub does not have it.
    pub async fn run(&self, id: &str) -> Result<Option<RunRow>, HubError> {
        match self.get(&format!("/sessions/{}", path_segment(id))).await {
            Err(HubError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// The result of a GET request, which is repeated after a cut connection.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, HubError> {
        self.repeat(|| self.request(Method::GET, path, Bytes::new())).await.0?.decode()
    }

    /// Sends JSON and decodes the result.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, HubError> {
        self.request(Method::POST, path, encode(path, body)?).await?.decode()
    }

    /// Sends JSON; the content of a successful response is ignored.
    pub async fn send(&self, path: &str, body: &impl Serialize) -> Result<(), HubError> {
        self.request(Method::POST, path, encode(path, body)?).await.map(drop)
    }

    /// Types text into a run. The hub accepts a repeated input once, so it is sent again after a cut connection.
    pub async fn send_input(&self, run_id: &str, text: &str) -> Result<(), HubError> {
        let path = format!("/runs/{}/input", path_segment(run_id));
        let input = wire::hub::v1::SendInput {
            input_id: super::connection::random_id()?,
            text: text.to_owned(),
            actor: Some("cli".to_owned()),
        };
        self.repeat(|| self.send(&path, &input)).await.0
    }

    /// Repeats a request that may be repeated after a cut connection. Also returns whether one was cut, so that an
    /// earlier attempt may have taken effect.
    pub(super) async fn repeat<T, F: Future<Output = Result<T, HubError>>>(
        &self,
        request: impl Fn() -> F,
    ) -> (Result<T, HubError>, bool) {
        let deadline = Instant::now() + REPEAT_TIMEOUT;
        let mut pause = FIRST_PAUSE;
        let mut was_cut = false;
        loop {
            let error = match request().await {
                Err(error) => error,
                done => return (done, was_cut),
            };
            // A hub that was never reached is reported at once.
            was_cut |= matches!(&error, HubError::Connect(error) if error.is_cut());
            if !was_cut || !error.is_transient() || Instant::now() + pause >= deadline {
                return (Err(error), was_cut);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Opens a WebSocket. The outer error is that of the sign-in.
    pub(crate) async fn socket(&self, path: &str) -> Result<Result<Socket, DialError>, ConnectError> {
        let mut token = self.token(None).await?;
        let mut attempts = 0;
        loop {
            let opened = dial::open_socket(&self.address(path, token.clone())).await;
            let is_rejected =
                matches!(&opened, Err(DialError::Refused { status: StatusCode::UNAUTHORIZED, .. }));
            if !is_rejected || attempts > 0 || self.sign_in.is_none() {
                return Ok(opened);
            }
            attempts += 1;
            token = self.token(token.as_ref()).await?;
        }
    }

    /// Explains a failed connection to the hub.
    pub(crate) fn explain(&self, error: DialError) -> ConnectError {
        let error = dial::failure(error, &self.target, &self.refused_hint);
        ConnectError { target: self.url.to_string(), ..error }
    }

    /// Sends a request, a second time if the token has expired. A cut connection is not repeated.
    async fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, HubError> {
        let mut token = self.token(None).await?;
        let request = format!("{method} {}", path.split('?').next().unwrap_or_default());
        let mut attempts = 0;
        loop {
            let response = self.exchange(method.clone(), path, body.clone(), token.clone()).await?;
            let is_rejected = response.status == StatusCode::UNAUTHORIZED;
            if is_rejected && attempts == 0 && self.sign_in.is_some() {
                attempts += 1;
                token = self.token(token.as_ref()).await?;
                continue;
            }
            return self.answer(request, response).await;
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        token: Option<BearerToken>,
    ) -> Result<DialResponse, HubError> {
        let url = self.address(path, token);
        let invalid = |problem: String| self.explain(DialError::Header(problem));
        let mut headers = dial::headers(&url).map_err(invalid)?;
        if !body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let scheme = if url.scheme.is_encrypted() { "https" } else { "http" };
        let address = format!("{scheme}://{}{}", url.authority, url.path);
        let request = Request {
            headers,
            body,
            timeout: Some(REQUEST_TIMEOUT),
            tls: url.tls.clone(),
            ..Request::new(method, address)
        };
        link::dial::http(request).await.map_err(|error| self.explain(error).into())
    }

    async fn answer(&self, request: String, response: DialResponse) -> Result<Answer, HubError> {
        let status = response.status;
        let retry_after =
            response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = response.bytes(MAX_RESPONSE_BYTES).await.map_err(|error| self.explain(error))?;
        if status.is_success() {
            return Ok(Answer { request, body });
        }
        let message = dial::error_message(&String::from_utf8_lossy(&body));
        let message = message.trim().chars().take(MAX_MESSAGE_CHARS).collect();
        Err(HubError::Refused { request, status, message, retry_after })
    }

    async fn token(&self, rejected: Option<&BearerToken>) -> Result<Option<BearerToken>, ConnectError> {
        match (&self.url.token, &self.sign_in) {
            (Some(token), _) => Ok(Some(token.clone())),
            (None, Some(source)) => source.0.token(rejected).await.map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The URL of a path below the address of the hub.
    fn address(&self, path: &str, token: Option<BearerToken>) -> UrlTarget {
        let base = self.url.path.split('?').next().unwrap_or_default().trim_end_matches('/');
        UrlTarget { path: format!("{base}{path}"), token, ..self.url.clone() }
    }
}

impl Answer {
    fn decode<T: DeserializeOwned>(self) -> Result<T, HubError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| HubError::Decode { request: self.request, problem: error.to_string() })
    }
}

fn encode(path: &str, body: &impl Serialize) -> Result<Bytes, HubError> {
    let invalid = |error: serde_json::Error| HubError::Decode {
        request: path.to_owned(),
        problem: format!("cannot encode it: {error}"),
    };
    serde_json::to_vec(body).map(Bytes::from).map_err(invalid)
}

/// A text as one segment of a path: everything but letters, digits and `-._~` is percent-encoded.
pub fn path_segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => segment.push(char::from(byte)),
            byte => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_id_is_one_segment_of_a_path() {
        assert_eq!(path_segment("host-1.a_b~"), "host-1.a_b~");
        assert_eq!(path_segment("../x?y#ü"), "..%2Fx%3Fy%23%C3%BC");
    }

    #[test]
    fn a_path_is_below_the_address_of_the_hub() {
        for (address, expected) in [
            ("http://h", "/runs"),
            ("https://h:1/", "/runs"),
            ("https://h/hub/", "/hub/runs"),
            ("https://h/hub?x=1", "/hub/runs"),
        ] {
            let Ok(Target::Url(url)) = address.parse() else { panic!("{address}") };
            let client = HubClient::anonymous(url);
            assert_eq!(client.address("/runs", None).path, expected, "{address}");
        }
    }
}
