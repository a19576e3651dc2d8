//! The settings of an executor: its registry, its id and its token; and the errors of a registration.

use http::StatusCode;
use link::dial::DialError;
use link::websocket::Settings;

use crate::net::auth::Secret;

/// The environment variable with the token.
pub const BEARER_TOKEN_VAR: &str = "CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN";

/// The registry, the executor's id, and its token.
#[derive(Debug, Clone)]
pub struct RemoteExecutorConfig {
    /// The URL of the registry.
    pub base_url: String,
    /// Which executor this is.
    pub executor_id: String,
    /// The name for people, if it has one. As with the released executors, it is not sent.
    pub name: Option<String>,
    /// When a silent connection to the rendezvous is pinged, and when it is given up.
    pub keep_alive: Settings,
    pub(super) token: Secret,
}

/// Why an executor cannot register, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RemoteExecutorError {
    /// There is no token.
    #[error("no token for the executor registry: set {BEARER_TOKEN_VAR}")]
    NoToken,
    /// The token cannot be sent in a header.
    #[error("the token in {BEARER_TOKEN_VAR} has characters that no header may have: copy it again")]
    BadToken,
    /// The id of the executor is empty.
    #[error("the executor id is blank: give one with --executor-id")]
    NoExecutor,
    /// The URL of the registry is empty.
    #[error("the address of the registry is blank: give one with --remote")]
    NoRegistry,
    /// The registry rejects the token.
    #[error(
        "the registry at {url} refuses the token of executor {executor_id} ({status}{said}): set \
         {BEARER_TOKEN_VAR} to a token of that executor"
    )]
    Auth {
        /// The URL of the request.
        url: String,
        /// The id of the executor.
        executor_id: String,
        /// The status of the response.
        status: StatusCode,
        /// The error in the response, if there is one.
        said: String,
    },
    /// The registry rejects the executor, or has failed.
    #[error("the registry at {url} does not register executor {executor_id}: it answers {status}{said}")]
    Refused {
        /// The URL of the request.
        url: String,
        /// The id of the executor.
        executor_id: String,
        /// The status of the response.
        status: StatusCode,
        /// The error in the response, if there is one.
        said: String,
    },
    /// The response is not a registration.
    #[error("the registry at {url} answers what is no registration: {problem}; is --remote its address?")]
    Answer {
        /// The URL of the request.
        url: String,
        /// What is wrong with the response.
        problem: String,
    },
    /// The registry cannot be reached.
    #[error("could not register at {url}: {source}")]
    Reach {
        /// The URL of the request.
        url: String,
        /// The error of the connection.
        source: DialError,
    },
}

impl RemoteExecutorError {
    /// Whether a later attempt can succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused { status, .. } => {
                status.is_server_error()
                    || matches!(*status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
            }
            Self::Reach { source, .. } => !source.is_permanent(),
            Self::NoToken | Self::BadToken | Self::NoExecutor | Self::NoRegistry => false,
            Self::Auth { .. } | Self::Answer { .. } => false,
        }
    }
}

impl RemoteExecutorConfig {
    /// An executor whose token is in the environment, under [`BEARER_TOKEN_VAR`].
    pub fn new(base_url: &str, executor_id: &str) -> Result<RemoteExecutorConfig, RemoteExecutorError> {
        let token = std::env::var(BEARER_TOKEN_VAR).map_err(|_| RemoteExecutorError::NoToken)?;
        RemoteExecutorConfig::with_bearer_token(base_url, executor_id, &token)
    }

    /// An executor with this token. Surrounding blanks are ignored, and so are slashes after the URL.
    pub fn with_bearer_token(
        base_url: &str,
        executor_id: &str,
        token: &str,
    ) -> Result<RemoteExecutorConfig, RemoteExecutorError> {
        let base_url = base_url.trim().trim_end_matches('/');
        let (executor_id, token) = (executor_id.trim(), token.trim());
        match (base_url, executor_id, token) {
            ("", _, _) => Err(RemoteExecutorError::NoRegistry),
            (_, "", _) => Err(RemoteExecutorError::NoExecutor),
            (_, _, "") => Err(RemoteExecutorError::NoToken),
            _ => Ok(RemoteExecutorConfig {
                base_url: base_url.to_owned(),
                executor_id: executor_id.to_owned(),
                name: None,
                keep_alive: Settings::relay(),
                token: Secret::new(token),
            }),
        }
    }

    /// The same with a name for people.
    pub fn named(self, name: impl Into<String>) -> RemoteExecutorConfig {
        RemoteExecutorConfig { name: Some(name.into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_trimmed_and_asked_for_and_the_token_is_never_shown() {
        let config = RemoteExecutorConfig::with_bearer_token(" http://r/x// ", " e ", " t0ken\n").unwrap();
        assert_eq!((&*config.base_url, &*config.executor_id), ("http://r/x", "e"));
        assert_eq!(config.token.expose(), "t0ken");
        assert!(!format!("{config:?}").contains("t0ken"));
        for (url, id, token) in [(" /", "e", "t"), ("http://r", " ", "t"), ("http://r", "e", "\n")] {
            let error = RemoteExecutorConfig::with_bearer_token(url, id, token).unwrap_err();
            assert!(!error.may_pass(), "{error}");
        }
    }
}
