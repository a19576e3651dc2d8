//! Hosts, join codes, and the hub's own log.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wire::hub::v1::LogsTailResult;

use super::{Caller, PlainError, api_time};
use crate::auth::{UserRole, now_ms};
use crate::enrolment;
use crate::log;
use crate::services::Services;
use crate::store::AuditEntry;

/// The number of rows in the list of hosts.
const MAX_HOSTS: i64 = 200;
/// The number of directories in a list.
const MAX_DIRECTORIES: i64 = 50;

pub(super) fn routes() -> Router<Arc<Services>> {
    Router::new()
        .route("/hosts", get(list))
        .route("/hosts/{id}", delete(remove))
        .route("/hosts/{id}/directories", get(directories))
        .route("/join-codes", post(join_code))
        .route("/server/logs/tail", get(log_tail))
}

#[derive(Serialize)]
struct HostRow {
    id: String,
    name: Option<String>,
    version: Option<String>,
    /// Whether it is older than the hub: then it should be upgraded.
    is_older: bool,
    last_seen_at: String,
    online: bool,
}

/// The numbers of a version such as `0.2.0`; text around them is ignored.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let words = version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let core = words.split(['-', '+']).next()?;
    core.split('.').map(|number| number.parse().ok()).collect()
}

/// Whether a host of this version is older than the hub.
pub(crate) fn is_older(version: Option<&str>) -> bool {
    let (version, own) = (version.and_then(numbers), numbers(env!("CARGO_PKG_VERSION")));
    version.is_some() && version < own
}

/// The working directories of the host's runs, the most recent first.
async fn directories(
    State(services): State<Arc<Services>>,
    _caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, PlainError> {
    Ok(Json(json!({ "directories": services.store.recent_directories(&id, MAX_DIRECTORIES).await? })))
}

async fn list(
    State(services): State<Arc<Services>>,
    _caller: Caller,
) -> Result<Json<Vec<HostRow>>, PlainError> {
    let hosts = services.store.hosts(MAX_HOSTS, now_ms()).await?;
    let rows = hosts.into_iter().map(|host| HostRow {
        online: host.node.is_some(),
        last_seen_at: api_time(if host.node.is_some() { now_ms() } else { host.last_seen_ms }),
        id: host.id,
        name: host.name,
        is_older: is_older(host.version.as_deref()),
        version: host.version,
    });
    Ok(Json(rows.collect()))
}

async fn remove(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, PlainError> {
    let principal = caller.with_role(UserRole::Admin)?;
    if !services.store.remove_host(&id).await? {
        return Err(PlainError::not_found("unknown host_id"));
    }
    services.tokens.changed();
    services.audit(AuditEntry::new(principal.actor(), "host.remove", id)).await;
    Ok(StatusCode::NO_CONTENT)
}

async fn join_code(State(services): State<Arc<Services>>, caller: Caller) -> Result<Json<Value>, PlainError> {
    let principal = caller.with_role(UserRole::Admin)?;
    let code = enrolment::create_join_code(&services.store, &principal.actor()).await?;
    services.audit(AuditEntry::new(principal.actor(), "join_code.add", "")).await;
    Ok(Json(json!({ "code": code.code.expose(), "expires_in": enrolment::JOIN_CODE_SECONDS })))
}

#[derive(Deserialize)]
struct LogQuery {
    lines: Option<usize>,
    max_bytes: Option<usize>,
}

async fn log_tail(caller: Caller, Query(query): Query<LogQuery>) -> Result<Json<LogsTailResult>, PlainError> {
    caller.with_role(UserRole::Admin)?;
    let lines = query.lines.unwrap_or(200).clamp(1, 2_000);
    let max_bytes = query.max_bytes.unwrap_or(200_000).clamp(1, 2_000_000);
    let (text, truncated) = log::tail(lines, max_bytes).ok_or_else(|| PlainError::not_found("no log"))?;
    Ok(Json(LogsTailResult { path: "stderr".to_owned(), text, truncated }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_older_only_by_a_smaller_number() {
        for older in ["0.1.9", "rexd 0.1.0", "0.0.1-beta"] {
            assert!(is_older(Some(older)), "{older}");
        }
        for other in [Some(env!("CARGO_PKG_VERSION")), Some("99.0.0"), Some("unknown"), Some(""), None] {
            assert!(!is_older(other), "{other:?}");
        }
    }
}
