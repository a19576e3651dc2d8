//! What happens to stored rows: an upgrade keeps them, old runs are removed in short transactions, and checkpoints.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use hub::auth::{TokenDigest, UserRole};
use hub::runs::{HostEvent, RunStatus};
use hub::store::{ApprovalStatus, EventBatch, Retention, Store, TokenKind};
use serde_json::{Value, json};
use sqlx::{AnyPool, AssertSqlSafe};
use support::postgres::Postgres;
use wire::hub::v1::Envelope;

/// What the last migration has created; without it, the schema is that of the release before.
const NEWEST: [&str; 5] = [
    "DROP TABLE shares",
    "DROP TABLE push_key",
    "DROP TABLE push_subscriptions",
    "DROP TABLE webhooks",
    "DELETE FROM _sqlx_migrations WHERE version > 3",
];
/// Rows as an earlier release has written them. `BYTES` is a literal of the database.
const ROWS: [&str; 7] = [
    "INSERT INTO tokens (name, kind, hash, created, role) VALUES ('ci', 'client', BYTES, 1, 'operator')",
    "INSERT INTO users (name, role, password, created) VALUES ('ann', 'admin', 'hash', 1)",
    "INSERT INTO hosts (id, token, name, generation, lease_ms, last_seen_ms, created) VALUES ('h', BYTES, 'box', 3, 0, 7, 1)",
    "INSERT INTO runs (id, host_id, tool, status, started_ms, active_ms, pending_seq, pending_request_id, last_seq, \
     highest_seq, state_seq, bytes) VALUES ('r', 'h', 'codex', 'awaiting_approval', 1, 2, 2, 'q', 2, 2, 2, 99)",
    "INSERT INTO events (run_id, seq, ts, type, stream, text, stored_ms) \
     VALUES ('r', 1, '2026-01-01T00:00:00Z', 'run.output', 'stdout', 'old', 1)",
    "INSERT INTO events (run_id, seq, ts, type, request_id, data, stored_ms) \
     VALUES ('r', 2, '2026-01-01T00:00:00Z', 'run.permission_requested', 'q', '{\"request_id\":\"q\"}', 1)",
    "INSERT INTO approvals (run_id, request_id, host_id, seq, status, is_typed, requested_ms) \
     VALUES ('r', 'q', 'h', 2, 'pending', 0, 1)",
];

/// The SHA-256 of `secret`.
const DIGEST: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

fn event(run: &str, seq: i64, kind: &str, data: &Value) -> HostEvent {
    let text = json!({ "type": kind, "run_id": run, "seq": seq, "data": data }).to_string();
    HostEvent::parse(Envelope::parse(&text).unwrap(), "h", "2026-01-01T00:00:00Z").unwrap()
}

fn output(run: &str, seq: i64) -> HostEvent {
    event(run, seq, "run.output", &json!({ "stream": "stdout", "text": format!("line {seq}\n") }))
}

async fn write(store: &Store, events: Vec<HostEvent>) -> i64 {
    let batch = EventBatch { host_id: "h".to_owned(), events };
    store.write_events(&[batch], 5000).await.unwrap()[0].runs[0].last_seq
}

/// Turns a new database into one of the release before, with rows.
async fn make_older(url: &str, bytes: &str) {
    let pool = AnyPool::connect(url).await.unwrap();
    for sql in NEWEST.iter().chain(&ROWS) {
        sqlx::query(AssertSqlSafe(sql.replace("BYTES", bytes))).execute(&pool).await.unwrap();
    }
    pool.close().await;
}

/// Every row of the older schema is read, and the events of its run continue.
async fn rows_are_kept(store: &Store) {
    let token = store.token_of(TokenDigest::of("secret")).await.unwrap().unwrap();
    assert_eq!((token.name.as_str(), token.kind), ("ci", TokenKind::Client));
    let ann = store.user("ann").await.unwrap().unwrap();
    assert_eq!((ann.role, ann.password.as_deref()), (UserRole::Admin, Some("hash")));
    let host = &store.hosts(10, 8).await.unwrap()[0];
    assert_eq!((host.id.as_str(), host.name.as_deref(), host.generation), ("h", Some("box"), 3));
    let run = store.run("r").await.unwrap().unwrap();
    assert_eq!((run.status, run.last_seq, run.bytes), (RunStatus::AwaitingApproval, 2, 99));
    assert_eq!(store.approvals(ApprovalStatus::Pending, None, 10).await.unwrap()[0].request_id, "q");
    assert!(store.shares("r", 1).await.unwrap().is_empty(), "the tables of the new schema are there");
    let decided = json!({ "request_id": "q", "decision": "approve" });
    let new = vec![output("r", 2), event("r", 3, "run.permission_decided", &decided), output("r", 4)];
    assert_eq!(write(store, new).await, 4);
    let events = store.events_after("r", (0, i64::MAX), 10).await.unwrap();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(events[0].text.as_deref(), Some("old"));
    assert_eq!(store.run("r").await.unwrap().unwrap().status, RunStatus::Running);
}

#[tokio::test]
async fn an_older_sqlite_database_is_upgraded_with_its_rows() {
    let directory = tempfile::tempdir().unwrap();
    drop(Store::open_sqlite(directory.path()).await.unwrap());
    make_older(&sqlite_url(&directory), &format!("x'{DIGEST}'")).await;
    rows_are_kept(&Store::open_sqlite(directory.path()).await.unwrap()).await;
}

#[tokio::test]
async fn an_older_postgresql_database_is_upgraded_with_its_rows() {
    let postgres = Postgres::start();
    let database = postgres.database();
    let url = postgres.url(&database);
    drop(Store::open_postgres(&url).await.unwrap());
    make_older(&postgres.url_text(&database), &format!("'\\x{DIGEST}'::bytea")).await;
    rows_are_kept(&Store::open_postgres(&url).await.unwrap()).await;
}

fn sqlite_url(directory: &tempfile::TempDir) -> String {
    format!("sqlite://{}", directory.path().join("hub.db").display())
}

/// A transaction that fails changes nothing, so what is gone shows where the transactions have ended.
#[tokio::test]
async fn a_large_run_is_removed_in_portions_and_its_row_last() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).await.unwrap();
    for part in 0..5 {
        write(&store, (1..=500).map(|number| output("r", part * 500 + number)).collect()).await;
    }
    write(&store, vec![event("r", 2501, "run.exited", &json!({ "exit_code": 0 }))]).await;
    let pool = AnyPool::connect(&sqlite_url(&directory)).await.unwrap();
    let stops = "CREATE TRIGGER stops BEFORE DELETE ON events WHEN old.seq = 2400 BEGIN SELECT RAISE(ABORT, 'stop'); END";
    sqlx::query(stops).execute(&pool).await.unwrap();
    let nothing = Retention { age_ms: 0, bytes: 0 };
    store.remove_old_runs(nothing, i64::MAX / 2).await.unwrap_err();
    let left = store.events_after("r", (0, i64::MAX), 5000).await.unwrap();
    assert_eq!((left.len(), left[0].seq), (501, 2001), "two portions of 1,000 are gone");
    assert!(store.run("r").await.unwrap().is_some(), "the run is found again");
    sqlx::query("DROP TRIGGER stops").execute(&pool).await.unwrap();
    assert_eq!(store.remove_old_runs(nothing, i64::MAX / 2).await.unwrap(), 1);
    assert!(store.run("r").await.unwrap().is_none());
    assert!(store.events_after("r", (0, i64::MAX), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_checkpoint_moves_stored_events_into_the_file_of_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).await.unwrap();
    let bytes = || std::fs::metadata(directory.path().join("hub.db")).unwrap().len();
    let before = bytes();
    for part in 0..4 {
        write(&store, (1..=500).map(|number| output("r", part * 500 + number)).collect()).await;
    }
    assert_eq!(bytes(), before, "no commit copies so little");
    store.checkpoint().await.unwrap();
    let after = bytes();
    assert!(after > before + 100_000, "{before} before, {after} after");
    assert_eq!(store.events_after("r", (0, i64::MAX), 5000).await.unwrap().len(), 2000);
}
