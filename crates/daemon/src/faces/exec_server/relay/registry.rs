//! Registration: asking the registry where the rendezvous is.

use std::fmt;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Method, StatusCode};
use link::dial::{self, Request};
use serde::Deserialize;
use wire::exec_server::uri::name_part;

use super::{RemoteExecutorConfig, RemoteExecutorError};

/// How long a registry has to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is read of an answer.
const MOST_ANSWER: usize = 64 * 1024;
/// What is shown of an answer that is an error.
const MOST_SAID: usize = 4_096;

/// Where the rendezvous is.
#[derive(Deserialize)]
pub(super) struct Place {
    pub(super) executor_id: String,
    /// To be dialled as it is. It may hold a ticket, so nothing prints it.
    pub(super) url: String,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("executor_id", &self.executor_id).finish_non_exhaustive()
    }
}

/// What a registry says about an error.
#[derive(Debug, Deserialize)]
struct Refusal {
    error: RefusalError,
}

#[derive(Debug, Deserialize)]
struct RefusalError {
    code: Option<String>,
    message: Option<String>,
}

/// Asks the registry once.
pub(super) async fn register(config: &RemoteExecutorConfig) -> Result<Place, RemoteExecutorError> {
    let url = format!("{}/cloud/executor/{}/register", config.base_url, name_part(&config.executor_id));
    let reach = |source| RemoteExecutorError::Reach { url: url.clone(), source };
    let answer = dial::http(request(&url, config)?).await.map_err(reach)?;
    let status = answer.status;
    let body = answer.bytes(MOST_ANSWER).await.map_err(reach)?;
    if !status.is_success() {
        return Err(refused(url, config, status, &body));
    }
    let wrong = |problem: String| RemoteExecutorError::Answer { url: url.clone(), problem };
    let place: Place = serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
    match place.url.starts_with("ws://") || place.url.starts_with("wss://") {
        true => Ok(place),
        false => Err(wrong("its url is no ws:// or wss:// URL".to_owned())),
    }
}

/// An empty body without a type, as the released executors send it.
fn request(url: &str, config: &RemoteExecutorConfig) -> Result<Request, RemoteExecutorError> {
    let mut request = Request::new(Method::POST, url);
    let bearer = HeaderValue::try_from(format!("Bearer {}", config.token.expose()));
    let mut bearer = bearer.map_err(|_| RemoteExecutorError::BadToken)?;
    bearer.set_sensitive(true);
    request.headers.insert(AUTHORIZATION, bearer);
    request.headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    request.timeout = Some(PATIENCE);
    Ok(request)
}

fn refused(
    url: String,
    config: &RemoteExecutorConfig,
    status: StatusCode,
    body: &[u8],
) -> RemoteExecutorError {
    let executor_id = config.executor_id.clone();
    let said = said(body);
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            RemoteExecutorError::Auth { url, executor_id, status, said }
        }
        _ => RemoteExecutorError::Refused { url, executor_id, status, said },
    }
}

/// What the body says, ready to stand behind the status.
fn said(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<Refusal>(body) {
        Ok(Refusal { error: RefusalError { code, message } }) => {
            [code, message].into_iter().flatten().collect::<Vec<_>>().join(": ")
        }
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    };
    match text.is_empty() {
        true => text,
        false => format!(": {}", text.chars().take(MOST_SAID).collect::<String>()),
    }
}
