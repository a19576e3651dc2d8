//! What the web application stores: share links, push subscriptions and webhooks, on SQLite and on a real PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use hub::auth::{Secret, UserRole};
use hub::runs::HostEvent;
use hub::store::{
    AuditEntry, AuditQuery, EventBatch, NewShare, NewSubscription, NoticeChoice, RunFilter, RunQuery, Store,
    StoreError, UserId, Webhook, WebhookForm,
};
use serde_json::json;
use support::postgres::Postgres;
use wire::hub::v1::Envelope;

async fn all(one: &Store, other: &Store) {
    shares_end_by_time_and_removal(one, other).await;
    subscriptions_belong_to_one_user(one, other).await;
    webhooks_have_unique_names(one, other).await;
    the_push_key_is_created_once(one, other).await;
    runs_and_the_audit_are_filtered(one).await;
}

#[tokio::test]
async fn sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let one = Store::open_sqlite(directory.path()).await.unwrap();
    all(&one, &Store::open_sqlite(directory.path()).await.unwrap()).await;
}

#[tokio::test]
async fn postgresql() {
    let postgres = Postgres::start();
    let url = postgres.url(&postgres.database());
    let one = Store::open_postgres(&url).await.unwrap();
    all(&one, &Store::open_postgres(&url).await.unwrap()).await;
}

async fn user(store: &Store, name: &str) -> UserId {
    store.add_user(name, UserRole::Operator, None, 1).await.unwrap();
    store.user(name).await.unwrap().unwrap().id
}

async fn shares_end_by_time_and_removal(one: &Store, other: &Store) {
    let secret = Secret::random().unwrap();
    let new = NewShare { digest: secret.digest(), run_id: "r", created_by: "user:ann", now: 10, ends: 20 };
    let id = one.add_share(new, 2).await.unwrap().unwrap();
    let found = other.share_of(secret.digest(), 19).await.unwrap().unwrap();
    assert_eq!((found.id, &*found.run_id, found.ends), (id, "r", 20));
    assert_eq!(other.share_of(secret.digest(), 20).await.unwrap(), None, "it has ended");
    assert_eq!(other.share_of(Secret::random().unwrap().digest(), 19).await.unwrap(), None);
    let second = NewShare { digest: Secret::random().unwrap().digest(), ends: 30, ..new };
    let second = one.add_share(second, 2).await.unwrap().unwrap();
    let third = NewShare { digest: Secret::random().unwrap().digest(), ends: 30, ..new };
    assert_eq!(one.add_share(third, 2).await.unwrap(), None, "the limit");
    let third = one.add_share(NewShare { now: 25, ..third }, 2).await.unwrap().unwrap();
    let listed: Vec<_> = other.shares("r", 25).await.unwrap().iter().map(|share| share.id).collect();
    assert_eq!(listed, [third, second], "those that have ended make room");
    let before = other.revision().await.unwrap();
    assert_eq!(one.remove_share(second).await.unwrap().as_deref(), Some("r"));
    assert_eq!(one.remove_share(second).await.unwrap(), None);
    assert!(other.revision().await.unwrap() > before, "its connections end");
    user(one, "ann").await;
    assert!(one.remove_user("ann").await.unwrap());
    assert_eq!(other.share(third, 25).await.unwrap(), None, "the links of a removed user end");
}

async fn subscriptions_belong_to_one_user(one: &Store, other: &Store) {
    let (bob, eve) = (user(one, "bob").await, user(one, "eve").await);
    let choice = NoticeChoice { waits: true, ends: false };
    let new =
        NewSubscription { user: bob, endpoint: "https://push/1", p256dh: b"k", auth: b"a", choice, now: 1 };
    let id = one.add_subscription(new, 1).await.unwrap().unwrap();
    assert_eq!(other.add_subscription(new, 1).await.unwrap(), Some(id), "the same browser");
    let second = NewSubscription { endpoint: "https://push/2", ..new };
    assert_eq!(one.add_subscription(second, 1).await.unwrap(), None, "the limit");
    assert!(!one.remove_subscription(id, Some(eve)).await.unwrap(), "of another user");
    let moved = NewSubscription { user: eve, auth: b"b", ..new };
    assert_eq!(one.add_subscription(moved, 1).await.unwrap(), Some(id), "another user of the browser");
    assert!(other.subscriptions(Some(bob)).await.unwrap().is_empty());
    let found = other.subscriptions(None).await.unwrap();
    assert_eq!((found[0].user.as_str(), found[0].choice, &found[0].auth[..]), ("eve", choice, &b"b"[..]));
    assert!(one.remove_user("eve").await.unwrap());
    assert!(other.subscriptions(None).await.unwrap().is_empty());
}

async fn webhooks_have_unique_names(one: &Store, other: &Store) {
    let webhook = Webhook {
        name: "chat".to_owned(),
        form: WebhookForm::Telegram,
        url: "https://api.example/botSECRET/sendMessage".to_owned(),
        chat_id: Some("5".to_owned()),
        token: None,
        choice: NoticeChoice { waits: true, ends: true },
        created: 7,
    };
    one.add_webhook(&webhook).await.unwrap();
    assert!(matches!(other.add_webhook(&webhook).await, Err(StoreError::NameTaken { .. })));
    assert!(!format!("{webhook:?}").contains("SECRET"));
    assert_eq!(other.webhooks().await.unwrap(), [webhook]);
    assert!(other.remove_webhook("chat").await.unwrap() && !one.remove_webhook("chat").await.unwrap());
}

async fn the_push_key_is_created_once(one: &Store, other: &Store) {
    let key = one.push_key(&[1; 32]).await.unwrap();
    assert_eq!((key, other.push_key(&[2; 32]).await.unwrap()), (vec![1; 32], vec![1; 32]));
}

async fn runs_and_the_audit_are_filtered(store: &Store) {
    let mut events = Vec::new();
    for (run, kind, seq) in [("a", "run.started", 1), ("b", "run.started", 1), ("b", "run.exited", 2)] {
        let data = json!({ "tool": "shell", "cwd": format!("/{run}"), "command": format!("make 100%_{run}"), "exit_code": 0 });
        let text = json!({ "type": kind, "run_id": run, "seq": seq, "data": data }).to_string();
        events.push(HostEvent::parse(Envelope::parse(&text).unwrap(), "h", "2026-01-01T00:00:00Z").unwrap());
    }
    store.write_events(&[EventBatch { host_id: "h".to_owned(), events }], 1_000_000).await.unwrap();
    let ids = async |query: RunQuery| {
        let mut ids: Vec<String> =
            store.find_runs(&query).await.unwrap().into_iter().map(|run| run.id).collect();
        ids.sort();
        ids.concat()
    };
    let any = RunQuery { limit: 9, ..Default::default() };
    assert_eq!(ids(any.clone()).await, "ab");
    assert_eq!(ids(RunQuery { status: Some(RunFilter::Running), ..any.clone() }).await, "a");
    assert_eq!(ids(RunQuery { status: Some(RunFilter::Exited), ..any.clone() }).await, "b");
    assert_eq!(ids(RunQuery { status: Some(RunFilter::Waiting), ..any.clone() }).await, "");
    assert_eq!(ids(RunQuery { text: "100%_a".to_owned(), ..any.clone() }).await, "a");
    assert_eq!(ids(RunQuery { text: "100__a".to_owned(), ..any.clone() }).await, "", "no pattern");
    assert_eq!(ids(RunQuery { host_id: "other".to_owned(), ..any.clone() }).await, "");
    assert_eq!(ids(RunQuery { before_ms: Some(1), ..any }).await, "");
    let mut directories = store.recent_directories("h", 9).await.unwrap();
    directories.sort();
    assert_eq!(directories, ["/a", "/b"]);

    for (actor, action) in [("user:ann", "run.stop"), ("token:ci", "run.stop"), ("user:ann", "user.add")] {
        store.audit(AuditEntry::new(actor, action, "t")).await.unwrap();
    }
    let count = async |query: AuditQuery| store.audit_entries(&query).await.unwrap().len();
    let (all, now) = (AuditQuery { limit: 9, ..Default::default() }, jiff::Timestamp::now());
    assert_eq!(count(all.clone()).await, 3);
    assert_eq!(
        count(AuditQuery { actor: "ann".to_owned(), action: "stop".to_owned(), ..all.clone() }).await,
        1
    );
    assert_eq!(count(AuditQuery { target: "%".to_owned(), ..all.clone() }).await, 0);
    let hour = jiff::Span::new().hours(1);
    assert_eq!(
        count(AuditQuery { since: Some(now - hour), until: Some(now + hour), ..all.clone() }).await,
        3
    );
    assert_eq!(count(AuditQuery { since: Some(now + hour), ..all.clone() }).await, 0);
    assert_eq!(count(AuditQuery { until: Some(now - hour), ..all }).await, 0);
}
