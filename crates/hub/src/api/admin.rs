//! Administration: users and tokens.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Caller, PlainError, api_time};
use crate::args::token_name;
use crate::auth::{Secret, UserRole, now};
use crate::enrolment;
use crate::passwords;
use crate::services::Services;
use crate::store::{AuditEntry, NewToken, TokenKind};

pub(super) fn routes() -> Router<Arc<Services>> {
    Router::new()
        .route("/me", get(me))
        .route("/users", get(users).post(add_user))
        .route("/users/{name}", delete(remove_user))
        .route("/users/{name}/link", post(user_link))
        .route("/tokens", get(tokens).post(add_token))
        .route("/tokens/{name}", delete(remove_token))
}

async fn me(Caller(principal): Caller) -> Json<Value> {
    Json(json!({ "user": &*principal.name, "role": principal.role }))
}

#[derive(Serialize)]
struct UserRow {
    name: String,
    role: UserRole,
    created_at: String,
    has_password: bool,
}

async fn users(
    State(services): State<Arc<Services>>,
    caller: Caller,
) -> Result<Json<Vec<UserRow>>, PlainError> {
    caller.with_role(UserRole::Admin)?;
    let rows = services.store.users().await?.into_iter().map(|user| UserRow {
        name: user.name,
        role: user.role,
        created_at: api_time(user.created.saturating_mul(1000)),
        has_password: user.password.is_some(),
    });
    Ok(Json(rows.collect()))
}

#[derive(Deserialize)]
struct AddUser {
    name: String,
    role: UserRole,
    /// Without it, the user signs in by link.
    password: Option<String>,
}

async fn add_user(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Json(new): Json<AddUser>,
) -> Result<StatusCode, PlainError> {
    let principal = caller.with_role(UserRole::Admin)?;
    let name = token_name(&new.name).map_err(PlainError::bad)?;
    let password = match new.password {
        Some(password) => {
            let hashed = tokio::task::spawn_blocking(move || passwords::hash(&password)).await;
            let hashed = hashed.map_err(|error| PlainError::bad(error.to_string()))?;
            Some(hashed.map_err(|error| PlainError::bad(error.to_string()))?)
        }
        None => None,
    };
    services.store.add_user(&name, new.role, password.as_deref(), now()).await?;
    services.audit(AuditEntry::new(principal.actor(), "user.add", name).with_detail(new.role.word())).await;
    Ok(StatusCode::CREATED)
}

async fn remove_user(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, PlainError> {
    let principal = caller.with_role(UserRole::Admin)?;
    if !services.store.remove_user(&name).await? {
        return Err(PlainError::not_found("unknown user"));
    }
    services.tokens.changed();
    services.audit(AuditEntry::new(principal.actor(), "user.remove", name)).await;
    Ok(StatusCode::NO_CONTENT)
}

async fn user_link(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, PlainError> {
    let principal = caller.with_role(UserRole::Admin)?;
    let user = services.store.user(&name).await?.ok_or_else(|| PlainError::not_found("unknown user"))?;
    let code = enrolment::create_sign_in_code(&services.store, user.id).await?;
    services.audit(AuditEntry::new(principal.actor(), "user.link", name)).await;
    Ok(Json(json!({ "code": code.expose(), "expires_in": enrolment::LINK_SECONDS })))
}

async fn tokens(
    State(services): State<Arc<Services>>,
    caller: Caller,
) -> Result<Json<Vec<Value>>, PlainError> {
    caller.with_role(UserRole::Admin)?;
    let rows = services.store.tokens().await?.into_iter().map(|token| {
        json!({
            "name": token.name,
            "kind": token.kind,
            "role": token.role,
            "created_at": api_time(token.created.saturating_mul(1000)),
            "last_used_at": token.last_used.map(|used| api_time(used.saturating_mul(1000))),
        })
    });
    Ok(Json(rows.collect()))
}

#[derive(Deserialize)]
struct AddToken {
    name: String,
    kind: String,
    role: Option<UserRole>,
}

async fn add_token(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Json(new): Json<AddToken>,
) -> Result<Json<Value>, PlainError> {
    let principal = caller.with_role(UserRole::Admin)?;
    let name = token_name(&new.name).map_err(PlainError::bad)?;
    let kind = TokenKind::parse(&new.kind);
    let kind = kind.ok_or_else(|| PlainError::bad("kind is executor, harness or client"))?;
    let role = enrolment::token_role(kind, new.role).map_err(PlainError::bad)?;
    let secret = Secret::random().map_err(|error| PlainError::bad(error.to_string()))?;
    let digest = secret.digest();
    services.store.add_token(NewToken { name: name.clone(), kind, role, digest, created: now() }).await?;
    services.audit(AuditEntry::new(principal.actor(), "token.add", name).with_detail(kind.word())).await;
    Ok(Json(json!({ "token": secret.expose() })))
}

async fn remove_token(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, PlainError> {
    let principal = caller.with_role(UserRole::Admin)?;
    if !services.store.remove_token(&name).await? {
        return Err(PlainError::not_found("unknown token"));
    }
    services.tokens.changed();
    services.audit(AuditEntry::new(principal.actor(), "token.remove", name)).await;
    Ok(StatusCode::NO_CONTENT)
}
