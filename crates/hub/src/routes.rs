//! The hub's HTTP routes.
//!
//! | route | client | response |
//! |---|---|---|
//! | `POST /cloud/executor/{id}/register` | executor | a URL to connect to, with a ticket |
//! | `GET /cloud/executor/{id}/rendezvous?ticket=` | executor | its WebSocket |
//! | `GET /cloud/executor/{id}/rendezvous?role=harness` | harness | its WebSocket |
//! | `GET /healthz` | everyone | whether the hub accepts requests |
//!
//! The other routes are in `api`.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use http::header::HOST;
use http::{HeaderMap, StatusCode};
use link::listen::{HttpConnection, OriginCheck, WebSocketHandshake};
use serde::{Deserialize, Serialize};
use wire::exec_server::uri::name_part;

use crate::api;
use crate::api_error::ApiError;
use crate::auth::bearer;
use crate::config::PublicUrl;
use crate::rendezvous::{ExecutorId, Rendezvous, UpgradeRequest};
use crate::services::Services;
use crate::web;

/// The state that all routes share.
#[derive(Debug)]
pub(crate) struct HubState {
    rendezvous: Arc<Rendezvous>,
    /// The URL of the listener.
    own: PublicUrl,
    /// The configured public URL.
    public: Option<PublicUrl>,
    origins: OriginCheck,
}

/// The router with all routes and the origin check before them.
pub(crate) fn router(state: Arc<HubState>, services: Arc<Services>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/cloud/executor/{id}/register", post(register))
        .route("/cloud/executor/{id}/rendezvous", get(rendezvous))
        .fallback(async || ApiError::new(StatusCode::NOT_FOUND, "not_found", "no such path"))
        .method_not_allowed_fallback(async || {
            ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "bad_method",
                "this path does not accept this method",
            )
        })
        .with_state(state.clone())
        .merge(api::router(services.clone()))
        .layer(middleware::from_fn_with_state(state, check_origin))
        .layer(middleware::from_fn_with_state(services, web::serve))
}

/// Rejects requests of pages of other sites, also with a valid token.
async fn check_origin(State(state): State<Arc<HubState>>, request: Request, next: Next) -> Response {
    match state.origins.check(request.headers(), None, None) {
        Err(error) => ApiError::forbidden("foreign_origin", error.to_string()).into_response(),
        Ok(_address) => next.run(request).await,
    }
}

#[derive(Debug, Serialize)]
struct RegisterResponse {
    executor_id: String,
    url: String,
}

async fn register(
    State(state): State<Arc<HubState>>,
    Extension(connection): Extension<Arc<HttpConnection>>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Json<RegisterResponse>, ApiError> {
    let executor = executor_id(id)?;
    let ticket = state.rendezvous.register(&executor, bearer(&headers)?, &connection).await?;
    let url = state.rendezvous_url(&headers, &executor, ticket.expose());
    Ok(Json(RegisterResponse { executor_id: executor.as_str().to_owned(), url }))
}

#[derive(Debug, Default, Deserialize)]
struct RendezvousQuery {
    role: Option<String>,
    token: Option<String>,
    ticket: Option<String>,
}

async fn rendezvous(
    State(state): State<Arc<HubState>>,
    Extension(connection): Extension<Arc<HttpConnection>>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<RendezvousQuery>, QueryRejection>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let executor = executor_id(id)?;
    let Query(query) = query.map_err(|error| ApiError::bad("bad_query", error.body_text()))?;
    let in_header = bearer(request.headers())?.map(str::to_owned);
    let handshake = WebSocketHandshake::from_request(&mut request)?;
    let request = UpgradeRequest { handshake, connection };
    match (query.role.as_deref(), query.ticket) {
        (Some("harness"), None) => {
            let token = in_header.or(query.token);
            state.rendezvous.harness(executor, token.as_deref(), request).await
        }
        (None | Some("executor"), Some(ticket)) => {
            state.rendezvous.executor(executor, &ticket, request).await
        }
        _ => {
            let message = "an executor connects to the URL of its registration, a harness with role=harness";
            Err(ApiError::bad("bad_role", message))
        }
    }
}

fn executor_id(id: Result<Path<String>, PathRejection>) -> Result<ExecutorId, ApiError> {
    let Path(id) = id.map_err(|error| ApiError::bad("bad_executor_id", error.body_text()))?;
    ExecutorId::parse(&id)
}

impl HubState {
    pub(crate) fn new(rendezvous: Arc<Rendezvous>, own: PublicUrl, public: Option<PublicUrl>) -> HubState {
        let authority = public.as_ref().map(|public| public.authority.clone());
        HubState { rendezvous, own, public, origins: OriginCheck::same_origin(authority) }
    }

    /// The URL for an executor: the public one, or else with the `Host` of its request.
    fn rendezvous_url(&self, headers: &HeaderMap, executor: &ExecutorId, ticket: &str) -> String {
        let base = self.public.as_ref().unwrap_or(&self.own);
        let requested = authority(headers).filter(|_| self.public.is_none());
        let (authority, prefix) = (requested.unwrap_or(&base.authority), &base.prefix);
        let (scheme, id) = (if base.secure { "wss" } else { "ws" }, name_part(executor.as_str()));
        format!("{scheme}://{authority}{prefix}/cloud/executor/{id}/rendezvous?ticket={ticket}")
    }
}

/// The `Host` of a request, if it is a valid authority.
fn authority(headers: &HeaderMap) -> Option<&str> {
    let host = headers.get(HOST)?.to_str().ok()?;
    let authority: http::uri::Authority = host.parse().ok()?;
    (authority.as_str() == host && !host.contains('@')).then_some(host)
}
