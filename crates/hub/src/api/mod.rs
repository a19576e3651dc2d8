//! The HTTP API: users and their clients. Errors are plain text, as the protocol's clients expect.

mod admin;
mod approvals;
mod audit;
mod hosts;
mod notices;
mod openapi;
mod runs;
mod session;
mod shares;
mod sign_in;
mod sockets;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use link::listen::{HandshakeError, HttpConnection, TooManyOfCaller};

use crate::auth::{Credential, Principal, UserRole};
use crate::browser;
use crate::routing::RouteError;
use crate::services::Services;
use crate::store::StoreError;

pub(crate) use hosts::is_older;
pub use openapi::openapi;

/// Every route of the API.
pub(crate) fn router(services: Arc<Services>) -> Router {
    Router::new()
        .merge(sign_in::routes())
        .merge(runs::routes())
        .merge(hosts::routes())
        .merge(approvals::routes())
        .merge(admin::routes())
        .merge(audit::routes())
        .merge(session::routes())
        .merge(shares::routes())
        .merge(notices::routes())
        .merge(sockets::routes())
        .with_state(services)
}

/// An error response: a status and a line of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlainError {
    status: StatusCode,
    message: String,
    /// Seconds after which the request may succeed.
    retry_after: Option<u32>,
}

impl PlainError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> PlainError {
        PlainError { status, message: message.into(), retry_after: None }
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> PlainError {
        PlainError::new(StatusCode::UNAUTHORIZED, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> PlainError {
        PlainError::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn bad(message: impl Into<String>) -> PlainError {
        PlainError::new(StatusCode::BAD_REQUEST, message)
    }

    fn too_many(message: impl Into<String>, seconds: u32) -> PlainError {
        PlainError { retry_after: Some(seconds), ..PlainError::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }
}

impl IntoResponse for PlainError {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.message).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<StoreError> for PlainError {
    /// The cause is logged and not sent to the client.
    fn from(error: StoreError) -> PlainError {
        match error {
            StoreError::NameTaken { .. } => PlainError::new(StatusCode::CONFLICT, error.to_string()),
            error => {
                tracing::error!(error = &error as &dyn std::error::Error, "a request failed");
                let message = "the hub cannot access its database; see its log";
                PlainError {
                    retry_after: Some(1),
                    ..PlainError::new(StatusCode::SERVICE_UNAVAILABLE, message)
                }
            }
        }
    }
}

impl From<RouteError> for PlainError {
    fn from(error: RouteError) -> PlainError {
        let status = match &error {
            RouteError::UnknownRun | RouteError::UnknownHost => StatusCode::NOT_FOUND,
            RouteError::Unreachable(_) => StatusCode::BAD_GATEWAY,
            RouteError::Forbidden { .. } | RouteError::OutsideShare => StatusCode::FORBIDDEN,
            RouteError::Invalid(_) | RouteError::UnknownType => StatusCode::BAD_REQUEST,
            RouteError::Decision(error) => match error.code() {
                "unknown_request" => StatusCode::NOT_FOUND,
                "already_decided" => StatusCode::CONFLICT,
                "host_offline" => StatusCode::BAD_GATEWAY,
                "bad_message" => StatusCode::BAD_REQUEST,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            },
            RouteError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        PlainError::new(status, error.to_string())
    }
}

impl From<HandshakeError> for PlainError {
    fn from(error: HandshakeError) -> PlainError {
        PlainError::bad(error.to_string())
    }
}

impl From<TooManyOfCaller> for PlainError {
    fn from(error: TooManyOfCaller) -> PlainError {
        PlainError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

/// The authenticated client of a request.
pub(crate) struct Caller(pub(crate) Principal);

impl Caller {
    /// The client, if it has this role.
    fn with_role(self, needed: UserRole) -> Result<Principal, PlainError> {
        crate::routing::require(&self.0, needed)?;
        Ok(self.0)
    }
}

impl FromRequestParts<Arc<Services>> for Caller {
    type Rejection = PlainError;

    async fn from_request_parts(parts: &mut Parts, services: &Arc<Services>) -> Result<Caller, PlainError> {
        let found = browser::credentials(services, &parts.method, &parts.headers)?;
        let (secret, _) = found.ok_or_else(|| PlainError::unauthorized("missing bearer token"))?;
        let principal = browser::principal(services, secret).await?;
        shares::confine(&principal, parts).await?;
        if let Some(connection) = parts.extensions.get::<Arc<HttpConnection>>() {
            connection.slot.authenticate_as(&connection_owner(&principal))?;
        }
        Ok(Caller(principal))
    }
}

/// The name under which connections are counted.
fn connection_owner(principal: &Principal) -> Arc<str> {
    match &principal.credential {
        Credential::Token(id) => id.0.to_string().into(),
        Credential::SignIn(_, user) => format!("user:{}", user.0).into(),
        Credential::Host(id) => format!("host:{id}").into(),
        Credential::Share(id, _) => format!("share:{}", id.0).into(),
    }
}

/// The address of the client. Behind a proxy, the last one in its header, which the proxy wrote.
fn client_address(services: &Services, connection: &HttpConnection, headers: &HeaderMap) -> String {
    let peer = connection.peer.address.map(|address| address.ip());
    let forwarded = || -> Option<IpAddr> {
        let header = headers.get_all("x-forwarded-for").iter().next_back()?;
        header.to_str().ok()?.rsplit(',').next()?.trim().parse().ok()
    };
    let address = match peer {
        Some(peer) if services.is_behind_proxy && peer.is_loopback() => forwarded().or(Some(peer)),
        peer => peer,
    };
    address.map(|address| address.to_canonical().to_string()).unwrap_or_default()
}

/// A time of the store as in the rows of the API.
fn api_time(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3f+00:00").to_string()
}
