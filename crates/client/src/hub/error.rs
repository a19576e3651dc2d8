//! The errors of a hub's client.

use http::StatusCode;

use crate::error::ConnectError;

/// Why a request to a hub failed.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The hub could not be reached, or does not accept the sign-in.
    #[error(transparent)]
    Connect(Box<ConnectError>),
    /// The hub answered with an error.
    #[error("the hub refused {request}: {} {message}", status.as_u16())]
    Refused {
        /// The method and the path of the request.
        request: String,
        /// The HTTP status.
        status: StatusCode,
        /// The hub's message.
        message: String,
        /// The seconds after which another attempt is accepted.
        retry_after: Option<u64>,
    },
    /// The response is not what a hub answers.
    #[error("protocol error: invalid response to {request}: {problem}")]
    Decode {
        /// The method and the path, or the type of the message.
        request: String,
        /// Why it is invalid.
        problem: String,
    },
    /// The hub could not deliver a message.
    #[error("{message}")]
    Rejected {
        /// A word for programs, such as `unknown_run`.
        code: String,
        /// The hub's message.
        message: String,
    },
    /// A host answered a request with an error.
    #[error("{message}")]
    Rpc {
        /// The name of the request.
        name: String,
        /// The host's message.
        message: String,
    },
    /// There was no response in time.
    #[error("no response to {request} within {seconds} s")]
    Late {
        /// The type of the request.
        request: String,
        /// The time limit.
        seconds: u64,
    },
    /// The operating system provided no random bytes.
    #[error("cannot get random bytes: {0}")]
    Random(getrandom::Error),
}

impl HubError {
    /// Whether another attempt could succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            HubError::Connect(error) => error.is_transient,
            HubError::Refused { status, .. } => status.is_server_error(),
            HubError::Decode { .. }
            | HubError::Rejected { .. }
            | HubError::Rpc { .. }
            | HubError::Late { .. }
            | HubError::Random(_) => false,
        }
    }
}

impl From<ConnectError> for HubError {
    fn from(error: ConnectError) -> HubError {
        HubError::Connect(Box::new(error))
    }
}
