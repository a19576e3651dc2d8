//! Error responses of the hub's HTTP API.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};
use link::listen::{HandshakeError, TooManyOfCaller};
use serde_json::json;

use crate::store::StoreError;

/// An error response: `{"error":{"code","message"}}` with a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// A stable identifier for programs.
    pub(crate) code: &'static str,
    /// A description for people.
    pub(crate) message: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, code, message: message.into() }
    }

    /// The request has no valid credentials.
    pub(crate) fn unauthenticated(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, code, message)
    }

    /// The credentials do not allow the request.
    pub(crate) fn forbidden(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, code, message)
    }

    /// The request is invalid.
    pub(crate) fn bad(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// The request may succeed later.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self.status {
            StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            StatusCode::SERVICE_UNAVAILABLE => Some((header::RETRY_AFTER, HeaderValue::from_static("1"))),
            StatusCode::UPGRADE_REQUIRED => Some((header::UPGRADE, HeaderValue::from_static("websocket"))),
            _ => None,
        }
    }
}

impl From<TooManyOfCaller> for ApiError {
    fn from(error: TooManyOfCaller) -> ApiError {
        ApiError::unavailable("too_many_connections", format!("{error}: close some of this token"))
    }
}

impl From<HandshakeError> for ApiError {
    fn from(error: HandshakeError) -> ApiError {
        let code = match error {
            HandshakeError::NotAnUpgrade | HandshakeError::Version => "websocket_only",
            HandshakeError::Key => "bad_handshake",
        };
        ApiError::new(error.status(), code, error.to_string())
    }
}

impl From<StoreError> for ApiError {
    /// The cause is logged and not sent to the client.
    fn from(error: StoreError) -> ApiError {
        tracing::error!(error = &error as &dyn std::error::Error, "a request failed");
        let message = "the hub cannot access its database; see its log";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "store_failed", message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": self.code, "message": self.message } });
        let mut response = (self.status, Json(body)).into_response();
        response.headers_mut().extend(self.header());
        response
    }
}
