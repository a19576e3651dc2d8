//! Push subscriptions of users, and webhooks.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Caller, PlainError, api_time};
use crate::args::token_name;
use crate::auth::{Credential, Principal, UserRole, now};
use crate::notices::{NotifierMessage, check_webhook, decode_keys};
use crate::services::Services;
use crate::store::{AuditEntry, NewSubscription, NoticeChoice, SubscriptionId, UserId, Webhook, WebhookForm};

/// Push subscriptions of one user; further ones are rejected.
const MAX_SUBSCRIPTIONS: i64 = 20;
/// Webhooks of the hub; further ones are rejected.
const MAX_WEBHOOKS: usize = 100;
/// The longest URL of a recipient, in bytes.
const MAX_URL: usize = 2048;

pub(super) fn routes() -> Router<Arc<Services>> {
    Router::new()
        .route("/push/key", get(key))
        .route("/push/subscriptions", get(subscriptions).post(subscribe))
        .route("/push/subscriptions/{id}", delete(unsubscribe))
        .route("/push/test", post(test))
        .route("/webhooks", get(webhooks).post(add_webhook))
        .route("/webhooks/{name}", delete(remove_webhook))
        .route("/webhooks/{name}/test", post(test_webhook))
}

const fn yes() -> bool {
    true
}

async fn key(State(services): State<Arc<Services>>, _caller: Caller) -> Json<Value> {
    Json(json!({ "public_key": services.notifier.key.public() }))
}

/// A `PushSubscription` as its `toJSON()` writes it, with the choice of the user.
#[derive(Deserialize)]
struct SubscribeRequest {
    endpoint: String,
    keys: SubscriptionKeys,
    #[serde(default = "yes")]
    waits: bool,
    #[serde(default = "yes")]
    ends: bool,
}

#[derive(Deserialize)]
struct SubscriptionKeys {
    p256dh: String,
    auth: String,
}

async fn subscribe(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    Json(request): Json<SubscribeRequest>,
) -> Result<(StatusCode, Json<Value>), PlainError> {
    let user = user_of(&principal)?;
    check_url(&services, &request.endpoint)?;
    let (p256dh, auth) = decode_keys(&request.keys.p256dh, &request.keys.auth).map_err(PlainError::bad)?;
    let choice = NoticeChoice { waits: request.waits, ends: request.ends };
    let (endpoint, now) = (request.endpoint.as_str(), now());
    let new = NewSubscription { user, endpoint, p256dh: &p256dh, auth: &auth, choice, now };
    let added = services.store.add_subscription(new, MAX_SUBSCRIPTIONS).await?;
    let too_many = || {
        let message = format!("you have {MAX_SUBSCRIPTIONS} subscriptions: remove some of them first");
        PlainError::new(StatusCode::CONFLICT, message)
    };
    let id = added.ok_or_else(too_many)?;
    Ok((StatusCode::CREATED, Json(json!({ "id": id.0 }))))
}

/// Push subscriptions belong to users, not to programs.
fn user_of(principal: &Principal) -> Result<UserId, PlainError> {
    match principal.credential {
        Credential::SignIn(_, user) => Ok(user),
        _ => Err(PlainError::bad("push notices are for users: sign in instead of using a client token")),
    }
}

fn check_url(services: &Services, url: &str) -> Result<(), PlainError> {
    if url.len() > MAX_URL {
        return Err(PlainError::bad(format!("the URL is longer than {MAX_URL} bytes")));
    }
    services.notifier.rules.check(url).map(drop).map_err(|error| PlainError::bad(error.to_string()))
}

fn host_of(url: &str) -> String {
    let uri: Option<http::Uri> = url.parse().ok();
    uri.as_ref().and_then(http::Uri::host).unwrap_or_default().to_owned()
}

async fn subscriptions(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
) -> Result<Json<Vec<Value>>, PlainError> {
    let found = services.store.subscriptions(Some(user_of(&principal)?)).await?;
    let rows = found.into_iter().map(|one| {
        json!({
            "id": one.id.0,
            "endpoint_host": host_of(&one.endpoint),
            "waits": one.choice.waits,
            "ends": one.choice.ends,
            "created_at": api_time(one.created.saturating_mul(1000)),
        })
    });
    Ok(Json(rows.collect()))
}

async fn unsubscribe(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, PlainError> {
    let unknown = || PlainError::not_found("unknown subscription");
    let (user, id) = (user_of(&principal)?, id.parse().map_err(|_| unknown())?);
    match services.store.remove_subscription(SubscriptionId(id), Some(user)).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(unknown()),
    }
}

async fn test(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
) -> Result<StatusCode, PlainError> {
    queue(&services, NotifierMessage::TestBrowsers(user_of(&principal)?))
}

fn queue(services: &Services, message: NotifierMessage) -> Result<StatusCode, PlainError> {
    match services.notifier.send(message) {
        true => Ok(StatusCode::ACCEPTED),
        false => Err(PlainError::too_many("too many notices at a time; try again later", 5)),
    }
}

async fn webhooks(
    State(services): State<Arc<Services>>,
    caller: Caller,
) -> Result<Json<Vec<Value>>, PlainError> {
    caller.with_role(UserRole::Admin)?;
    let rows = services.store.webhooks().await?.into_iter().map(|webhook| {
        json!({
            "name": webhook.name,
            "form": webhook.form,
            "url_host": host_of(&webhook.url),
            "waits": webhook.choice.waits,
            "ends": webhook.choice.ends,
            "created_at": api_time(webhook.created.saturating_mul(1000)),
        })
    });
    Ok(Json(rows.collect()))
}

#[derive(Deserialize)]
struct AddWebhook {
    name: String,
    form: WebhookForm,
    url: String,
    chat_id: Option<String>,
    token: Option<String>,
    #[serde(default = "yes")]
    waits: bool,
    #[serde(default = "yes")]
    ends: bool,
}

async fn add_webhook(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Json(new): Json<AddWebhook>,
) -> Result<StatusCode, PlainError> {
    let principal = caller.with_role(UserRole::Admin)?;
    check_url(&services, &new.url)?;
    let webhook = Webhook {
        name: token_name(&new.name).map_err(PlainError::bad)?,
        form: new.form,
        url: new.url,
        chat_id: new.chat_id,
        token: new.token,
        choice: NoticeChoice { waits: new.waits, ends: new.ends },
        created: now(),
    };
    check_webhook(&webhook).map_err(PlainError::bad)?;
    if services.store.webhooks().await?.len() >= MAX_WEBHOOKS {
        return Err(PlainError::new(
            StatusCode::CONFLICT,
            format!("there are {MAX_WEBHOOKS} webhooks already"),
        ));
    }
    services.store.add_webhook(&webhook).await?;
    let entry = AuditEntry::new(principal.actor(), "webhook.add", webhook.name);
    services.audit(entry.with_detail(host_of(&webhook.url))).await;
    Ok(StatusCode::CREATED)
}

async fn remove_webhook(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, PlainError> {
    let principal = caller.with_role(UserRole::Admin)?;
    if !services.store.remove_webhook(&name).await? {
        return Err(PlainError::not_found("unknown webhook"));
    }
    services.audit(AuditEntry::new(principal.actor(), "webhook.remove", name)).await;
    Ok(StatusCode::NO_CONTENT)
}

async fn test_webhook(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, PlainError> {
    caller.with_role(UserRole::Admin)?;
    match services.store.webhooks().await?.iter().any(|webhook| webhook.name == name) {
        true => queue(&services, NotifierMessage::TestWebhook(name)),
        false => Err(PlainError::not_found("unknown webhook")),
    }
}
