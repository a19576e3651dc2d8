//! Signing in and out: passwords, one-time links, refresh, and the throttling of attempts.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use http::header::SET_COOKIE;
use http::{HeaderMap, StatusCode};
use link::listen::HttpConnection;
use serde::{Deserialize, Serialize};

use super::{Caller, PlainError, client_address};
use crate::auth::{Credential, Secret, TokenDigest, now};
use crate::browser;
use crate::services::Services;
use crate::store::{AuditEntry, NewSignIn, User};

pub(super) fn routes() -> Router<Arc<Services>> {
    Router::new()
        .route("/auth/login", post(login))
        .route("/auth/link", post(link))
        .route("/auth/refresh", post(refresh))
        .route("/auth/logout", post(logout))
}

#[derive(Deserialize)]
struct LoginRequest {
    username: String,
    password: String,
    /// Whether the client refreshes: then its access token is short.
    #[serde(default)]
    refresh: bool,
    /// Whether the client is a browser: then the token is in a cookie, not in the response.
    #[serde(default)]
    cookie: bool,
}

#[derive(Deserialize)]
struct LinkRequest {
    code: String,
    #[serde(default)]
    refresh: bool,
    #[serde(default)]
    cookie: bool,
}

#[derive(Deserialize)]
struct RefreshRequest {
    refresh_token: String,
}

#[derive(Default, Deserialize)]
struct LogoutRequest {
    /// Whether all sign-ins of the user end.
    #[serde(default)]
    everywhere: bool,
}

#[derive(Serialize)]
struct SignedIn {
    access_token: String,
    expires_in: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
}

async fn login(
    State(services): State<Arc<Services>>,
    Extension(connection): Extension<Arc<HttpConnection>>,
    headers: HeaderMap,
    Json(request): Json<LoginRequest>,
) -> Result<Response, PlainError> {
    let address = client_address(&services, &connection, &headers);
    let LoginRequest { username, password, refresh, cookie } = request;
    let user = check(&services, &username, password, &address).await?;
    services.store.login_succeeded((user.id, &user.name), &address, true, now()).await?;
    let entry = AuditEntry::new(format!("user:{}", user.name), "user.sign_in", &user.name);
    services.audit(entry.with_detail(address)).await;
    match cookie {
        true => browser::begin(&services, user).await,
        false => Ok(begin(&services, user, refresh).await?.into_response()),
    }
}

/// The user with this name and password. Takes the same time whether or not the user exists.
async fn check(
    services: &Services,
    username: &str,
    password: String,
    address: &str,
) -> Result<User, PlainError> {
    let limits = services.limits.login_failures;
    let throttled = || PlainError::too_many("too many failed attempts; try again later", 60);
    let (is_known_address, is_own_address) = services.store.address_is_known(username, address).await?;
    // From an address where users sign in, more passwords are checked: others cannot lock a user out.
    let before = if is_known_address { limits.at_known_address() } else { limits };
    if services.store.is_throttled(username, address, before, now()).await? {
        return Err(throttled());
    }
    let is_throttled = services.store.login_attempted(username, address, limits, now()).await?;
    if is_throttled && !is_known_address {
        return Err(throttled());
    }
    let user = services.store.user(username).await?;
    let stored = user.as_ref().and_then(|user| user.password.clone());
    let is_right = services.passwords.matches(password, stored).await;
    match user.filter(|_| is_right && (!is_throttled || is_own_address)) {
        Some(user) => Ok(user),
        None => {
            tracing::info!(address, "a sign-in failed");
            match is_throttled {
                true => Err(throttled()),
                false => Err(PlainError::unauthorized("invalid credentials")),
            }
        }
    }
}

async fn link(
    State(services): State<Arc<Services>>,
    Extension(connection): Extension<Arc<HttpConnection>>,
    headers: HeaderMap,
    Json(request): Json<LinkRequest>,
) -> Result<Response, PlainError> {
    let user = services.store.redeem_sign_in_link(TokenDigest::of(request.code.trim()), now()).await?;
    let user = user.ok_or_else(|| PlainError::unauthorized("the link is unknown, used or expired"))?;
    let address = client_address(&services, &connection, &headers);
    services.store.login_succeeded((user.id, &user.name), &address, false, now()).await?;
    let entry = AuditEntry::new(format!("user:{}", user.name), "user.sign_in_by_link", &user.name);
    services.audit(entry.with_detail(address)).await;
    match request.cookie {
        true => browser::begin(&services, user).await,
        false => Ok(begin(&services, user, request.refresh).await?.into_response()),
    }
}

/// Creates a sign-in of an authenticated user.
async fn begin(services: &Services, user: User, refreshes: bool) -> Result<Json<SignedIn>, PlainError> {
    let (access, refresh) = (new_secret()?, refreshes.then(new_secret).transpose()?);
    let limits = &services.limits;
    let expires_in = if refreshes { limits.short_access } else { limits.long_access };
    let sign_in = NewSignIn {
        user: user.id,
        access: access.digest(),
        access_ends: now() + expires_in,
        refresh: refresh.as_ref().map(Secret::digest),
        ends: now() + if refreshes { limits.refresh } else { expires_in },
        now: now(),
    };
    services.store.add_sign_in(sign_in).await?;
    Ok(Json(SignedIn {
        access_token: access.expose().to_owned(),
        expires_in,
        refresh_token: refresh.map(|refresh| refresh.expose().to_owned()),
        user: Some(user.name),
        role: Some(user.role.word()),
    }))
}

async fn refresh(
    State(services): State<Arc<Services>>,
    Json(request): Json<RefreshRequest>,
) -> Result<Json<SignedIn>, PlainError> {
    let access = new_secret()?;
    let expires_in = services.limits.short_access;
    let (digest, ends) = (TokenDigest::of(&request.refresh_token), now() + services.limits.refresh);
    let replaced = (access.digest(), now() + expires_in);
    match services.store.refresh_sign_in(digest, replaced, (now(), ends)).await? {
        true => {
            let access_token = access.expose().to_owned();
            Ok(Json(SignedIn { access_token, expires_in, refresh_token: None, user: None, role: None }))
        }
        false => Err(PlainError::unauthorized("invalid refresh token")),
    }
}

async fn logout(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    headers: HeaderMap,
    request: Option<Json<LogoutRequest>>,
) -> Result<Response, PlainError> {
    let Credential::SignIn(id, user) = principal.credential else {
        return Err(PlainError::bad("a client token has no sign-in: remove it with `rexhub token remove`"));
    };
    let is_everywhere = request.is_some_and(|Json(request)| request.everywhere);
    match is_everywhere {
        true => services.store.sign_out_everywhere(user).await?,
        false => services.store.sign_out(id).await?,
    }
    services.tokens.changed();
    let action = if is_everywhere { "user.sign_out_everywhere" } else { "user.sign_out" };
    services.audit(AuditEntry::new(principal.actor(), action, principal.name.as_ref())).await;
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().extend(browser::removal(&services, &headers).map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

fn new_secret() -> Result<Secret, PlainError> {
    Secret::random().map_err(|error| {
        tracing::error!(%error, "no random bytes for a token");
        PlainError::new(StatusCode::SERVICE_UNAVAILABLE, "the hub cannot create a token at the moment")
    })
}
