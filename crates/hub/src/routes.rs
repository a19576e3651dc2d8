//! What the hub answers over HTTP.
//!
//! | route | who | what |
//! |---|---|---|
//! | `POST /cloud/executor/{id}/register` | executor | a URL to connect to, with a ticket |
//! | `GET /cloud/executor/{id}/rendezvous?ticket=` | executor | its WebSocket |
//! | `GET /cloud/executor/{id}/rendezvous?role=harness` | harness | its WebSocket |
//! | `GET /healthz` | everybody | whether the hub takes work |

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode, Uri};
use serde::{Deserialize, Serialize};
use wire::exec_server::uri::name_part;

use crate::auth::bearer;
use crate::config::PublicUrl;
use crate::refusal::Refusal;
use crate::rendezvous::{ExecutorId, Rendezvous};
use crate::upgrade::Handshake;

/// What every request is answered from.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) rendezvous: Arc<Rendezvous>,
    /// Where the hub listens.
    pub(crate) own: PublicUrl,
    /// Where others reach it, if that was said.
    pub(crate) public: Option<PublicUrl>,
}

/// All routes.
pub(crate) fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/cloud/executor/{id}/register", post(register))
        .route("/cloud/executor/{id}/rendezvous", get(rendezvous))
        .fallback(async || Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", "this path does not take this method")
        })
        .layer(middleware::from_fn_with_state(site.clone(), only_own_pages))
        .with_state(site)
}

/// Pages of other sites have no business here, whatever tokens they know.
async fn only_own_pages(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    match site.is_foreign(request.headers()) {
        true => Refusal::forbidden("foreign_origin", "requests from pages of other sites are refused")
            .into_response(),
        false => next.run(request).await,
    }
}

#[derive(Debug, Serialize)]
struct Registered {
    executor_id: String,
    url: String,
}

async fn register(
    State(site): State<Arc<Site>>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Json<Registered>, Refusal> {
    let executor = executor_id(id)?;
    let ticket = site.rendezvous.register(&executor, bearer(&headers)?).await?;
    let url = site.rendezvous_url(&headers, &executor, ticket.expose());
    Ok(Json(Registered { executor_id: executor.as_str().to_owned(), url }))
}

#[derive(Debug, Default, Deserialize)]
struct Asked {
    role: Option<String>,
    token: Option<String>,
    ticket: Option<String>,
}

async fn rendezvous(
    State(site): State<Arc<Site>>,
    id: Result<Path<String>, PathRejection>,
    asked: Result<Query<Asked>, QueryRejection>,
    mut request: Request,
) -> Result<Response, Refusal> {
    let executor = executor_id(id)?;
    let Query(asked) = asked.map_err(|error| Refusal::bad("bad_query", error.body_text()))?;
    let in_header = bearer(request.headers())?.map(str::to_owned);
    let handshake = Handshake::of(&mut request)?;
    match (asked.role.as_deref(), asked.ticket) {
        (Some("harness"), None) => {
            let token = in_header.or(asked.token);
            site.rendezvous.harness(executor, token.as_deref(), handshake).await
        }
        (None | Some("executor"), Some(ticket)) => {
            site.rendezvous.executor(executor, &ticket, handshake).await
        }
        _ => {
            let message =
                "an executor connects to the URL its registration returned, a harness with role=harness";
            Err(Refusal::bad("bad_role", message))
        }
    }
}

fn executor_id(id: Result<Path<String>, PathRejection>) -> Result<ExecutorId, Refusal> {
    let Path(id) = id.map_err(|error| Refusal::bad("bad_executor_id", error.body_text()))?;
    ExecutorId::parse(&id)
}

impl Site {
    /// Where an executor connects: the public URL, or else the host it has just found us at.
    fn rendezvous_url(&self, headers: &HeaderMap, executor: &ExecutorId, ticket: &str) -> String {
        let base = self.public.as_ref().unwrap_or(&self.own);
        let asked = authority(headers).filter(|_| self.public.is_none());
        let (authority, prefix) = (asked.unwrap_or(&base.authority), &base.prefix);
        let (scheme, id) = (if base.secure { "wss" } else { "ws" }, name_part(executor.as_str()));
        format!("{scheme}://{authority}{prefix}/cloud/executor/{id}/rendezvous?ticket={ticket}")
    }

    /// Whether a browser sends this for a page that is not ours.
    fn is_foreign(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        let is_ours = |origin: &http::HeaderValue| {
            let origin: Option<Uri> = origin.to_str().ok().and_then(|origin| origin.parse().ok());
            let origin = origin.as_ref().and_then(Uri::authority).map(|origin| origin.as_str());
            let public = self.public.as_ref().map(|public| public.authority.as_str());
            let ours = [authority(headers), public];
            origin
                .is_some_and(|origin| ours.into_iter().flatten().any(|own| own.eq_ignore_ascii_case(origin)))
        };
        !origins.all(is_ours)
    }
}

/// The host the client thinks it talks to, if it is one.
fn authority(headers: &HeaderMap) -> Option<&str> {
    let host = headers.get(HOST)?.to_str().ok()?;
    let authority: http::uri::Authority = host.parse().ok()?;
    (authority.as_str() == host && !host.contains('@')).then_some(host)
}
