//! What an executor is told: which registry, which executor it is, and what proves it. And what can go wrong with that.

use http::StatusCode;
use link::dial::DialError;

use crate::net::auth::Secret;

/// Where the token comes from when nobody hands one over.
pub const BEARER_TOKEN_VAR: &str = "CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN";

/// Which registry, which executor, and what proves it.
#[derive(Debug, Clone)]
pub struct RemoteExecutorConfig {
    pub(super) base_url: String,
    pub(super) executor_id: String,
    pub(super) name: Option<String>,
    pub(super) token: Secret,
}

/// Why there is no executor, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum RemoteExecutorError {
    /// Nothing proves who this is.
    #[error("no token for the executor registry: set {BEARER_TOKEN_VAR}")]
    NoToken,
    /// The token cannot be sent.
    #[error("the token in {BEARER_TOKEN_VAR} has characters that no header may have: copy it again")]
    BadToken,
    /// The executor has no name.
    #[error("the executor id is blank: give one with --executor-id")]
    NoExecutor,
    /// The registry has no address.
    #[error("the address of the registry is blank: give one with --remote")]
    NoRegistry,
    /// The token is not accepted.
    #[error(
        "the registry at {url} refuses the token of executor {executor_id} ({status}{said}): set \
         {BEARER_TOKEN_VAR} to a token of that executor"
    )]
    Auth {
        /// What was asked.
        url: String,
        /// For whom.
        executor_id: String,
        /// Its answer.
        status: StatusCode,
        /// What it says about it.
        said: String,
    },
    /// The registry refuses for another reason, or is out of order.
    #[error("the registry at {url} does not register executor {executor_id}: it answers {status}{said}")]
    Refused {
        /// What was asked.
        url: String,
        /// For whom.
        executor_id: String,
        /// Its answer.
        status: StatusCode,
        /// What it says about it.
        said: String,
    },
    /// The registry's answer is not what it should be.
    #[error("the registry at {url} answers what is no registration: {problem}; is --remote its address?")]
    Answer {
        /// What was asked.
        url: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// The registry cannot be reached.
    #[error("could not register at {url}: {source}")]
    Reach {
        /// What was asked.
        url: String,
        /// Why not.
        source: DialError,
    },
}

impl RemoteExecutorError {
    /// Whether it may be over after a while.
    pub fn may_pass(&self) -> bool {
        match self {
            RemoteExecutorError::Refused { status, .. } => {
                status.is_server_error()
                    || matches!(*status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
            }
            RemoteExecutorError::Reach { source, .. } => match source {
                DialError::Url { .. } | DialError::Header(_) => false,
                DialError::Reach { .. }
                | DialError::Tls { .. }
                | DialError::Refused { .. }
                | DialError::Broken(_)
                | DialError::Late(_) => true,
            },
            RemoteExecutorError::NoToken
            | RemoteExecutorError::BadToken
            | RemoteExecutorError::NoExecutor
            | RemoteExecutorError::NoRegistry
            | RemoteExecutorError::Auth { .. }
            | RemoteExecutorError::Answer { .. } => false,
        }
    }
}

impl RemoteExecutorConfig {
    /// An executor whose token is in the environment, under [`BEARER_TOKEN_VAR`].
    pub fn new(base_url: &str, executor_id: &str) -> Result<RemoteExecutorConfig, RemoteExecutorError> {
        let token = std::env::var(BEARER_TOKEN_VAR).map_err(|_| RemoteExecutorError::NoToken)?;
        RemoteExecutorConfig::with_bearer_token(base_url, executor_id, &token)
    }

    /// An executor with this token. Blanks around each of them are nothing, and so are slashes after the address.
    pub fn with_bearer_token(
        base_url: &str,
        executor_id: &str,
        token: &str,
    ) -> Result<RemoteExecutorConfig, RemoteExecutorError> {
        let base_url = base_url.trim().trim_end_matches('/');
        let (executor_id, token) = (executor_id.trim(), token.trim());
        if base_url.is_empty() {
            return Err(RemoteExecutorError::NoRegistry);
        }
        if executor_id.is_empty() {
            return Err(RemoteExecutorError::NoExecutor);
        }
        if token.is_empty() {
            return Err(RemoteExecutorError::NoToken);
        }
        Ok(RemoteExecutorConfig {
            base_url: base_url.to_owned(),
            executor_id: executor_id.to_owned(),
            name: None,
            token: Secret::new(token),
        })
    }

    /// The same with a name for people. As with the released executors, nobody is told.
    pub fn named(self, name: impl Into<String>) -> RemoteExecutorConfig {
        RemoteExecutorConfig { name: Some(name.into()), ..self }
    }

    /// The name for people, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Which executor this is.
    pub fn executor_id(&self) -> &str {
        &self.executor_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_trimmed_and_asked_for_and_the_token_is_never_shown() {
        let config = RemoteExecutorConfig::with_bearer_token(" http://r/x// ", " e ", " t0ken\n").unwrap();
        assert_eq!((config.base_url.as_str(), config.executor_id()), ("http://r/x", "e"));
        assert_eq!(config.token.expose(), "t0ken");
        assert!(!format!("{config:?}").contains("t0ken"));
        for (url, id, token) in [(" /", "e", "t"), ("http://r", " ", "t"), ("http://r", "e", "\n")] {
            let error = RemoteExecutorConfig::with_bearer_token(url, id, token).unwrap_err();
            assert!(!error.may_pass(), "{error}");
        }
    }
}
