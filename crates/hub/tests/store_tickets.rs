//! Tickets, attempts to sign in, overdue requests and batches of the audit: the same tests on SQLite and PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use hub::auth::{TokenDigest, UserRole};
use hub::runs::{HostEvent, RunStatus};
use hub::store::{
    ApprovalStatus, AuditEntry, EventBatch, FailureLimits, NewTicket, NewToken, Store, TokenId, TokenKind,
};
use serde_json::json;
use support::postgres::Postgres;
use wire::hub::v1::Envelope;

/// Every test on two connections to one database, as two nodes have them.
async fn all(one: &Store, other: &Store) {
    a_ticket_is_redeemed_once_in_time_and_for_its_executor(one, other).await;
    an_attempt_counts_until_it_succeeds(one, other).await;
    an_overdue_request_is_settled_with_its_run(one, other).await;
    a_batch_of_the_audit_continues_the_chain(one, other).await;
}

#[tokio::test]
async fn sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let open = async || Store::open_sqlite(directory.path()).await.unwrap();
    all(&open().await, &open().await).await;
}

#[tokio::test]
async fn postgresql() {
    let postgres = Postgres::start();
    let url = postgres.url(&postgres.database());
    let open = async || Store::open_postgres(&url).await.unwrap();
    all(&open().await, &open().await).await;
}

async fn a_ticket_is_redeemed_once_in_time_and_for_its_executor(one: &Store, other: &Store) {
    let digest = TokenDigest::of("secret");
    let new = NewToken { name: "t".to_owned(), kind: TokenKind::Executor, role: None, digest, created: 1 };
    one.add_token(new).await.unwrap();
    let token = one.token_of(digest).await.unwrap().unwrap().id;
    let issue = async |text: &str, now_ms: i64| {
        let digest = TokenDigest::of(text);
        let ends_ms = now_ms + 60;
        one.add_ticket(NewTicket { digest, executor: "e", token, now_ms, ends_ms, limit: 3 }).await.unwrap();
    };
    let redeem = async |text: &str, executor: &str, now_ms| -> Option<TokenId> {
        other.redeem_ticket(TokenDigest::of(text), executor, now_ms).await.unwrap()
    };
    issue("a", 100).await;
    issue("b", 100).await;
    assert_eq!((redeem("a", "f", 101).await, redeem("x", "e", 101).await), (None, None));
    assert_eq!(redeem("a", "e", 101).await, Some(token));
    assert_eq!(redeem("a", "e", 101).await, None, "it was used");
    assert_eq!(redeem("b", "e", 160).await, None, "it has ended");
    for text in ["c", "d", "e", "f"] {
        issue(text, 200).await;
    }
    assert_eq!(redeem("c", "e", 201).await, None, "the limit removed it");
    assert_eq!(redeem("d", "e", 201).await, Some(token));
    assert!(other.remove_token("t").await.unwrap());
    assert_eq!(redeem("e", "e", 201).await, None, "its token was removed");
}

async fn an_attempt_counts_until_it_succeeds(one: &Store, other: &Store) {
    let limits = FailureLimits { of_user: 3, of_address: 10, window: 100 };
    one.add_user("ann", UserRole::Viewer, None, 1).await.unwrap();
    let ann = one.user("ann").await.unwrap().unwrap().id;
    for _ in 0..10 {
        assert!(!one.login_attempted("ann", "a", limits, 10).await.unwrap());
        other.login_succeeded((ann, "ann"), "a", true, 10).await.unwrap();
    }
    let attempts = async |store: &Store| store.login_attempted("ann", "b", limits, 10).await.unwrap();
    let seen = [attempts(one).await, attempts(other).await, attempts(one).await, attempts(other).await];
    assert_eq!(seen, [false, false, false, true]);
}

async fn an_overdue_request_is_settled_with_its_run(one: &Store, other: &Store) {
    let data = json!({ "request_id": "q", "op_tool": "bash", "approve_text": "", "expires_at": "2026-01-01T00:00:01Z" });
    let text =
        json!({ "type": "run.permission_requested", "run_id": "r", "seq": 1, "data": data }).to_string();
    let event = HostEvent::parse(Envelope::parse(&text).unwrap(), "h", "2026-01-01T00:00:00Z").unwrap();
    one.write_events(&[EventBatch { host_id: "h".to_owned(), events: vec![event] }], 5).await.unwrap();
    // A second after it was stored, as the host says.
    let deadline = 1_005;
    assert_eq!(other.expire_approvals(deadline).await.unwrap(), 0);
    assert_eq!(one.run("r").await.unwrap().unwrap().status, RunStatus::AwaitingApproval);
    assert_eq!(other.expire_approvals(deadline + 1).await.unwrap(), 1);
    let settled = one.approval("r", "q").await.unwrap().unwrap();
    assert_eq!((settled.status, settled.decision.as_deref()), (ApprovalStatus::Decided, Some("timeout")));
    let run = one.run("r").await.unwrap().unwrap();
    assert_eq!((run.status, run.pending), (RunStatus::Running, None));
}

async fn a_batch_of_the_audit_continues_the_chain(one: &Store, other: &Store) {
    one.audit(AuditEntry::new("cli", "one", "x")).await.unwrap();
    let batch = (0..5).map(|number| AuditEntry::new("cli", "many", number.to_string())).collect();
    other.append_audit(batch).await.unwrap();
    one.append_audit(Vec::new()).await.unwrap();
    one.audit(AuditEntry::new("cli", "last", "x")).await.unwrap();
    assert_eq!(other.verify_audit().await.unwrap(), None);
}
