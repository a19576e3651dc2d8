//! Who the client is, and the versions of hub and web application.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::header::SET_COOKIE;
use http::{HeaderMap, Method};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Caller, PlainError, api_time};
use crate::auth::{Credential, now};
use crate::browser;
use crate::services::Services;
use crate::web;

pub(super) fn routes() -> Router<Arc<Services>> {
    Router::new().route("/auth/me", get(me)).route("/auth/config", get(config))
}

#[derive(Serialize)]
struct SessionRow {
    user: String,
    role: &'static str,
    kind: &'static str,
    hub_version: &'static str,
    bundle_version: &'static str,
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
}

/// Prolongs a sign-in by cookie.
async fn me(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    headers: HeaderMap,
) -> Result<Response, PlainError> {
    let store = &services.store;
    let (kind, ends, cookie) = match &principal.credential {
        Credential::SignIn(id, _) => match browser::credentials(&services, &Method::GET, &headers)? {
            Some((secret, true)) => {
                let (cookie, ends) = browser::prolong(&services, *id, secret).await?;
                ("user", Some(ends), Some(cookie))
            }
            _ => ("user", store.sign_in(*id, now()).await?.map(|sign_in| sign_in.access_ends), None),
        },
        Credential::Share(id, _) => ("share", store.share(*id, now()).await?.map(|share| share.ends), None),
        Credential::Token(_) | Credential::Host(_) => ("token", None, None),
    };
    let row = SessionRow {
        user: principal.name.to_string(),
        role: principal.role.word(),
        kind,
        hub_version: env!("CARGO_PKG_VERSION"),
        bundle_version: web::version(),
        expires_at: ends.map(|ends| api_time(ends.saturating_mul(1000))),
        run_id: principal.only_run().map(|run| run.to_string()),
    };
    let mut response = Json(row).into_response();
    response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

/// What the app needs before anyone has signed in.
async fn config(State(services): State<Arc<Services>>) -> Json<Value> {
    Json(json!({
        "hub_version": env!("CARGO_PKG_VERSION"),
        "bundle_version": web::version(),
        "secure": services.site.is_secure(),
        "ca": services.site.authority.is_some(),
    }))
}
