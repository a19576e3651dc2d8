//! Registration: the registry responds with the address of the rendezvous.

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Method, StatusCode};
use link::dial::{self, Request};
use serde::Deserialize;
use serde_json::Value;
use wire::exec_server::uri::name_part;

use super::{RemoteExecutorConfig, RemoteExecutorError};

/// How long a registry may take to respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a response that are read.
const MAX_RESPONSE: usize = 64 * 1024;
/// Characters of an error response that are shown.
const MAX_SHOWN: usize = 4_096;

/// The response of the registry: where the rendezvous is.
#[derive(Deserialize)]
pub(super) struct Registration {
    pub(super) executor_id: String,
    /// The URL to connect to. It may contain a ticket, so it is never printed.
    pub(super) url: String,
}

/// Sends one request to the registry.
pub(super) async fn register(config: &RemoteExecutorConfig) -> Result<Registration, RemoteExecutorError> {
    let url = format!("{}/cloud/executor/{}/register", config.base_url, name_part(&config.executor_id));
    let reach = |source| RemoteExecutorError::Reach { url: url.clone(), source };
    let response = dial::http(request(&url, config)?).await.map_err(reach)?;
    let status = response.status;
    let body = response.bytes(MAX_RESPONSE).await.map_err(reach)?;
    let (executor_id, said) = (config.executor_id.clone(), error_text(&body));
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(RemoteExecutorError::Auth { url, executor_id, status, said });
        }
        status if !status.is_success() => {
            return Err(RemoteExecutorError::Refused { url, executor_id, status, said });
        }
        _ => {}
    }
    let wrong = |problem: String| RemoteExecutorError::Answer { url: url.clone(), problem };
    let registration: Registration =
        serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
    let is_socket = ["ws://", "wss://"].iter().any(|scheme| registration.url.starts_with(scheme));
    if is_socket { Ok(registration) } else { Err(wrong("its url is no ws:// or wss:// URL".to_owned())) }
}

/// A request with an empty body and no content type, as the released executors send it.
fn request(url: &str, config: &RemoteExecutorConfig) -> Result<Request, RemoteExecutorError> {
    let mut request = Request::new(Method::POST, url);
    let bearer = HeaderValue::try_from(format!("Bearer {}", config.token.expose()));
    let mut bearer = bearer.map_err(|_| RemoteExecutorError::BadToken)?;
    bearer.set_sensitive(true);
    request.headers.insert(AUTHORIZATION, bearer);
    request.headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    request.timeout = Some(RESPONSE_TIMEOUT);
    Ok(request)
}

/// The error in the body of a response, to be appended to its status.
fn error_text(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(body) if body["error"].is_object() => {
            let parts = ["code", "message"].iter().filter_map(|name| body["error"][name].as_str());
            parts.collect::<Vec<&str>>().join(": ")
        }
        _ => String::from_utf8_lossy(body).trim().to_owned(),
    };
    match text.is_empty() {
        true => text,
        false => format!(": {}", text.chars().take(MAX_SHOWN).collect::<String>()),
    }
}
