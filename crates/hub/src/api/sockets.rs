//! The WebSocket routes of hosts, apps, and REXD clients.

use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use link::listen::{HttpConnection, WebSocketHandshake, bearer_token};
use serde::Deserialize;
use tokio::time::timeout;

use super::{PlainError, connection_owner};
use crate::browser;
use crate::live;
use crate::rendezvous::UpgradeRequest;
use crate::services::Services;
use crate::store::AuditEntry;
use crate::uplink::{self, HostQuery};

pub(super) fn routes() -> Router<Arc<Services>> {
    Router::new()
        .route("/ws/app", get(app))
        .route("/ws/host", get(host))
        .route("/ws/host/rexd", get(host_rexd))
        .route("/hosts/{id}/rexd", get(client_rexd))
}

#[derive(Default, Deserialize)]
struct AppQuery {
    token: Option<String>,
    /// `message`: the token is in the first message.
    auth: Option<String>,
}

async fn app(
    State(services): State<Arc<Services>>,
    Extension(connection): Extension<Arc<HttpConnection>>,
    Query(query): Query<AppQuery>,
    mut request: Request,
) -> Result<Response, PlainError> {
    let refused = || PlainError::unauthorized("missing/invalid token");
    let header = bearer_token(request.headers()).map_err(|_| refused())?.map(str::to_owned);
    let cookie = services.site.cookie(request.headers()).map(str::to_owned);
    let principal = match (header.or(query.token), cookie) {
        (Some(token), _) => Some(services.tokens.principal(&token).await?.ok_or_else(refused)?),
        (None, _) if query.auth.as_deref() == Some("message") => None,
        (None, Some(cookie)) => {
            browser::require_origin(request.headers())?;
            Some(services.tokens.principal(&cookie).await?.ok_or_else(refused)?)
        }
        (None, None) => return Err(refused()),
    };
    let handshake = WebSocketHandshake::from_request(&mut request)?;
    if let Some(principal) = &principal {
        connection.slot.authenticate_as(&connection_owner(principal))?;
    }
    let (response, upgraded) = handshake.accept();
    let limit = services.limits.handshake;
    services.tasks.clone().spawn(async move {
        if let Ok(Some(stream)) = timeout(limit, upgraded).await {
            live::serve(services, principal, (stream, connection)).await;
        }
    });
    Ok(response)
}

async fn host(
    State(services): State<Arc<Services>>,
    Extension(connection): Extension<Arc<HttpConnection>>,
    Query(query): Query<HostQuery>,
    mut request: Request,
) -> Result<Response, PlainError> {
    let host = uplink::authenticate(&services, query, request.headers()).await?;
    let handshake = WebSocketHandshake::from_request(&mut request)?;
    connection.slot.authenticate_as(&format!("host:{host}").into())?;
    let (response, upgraded) = handshake.accept();
    let limit = services.limits.handshake;
    services.tasks.clone().spawn(async move {
        if let Ok(Some(stream)) = timeout(limit, upgraded).await {
            uplink::serve(services, host, (stream, connection)).await;
        }
    });
    Ok(response)
}

/// The second connection of a host, for REXD.
async fn host_rexd(
    State(services): State<Arc<Services>>,
    Extension(connection): Extension<Arc<HttpConnection>>,
    Query(query): Query<HostQuery>,
    mut request: Request,
) -> Result<Response, PlainError> {
    let host = uplink::authenticate(&services, query, request.headers()).await?;
    let handshake = WebSocketHandshake::from_request(&mut request)?;
    connection.slot.authenticate_as(&format!("host:{host}").into())?;
    Ok(services.rendezvous.host_rexd(host, UpgradeRequest { handshake, connection }))
}

/// REXD of a host for a client of a user.
async fn client_rexd(
    State(services): State<Arc<Services>>,
    Extension(connection): Extension<Arc<HttpConnection>>,
    Path(host): Path<String>,
    Query(query): Query<AppQuery>,
    mut request: Request,
) -> Result<Response, Response> {
    let refused = || PlainError::unauthorized("missing/invalid token").into_response();
    let failed = |error: PlainError| error.into_response();
    let header = bearer_token(request.headers()).map_err(|_| refused())?.map(str::to_owned);
    let token = header.or(query.token).ok_or_else(refused)?;
    let principal = services.tokens.principal(&token).await.map_err(|error| failed(error.into()))?;
    let principal = principal.ok_or_else(refused)?;
    let is_known = services.hosts.is_connected(&host)
        || services.store.host(&host, 0).await.map_err(|error| failed(error.into()))?.is_some();
    if !is_known {
        return Err(PlainError::not_found("unknown host_id").into_response());
    }
    let handshake = WebSocketHandshake::from_request(&mut request).map_err(|error| failed(error.into()))?;
    let owner = connection_owner(&principal);
    connection.slot.authenticate_as(&owner).map_err(|error| failed(error.into()))?;
    // Not awaited: each command of `rex` opens a stream.
    services.audit_log.append(AuditEntry::new(principal.actor(), "host.rexd", host.as_str())).await;
    let request = UpgradeRequest { handshake, connection };
    services.rendezvous.client_rexd(&host, &principal, request).await.map_err(|error| error.into_response())
}
