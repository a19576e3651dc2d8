//! Read-only links to one run: creating, listing and removing them, and what their viewers may request.

use std::sync::Arc;

use axum::RequestPartsExt as _;
use axum::extract::{Path, RawPathParams, State};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Caller, PlainError, api_time};
use crate::auth::{Principal, Secret, UserRole, now};
use crate::routing::RouteError;
use crate::services::Services;
use crate::store::{AuditEntry, NewShare, ShareId};

/// The lifetimes of a link in seconds: the shortest, the default and the longest.
const LIFETIME: (i64, i64, i64) = (60, 24 * 3600, 30 * 24 * 3600);
/// Links to one run; further ones are rejected.
const MAX_SHARES: i64 = 100;

pub(super) fn routes() -> Router<Arc<Services>> {
    Router::new()
        .route("/runs/{id}/share", post(add))
        .route("/runs/{id}/shares", get(list))
        .route("/shares/{id}", delete(remove))
}

/// Rejects every request of a link's viewer except those that read its run.
pub(super) async fn confine(principal: &Principal, parts: &mut Parts) -> Result<(), PlainError> {
    let Some(only) = principal.only_run() else { return Ok(()) };
    let params = parts.extract::<RawPathParams>().await.ok();
    let is_own = params.is_some_and(|params| params.iter().any(|(name, id)| name == "id" && id == &**only));
    let is_read = match parts.uri.path().split('/').collect::<Vec<_>>().as_slice() {
        ["", "auth", "me"] => true,
        ["", "runs", _] | ["", "runs", _, "messages"] => is_own,
        _ => false,
    };
    match is_read && parts.method == Method::GET {
        true => Ok(()),
        false => Err(RouteError::OutsideShare.into()),
    }
}

#[derive(Default, Deserialize)]
struct ShareRequest {
    expires_in: Option<i64>,
}

async fn add(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path(run): Path<String>,
    headers: HeaderMap,
    Json(request): Json<ShareRequest>,
) -> Result<Json<Value>, PlainError> {
    let principal = caller.with_role(UserRole::Operator)?;
    let (least, default, most) = LIFETIME;
    let lifetime = request.expires_in.unwrap_or(default);
    if !(least..=most).contains(&lifetime) {
        return Err(PlainError::bad(format!("expires_in is a number of seconds from {least} to {most}")));
    }
    if services.store.run(&run).await?.is_none() {
        return Err(PlainError::not_found("unknown run_id"));
    }
    let secret = Secret::random().map_err(|error| {
        PlainError::new(StatusCode::SERVICE_UNAVAILABLE, format!("the hub cannot create a link: {error}"))
    })?;
    let (now, actor) = (now(), principal.actor());
    let ends = now + lifetime;
    let new = NewShare { digest: secret.digest(), run_id: &run, created_by: &actor, now, ends };
    let added = services.store.add_share(new, MAX_SHARES).await?;
    let too_many = || {
        let message = format!("the run has {MAX_SHARES} links: remove some of them first");
        PlainError::new(StatusCode::CONFLICT, message)
    };
    let id = added.ok_or_else(too_many)?;
    services.audit(AuditEntry::new(actor, "share.add", run).with_detail(id.0.to_string())).await;
    Ok(Json(json!({
        "id": id.0,
        "token": secret.expose(),
        "url": format!("{}/share/{}", services.site.url(Some(&headers)), secret.expose()),
        "expires_at": api_time(ends.saturating_mul(1000)),
    })))
}

async fn list(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path(run): Path<String>,
) -> Result<Json<Vec<Value>>, PlainError> {
    caller.with_role(UserRole::Operator)?;
    let shares = services.store.shares(&run, now()).await?;
    let rows = shares.into_iter().map(|share| {
        json!({
            "id": share.id.0,
            "run_id": &*share.run_id,
            "created_by": share.created_by,
            "created_at": api_time(share.created.saturating_mul(1000)),
            "expires_at": api_time(share.ends.saturating_mul(1000)),
        })
    });
    Ok(Json(rows.collect()))
}

async fn remove(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, PlainError> {
    let principal = caller.with_role(UserRole::Operator)?;
    let unknown = || PlainError::not_found("unknown link");
    let id: i64 = id.parse().map_err(|_| unknown())?;
    let run = services.store.remove_share(ShareId(id)).await?.ok_or_else(unknown)?;
    services.tokens.changed();
    services.audit(AuditEntry::new(principal.actor(), "share.remove", run).with_detail(id.to_string())).await;
    Ok(StatusCode::NO_CONTENT)
}
