//! A client of the stringd protocol: one command at a time over one kept-alive connection.
//!
//! A command is never sent twice: it may have side effects, and only the caller knows whether it is safe to repeat.

mod connection;
mod events;
mod start;

pub use events::{ExecResult, strip_content_prefix};
pub use start::StartError;

use std::net::{Ipv4Addr, SocketAddr};

use http::{Method, StatusCode};
use serde::Serialize;
use serde_json::json;
use wire::stringd::v0_1::{Failure, Health, Shutdown, UserRegistered};

use connection::{Answer, Connection};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum StringdError {
    /// No daemon answers at this address.
    #[error("cannot reach stringd at {address}: {reason}")]
    Unreachable {
        /// The address of the daemon.
        address: SocketAddr,
        /// Why it cannot be reached.
        reason: String,
    },
    /// The connection ended before the answer; a command may have run.
    #[error("the connection to stringd ended: {0}")]
    Broken(String),
    /// Too many commands wait in the topic; the caller may try again later.
    #[error("the queue of the topic is full: {0}")]
    QueueFull(String),
    /// The command waited too long and did not run; the caller may try again later.
    #[error("the command waited too long: {0}")]
    QueueTimeout(String),
    /// The daemon refused the request.
    #[error("stringd refused the request: {reason} (status {status})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The reason in the answer.
        reason: String,
    },
}

/// A client of one daemon, for one user.
#[derive(Debug)]
pub struct StringdClient {
    address: SocketAddr,
    user: String,
    connection: Connection,
}

/// A command in a topic.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExecRequest {
    /// The command line, with its body behind the first newline.
    pub cmd: String,
    /// The topic.
    pub topic: String,
    /// An id that the answer repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl StringdClient {
    /// A client of the daemon at this port of the loopback interface. Connects with the first request.
    pub fn new(port: u16, user: impl Into<String>) -> StringdClient {
        StringdClient::at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), user)
    }

    /// The same for another address.
    pub fn at(address: SocketAddr, user: impl Into<String>) -> StringdClient {
        StringdClient { address, user: user.into(), connection: Connection::new(address) }
    }

    /// The address of the daemon.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the daemon answers.
    pub async fn ping(&mut self) -> bool {
        self.health().await.is_ok()
    }

    /// Whether the daemon answers, how many users it has, and how many open topics.
    pub async fn health(&mut self) -> Result<Health, StringdError> {
        let answer = self.connection.send(Method::GET, "/health", None, String::new()).await?;
        decoded(answer)
    }

    /// Registers the user with this home, or updates it.
    pub async fn ensure_user(&mut self, home: &str) -> Result<UserRegistered, StringdError> {
        let body = json!({ "id": self.user, "user_id": self.user, "home": home }).to_string();
        decoded(self.connection.send(Method::POST, "/users", None, body).await?)
    }

    /// Runs a command and waits for its last event. It is not repeated after a failure.
    pub async fn exec(&mut self, request: &ExecRequest) -> Result<ExecResult, StringdError> {
        // Texts always have a JSON form.
        let body = serde_json::to_string(request).unwrap_or_default();
        let answer = self.connection.send(Method::POST, "/exec", Some(&self.user), body).await?;
        match answer.status {
            StatusCode::OK => Ok(events::result(&answer.body)),
            _ => Err(refused(answer)),
        }
    }

    /// Requests that the daemon ends.
    pub async fn shutdown(&mut self) -> Result<Shutdown, StringdError> {
        decoded(self.connection.send(Method::POST, "/shutdown", None, String::new()).await?)
    }
}

fn decoded<T: serde::de::DeserializeOwned>(answer: Answer) -> Result<T, StringdError> {
    match answer.status {
        StatusCode::OK => {
            serde_json::from_str(&answer.body).map_err(|error| StringdError::Broken(error.to_string()))
        }
        _ => Err(refused(answer)),
    }
}

fn refused(answer: Answer) -> StringdError {
    let failure = serde_json::from_str(&answer.body);
    let Failure { error, message } = failure.unwrap_or(Failure { error: answer.body.clone(), message: None });
    let text = message.clone().unwrap_or_else(|| error.clone());
    match answer.status {
        StatusCode::TOO_MANY_REQUESTS => StringdError::QueueFull(text),
        StatusCode::GATEWAY_TIMEOUT => StringdError::QueueTimeout(text),
        status => StringdError::Refused { status: status.as_u16(), reason: text },
    }
}
