//! Refusals: why a request is not answered as it wished, as HTTP tells it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};
use serde_json::json;

use crate::store::StoreError;

/// Why a request is refused: `{"error":{"code","message"}}` with a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// For programs; stays the same.
    pub(crate) code: &'static str,
    /// For people.
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, code, message: message.into() }
    }

    /// Nobody knows who is asking.
    pub(crate) fn unproven(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::UNAUTHORIZED, code, message)
    }

    /// Who is asking may not.
    pub(crate) fn forbidden(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, code, message)
    }

    /// The request makes no sense.
    pub(crate) fn bad(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Not now.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
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

impl From<StoreError> for Refusal {
    /// What the database says stays here.
    fn from(error: StoreError) -> Refusal {
        tracing::error!(error = &error as &dyn std::error::Error, "a request failed");
        let message = "the hub cannot read or write its database: its log says why";
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "store_failed", message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": self.code, "message": self.message } });
        let mut response = (self.status, Json(body)).into_response();
        response.headers_mut().extend(self.header());
        response
    }
}
