//! The store: the same tests on SQLite and on a real PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use hub::auth::{Secret, TokenDigest, UserRole};
use hub::runs::{EventRejected, HostEvent, RunStatus};
use hub::store::{
    ApprovalStatus, AuditEntry, AuditQuery, EventBatch, ExecutorClaim, FailureLimits, HostClaim, HostLease,
    NewSignIn, NewToken, Retention, Store, StoreError, TokenKind, UserDecision, WrittenBatch,
};
use serde_json::{Value, json};
use support::postgres::Postgres;
use wire::hub::v1::Envelope;

/// Every test, so that both databases run the same ones.
async fn all(mut open: impl AsyncFnMut() -> (Store, Store)) {
    let (one, other) = open().await;
    a_removed_token_loses_its_executors(&one, &other).await;
    sign_ins_end_by_time_sign_out_and_removal(&one, &other).await;
    failures_are_counted_per_name_and_address(&one, &other).await;
    a_host_keeps_its_token_and_the_newest_connection_wins(&one, &other).await;
    let (one, other) = open().await;
    events_are_stored_once_and_acknowledged_without_gaps(&one, &other).await;
    a_run_belongs_to_its_first_host(&one, &other).await;
    lost_events_fill_their_gap(&one).await;
    every_character_of_output_comes_back(&one).await;
    a_request_is_decided_once(&one, &other).await;
    a_run_waits_for_its_oldest_open_request(&one).await;
    the_end_of_a_run_withdraws_what_only_its_program_can_answer(&one).await;
    the_audit_is_a_chain(&one, &other).await;
    ended_runs_are_removed_by_age_and_size(&one).await;
}

#[tokio::test]
async fn sqlite() {
    let mut directories = Vec::new();
    all(async || {
        let directory = tempfile::tempdir().unwrap();
        let stores = (
            Store::open_sqlite(directory.path()).await.unwrap(),
            Store::open_sqlite(directory.path()).await.unwrap(),
        );
        directories.push(directory);
        stores
    })
    .await;
}

#[tokio::test]
async fn postgresql() {
    let postgres = Postgres::start();
    all(async || {
        let url = postgres.url(&postgres.database());
        (Store::open_postgres(&url).await.unwrap(), Store::open_postgres(&url).await.unwrap())
    })
    .await;
}

fn new_token(name: &str, secret: &str) -> NewToken {
    let digest = TokenDigest::of(secret);
    NewToken { name: name.to_owned(), kind: TokenKind::Executor, role: None, digest, created: 1 }
}

async fn a_removed_token_loses_its_executors(one: &Store, other: &Store) {
    let before = one.revision().await.unwrap();
    other.add_token(new_token("a", "secret a")).await.unwrap();
    other.add_token(new_token("b", "secret b")).await.unwrap();
    assert!(matches!(one.add_token(new_token("a", "else")).await, Err(StoreError::NameTaken { .. })));
    let a = one.token_of(TokenDigest::of("secret a")).await.unwrap().unwrap();
    let b = one.token_of(TokenDigest::of("secret b")).await.unwrap().unwrap();
    assert_eq!((a.name.as_str(), a.last_used), ("a", None));
    assert_eq!(one.token_of(TokenDigest::of("a")).await.unwrap(), None);
    let claim = |token| ExecutorClaim { token, limit: 1, now: 1 };
    assert_eq!(one.claim_executor("e", claim(a.id)).await.unwrap(), Some(a.id));
    assert_eq!(one.claim_executor("f", claim(a.id)).await.unwrap(), None, "the token has reached its limit");
    assert_eq!(other.claim_executor("e", claim(b.id)).await.unwrap(), Some(a.id), "the first one keeps it");
    one.token_used(a.id, 1000).await.unwrap();
    assert_eq!(other.tokens().await.unwrap()[0].last_used, Some(1000));
    assert_eq!(one.revision().await.unwrap(), before, "no connection ends because of this");
    assert!(other.remove_token("a").await.unwrap() && !other.remove_token("a").await.unwrap());
    assert_ne!(one.revision().await.unwrap(), before, "a removal by another connection is detected");
    assert!(!one.has_token(a.id).await.unwrap() && one.has_token(b.id).await.unwrap());
    assert_eq!(one.claim_executor("e", claim(b.id)).await.unwrap(), Some(b.id), "the executor has no owner");
    one.add_token(new_token("a", "again")).await.unwrap();
    assert_ne!(one.token_of(TokenDigest::of("again")).await.unwrap().unwrap().id, a.id);
}

async fn sign_ins_end_by_time_sign_out_and_removal(one: &Store, other: &Store) {
    one.add_user("ann", UserRole::Operator, Some("hash"), 1).await.unwrap();
    assert!(matches!(
        other.add_user("ann", UserRole::Admin, None, 1).await,
        Err(StoreError::NameTaken { .. })
    ));
    let ann = other.user("ann").await.unwrap().unwrap();
    assert_eq!((ann.role, ann.password.as_deref()), (UserRole::Operator, Some("hash")));
    let sign_in = |access: &str, refresh: Option<&str>| NewSignIn {
        user: ann.id,
        access: TokenDigest::of(access),
        access_ends: 100,
        refresh: refresh.map(TokenDigest::of),
        ends: 1000,
        now: 10,
    };
    one.add_sign_in(sign_in("a", None)).await.unwrap();
    one.add_sign_in(sign_in("b", Some("r"))).await.unwrap();
    let found = async |access: &str, now| other.sign_in_of(TokenDigest::of(access), now).await.unwrap();
    assert_eq!(found("a", 99).await.unwrap().user.name, "ann");
    assert_eq!(found("a", 100).await, None, "the access token has ended");
    let fresh = (TokenDigest::of("c"), 200);
    assert!(one.refresh_sign_in(TokenDigest::of("r"), fresh, (150, 1000)).await.unwrap());
    assert!(
        !one.refresh_sign_in(TokenDigest::of("r"), fresh, (1000, 2000)).await.unwrap(),
        "the sign-in has ended"
    );
    assert!(!one.refresh_sign_in(TokenDigest::of("a"), fresh, (10, 1000)).await.unwrap());
    assert_eq!(found("b", 150).await, None, "the new token replaced it");
    let c = found("c", 150).await.unwrap();
    one.sign_out(c.id).await.unwrap();
    assert_eq!((found("c", 150).await, other.sign_in(c.id, 150).await.unwrap()), (None, None));
    assert!(found("a", 50).await.is_some());
    one.sign_out_everywhere(ann.id).await.unwrap();
    assert_eq!(found("a", 50).await, None);

    one.add_sign_in_link(ann.id, TokenDigest::of("link"), 100).await.unwrap();
    one.add_sign_in_link(ann.id, TokenDigest::of("old"), 50).await.unwrap();
    let redeem = async |link: &str| other.redeem_sign_in_link(TokenDigest::of(link), 60).await.unwrap();
    assert_eq!(redeem("link").await.map(|user| user.name), Some("ann".to_owned()));
    assert_eq!((redeem("link").await, redeem("old").await, redeem("none").await), (None, None, None));

    one.add_sign_in(sign_in("d", None)).await.unwrap();
    assert!(other.remove_user("ann").await.unwrap() && !other.remove_user("ann").await.unwrap());
    assert_eq!(found("d", 50).await, None);
}

async fn failures_are_counted_per_name_and_address(one: &Store, other: &Store) {
    let limits = FailureLimits { of_user: 3, of_address: 5, window: 100 };
    let throttled =
        async |user: &str, address: &str, now| other.is_throttled(user, address, limits, now).await.unwrap();
    for _ in 0..3 {
        assert!(!throttled("ann", "1.1.1.1", 10).await);
        one.login_attempted("ann", "1.1.1.1", limits, 10).await.unwrap();
    }
    assert!(throttled("ann", "1.1.1.1", 10).await && throttled("ann", "2.2.2.2", 10).await);
    assert!(!throttled("bob", "1.1.1.1", 10).await, "the address has failed three times");
    for name in ["x", "y"] {
        one.login_attempted(name, "1.1.1.1", limits, 10).await.unwrap();
    }
    assert!(throttled("bob", "1.1.1.1", 10).await && !throttled("bob", "2.2.2.2", 10).await);
    assert!(!throttled("ann", "1.1.1.1", 111).await, "the window is over");
    one.login_attempted("ann", "1.1.1.1", limits, 111).await.unwrap();
    assert!(!throttled("ann", "1.1.1.1", 112).await, "a new window counts from one");
    one.forget_old_failures(limits, 500).await.unwrap();
    one.add_user("ann", UserRole::Viewer, None, 1).await.unwrap();
    let ann = one.user("ann").await.unwrap().unwrap();
    one.login_succeeded((ann.id, "ann"), "1.1.1.1", false, 10).await.unwrap();
    one.login_succeeded((ann.id, "ann"), "1.1.1.1", false, 11).await.unwrap();
    assert_eq!(other.address_is_known("ann", "1.1.1.1").await.unwrap(), (true, true));
    assert_eq!(other.address_is_known("bob", "1.1.1.1").await.unwrap(), (true, false));
    assert_eq!(other.address_is_known("ann", "2.2.2.2").await.unwrap(), (false, false));
}

async fn a_host_keeps_its_token_and_the_newest_connection_wins(one: &Store, other: &Store) {
    let (token, wrong) = (TokenDigest::of("t"), TokenDigest::of("w"));
    let claim = async |token, how| one.claim_host("h", token, how, 10).await.unwrap();
    assert_eq!(claim(token, (false, None)).await, HostClaim::NotEnrolled);
    assert_eq!(claim(token, (false, Some(TokenDigest::of("code")))).await, HostClaim::NotEnrolled);
    other.add_join_code(TokenDigest::of("code"), "cli", (1, 20)).await.unwrap();
    assert_eq!(claim(token, (false, Some(TokenDigest::of("code")))).await, HostClaim::Enrolled);
    assert_eq!(claim(token, (false, None)).await, HostClaim::Known);
    assert_eq!(claim(wrong, (true, None)).await, HostClaim::WrongToken);
    let second = other.claim_host("h2", token, (false, Some(TokenDigest::of("code"))), 10).await.unwrap();
    assert_eq!(second, HostClaim::NotEnrolled, "a code is valid once");

    let lease = |node, now_ms| HostLease { node, lease_ms: now_ms + 100, now_ms };
    assert_eq!(one.connect_host("h", &lease("n1", 1000)).await.unwrap(), Some(1));
    assert_eq!(other.connect_host("h", &lease("n2", 1010)).await.unwrap(), Some(2));
    assert_eq!(one.connect_host("none", &lease("n1", 1000)).await.unwrap(), None);
    assert!(!one.disconnect_host("h", 1, 1020).await.unwrap(), "an old connection changes nothing");
    let node = async |now_ms| one.host("h", now_ms).await.unwrap().unwrap().node;
    assert_eq!(node(1050).await.as_deref(), Some("n2"));
    assert_eq!(node(1200).await, None, "the lease is over");
    other.renew_leases(&lease("n2", 1200)).await.unwrap();
    assert_eq!(node(1250).await.as_deref(), Some("n2"));
    one.describe_host("h", "name", "1.0").await.unwrap();
    assert!(other.disconnect_host("h", 2, 1300).await.unwrap());
    let host = &one.hosts(10, 1300).await.unwrap()[0];
    assert_eq!((host.name.as_deref(), host.node.as_deref(), host.last_seen_ms), (Some("name"), None, 1300));
    assert!(other.remove_host("h").await.unwrap() && !other.remove_host("h").await.unwrap());
    assert_eq!(claim(wrong, (true, None)).await, HostClaim::Enrolled);
}

fn event(run: &str, seq: i64, kind: &str, data: &Value) -> HostEvent {
    let text = json!({ "type": kind, "run_id": run, "seq": seq, "data": data }).to_string();
    HostEvent::parse(Envelope::parse(&text).unwrap(), "h", "2026-01-01T00:00:00Z").unwrap()
}

fn output(run: &str, seq: i64) -> HostEvent {
    event(run, seq, "run.output", &json!({ "stream": "stdout", "text": format!("line {seq}\n") }))
}

async fn write(store: &Store, host: &str, events: Vec<HostEvent>) -> WrittenBatch {
    let batch = EventBatch { host_id: host.to_owned(), events };
    store.write_events(&[batch], 5000).await.unwrap().remove(0)
}

async fn seqs(store: &Store, run: &str) -> Vec<i64> {
    store.events_after(run, (0, i64::MAX), 1000).await.unwrap().iter().map(|event| event.seq).collect()
}

async fn events_are_stored_once_and_acknowledged_without_gaps(one: &Store, other: &Store) {
    let acks = |written: WrittenBatch| -> Vec<(String, i64, i64)> {
        written.runs.into_iter().map(|run| (run.run_id, run.before, run.last_seq)).collect()
    };
    let mut batch: Vec<HostEvent> = (1..=300).map(|seq| output("r", seq)).collect();
    batch.push(output("s", 1));
    let expected = vec![("r".to_owned(), 0, 300), ("s".to_owned(), 0, 1)];
    assert_eq!(acks(write(one, "h", batch.clone()).await), expected);
    let expected = vec![("r".to_owned(), 300, 300), ("s".to_owned(), 1, 1)];
    assert_eq!(acks(write(other, "h", batch).await), expected, "a repeat is acknowledged and not stored");
    assert_eq!(seqs(one, "r").await, (1..=300).collect::<Vec<_>>());
    // Beyond a gap, in any order, also within one batch, also repeated.
    let beyond = [305, 303, 303].map(|seq| output("r", seq)).to_vec();
    assert_eq!(acks(write(one, "h", beyond).await), vec![("r".to_owned(), 300, 300)]);
    assert_eq!(acks(write(other, "h", vec![output("r", 305)]).await), vec![("r".to_owned(), 300, 300)]);
    assert_eq!(acks(write(other, "h", vec![output("r", 301)]).await), vec![("r".to_owned(), 300, 301)]);
    assert_eq!(acks(write(one, "h", vec![output("r", 302)]).await), vec![("r".to_owned(), 301, 303)]);
    assert_eq!(acks(write(one, "h", vec![output("r", 304)]).await), vec![("r".to_owned(), 303, 305)]);
    assert_eq!(seqs(one, "r").await, (1..=305).collect::<Vec<_>>());
    let far = write(one, "h", vec![output("r", 4_000_000), output("r", 306)]).await;
    assert!(matches!(far.rejected[0].error, EventRejected::TooFarAhead(_)), "{far:?}");
    assert_eq!(far.runs[0].last_seq, 306, "the others of the batch are stored");
    assert_eq!(one.run("r").await.unwrap().unwrap().highest_seq, 306);
}

async fn a_run_belongs_to_its_first_host(one: &Store, other: &Store) {
    write(one, "h", vec![output("mine", 1)]).await;
    let theft = write(other, "thief", vec![output("mine", 2), output("own", 1)]).await;
    assert!(theft.rejected[0].error == EventRejected::NotYourRun, "{theft:?}");
    assert_eq!(theft.runs.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["own"]);
    assert_eq!(one.host_of_run("mine").await.unwrap().as_deref(), Some("h"));
    assert_eq!(seqs(one, "mine").await, [1]);
    assert!(other.positions(&["mine"], Some("thief")).await.unwrap().is_empty());
    // Both in one transaction: the first one in it owns the run.
    let batch = |host: &str| EventBatch { host_id: host.to_owned(), events: vec![output("both", 1)] };
    let written = one.write_events(&[batch("h"), batch("thief")], 1).await.unwrap();
    assert_eq!((written[0].rejected.len(), written[1].rejected.len()), (0, 1));
}

async fn lost_events_fill_their_gap(store: &Store) {
    let lost = |first: i64, last: i64| {
        event("l", last, "run.lost", &json!({ "first_seq": first, "last_seq": last, "bytes": 7 }))
    };
    write(store, "h", vec![output("l", 1), output("l", 11)]).await;
    assert_eq!(write(store, "h", vec![lost(4, 10)]).await.runs[0].last_seq, 1);
    assert_eq!(write(store, "h", vec![output("l", 2), output("l", 3)]).await.runs[0].last_seq, 11);
    assert_eq!(seqs(store, "l").await, [1, 2, 3, 10, 11]);
    assert_eq!(write(store, "h", vec![lost(12, 500_000)]).await.runs[0].last_seq, 500_000);
}

async fn every_character_of_output_comes_back(store: &Store) {
    let datas = [
        json!({ "stream": "stdout", "text": "plain \u{1b}[1m ünïcödé 🦀 \u{7f}" }),
        json!({ "stream": "stderr", "text": "a\u{0}b" }),
        json!({ "stream": "stdout", "text": "\u{fffd}", "base64": "/w==" }),
        json!({ "stream": "stdout" }),
        json!({}),
        Value::Null,
    ];
    let events = (1..).zip(&datas).map(|(seq, data)| event("c", seq, "run.output", data)).collect();
    write(store, "h", events).await;
    for (stored, data) in store.events_after("c", (0, i64::MAX), 10).await.unwrap().iter().zip(&datas) {
        let frame: Value = serde_json::from_slice(&stored.frame("h", "c")).unwrap();
        let expected = if data.is_null() { &json!({}) } else { data };
        assert_eq!(
            (&frame["data"], &frame["seq"], &frame["type"]),
            (expected, &json!(stored.seq), &json!("run.output"))
        );
    }
    let stored = store.events_after("c", (0, 1), 10).await.unwrap();
    assert_eq!(stored[0].data, None, "output is stored once");
    let input = json!({ "actor": "web", "input_id": "i", "text_redacted": "\u{0}y", "text_sha256": "00" });
    write(store, "h", vec![event("c", 7, "run.input", &input)]).await;
    let stored = store.messages("c", None, false, 10).await.unwrap();
    assert_eq!(
        (stored.len(), stored[0].full_data(), stored[0].input_id.as_deref()),
        (1, Some(input), Some("i"))
    );
}

async fn a_request_is_decided_once(one: &Store, other: &Store) {
    let request = |id: &str, typed: &str, expires: &str| json!({ "request_id": id, "reason": "permission", "prompt": "p", "approve_text": typed, "expires_at": expires });
    let soon = "2026-01-01T00:00:10Z";
    write(
        one,
        "h",
        vec![
            event("a", 1, "run.permission_requested", &request("q1", "y\n", soon)),
            event("a", 2, "run.awaiting_input", &json!({ "request_id": "q1", "reason": "prompt" })),
            event("b", 1, "run.permission_requested", &request("q1", "", soon)),
            event("b", 2, "run.permission_requested", &request("q2", "", "")),
        ],
    )
    .await;
    let pending = one.approvals(ApprovalStatus::Pending, None, 10).await.unwrap();
    assert_eq!(pending.len(), 3);
    assert_eq!(one.run("a").await.unwrap().unwrap().status, RunStatus::AwaitingApproval);
    assert_eq!(one.run("a").await.unwrap().unwrap().pending.unwrap().seq, 1);
    let decision = |user| UserDecision { decision: "approve", user, reason: None, command: "{}", now_ms: 1 };
    let decide =
        async |store: &Store, run: &str, user| store.decide(run, "q1", &decision(user)).await.unwrap();
    assert!(decide(one, "b", "ann").await && !decide(other, "b", "bob").await, "the first decision counts");
    let sent = other.approvals(ApprovalStatus::Sent, Some("h"), 10).await.unwrap();
    assert_eq!((sent.len(), sent[0].decided_by.as_deref()), (1, Some("ann")));
    assert!(other.approvals(ApprovalStatus::Sent, Some("other"), 10).await.unwrap().is_empty());
    // The host confirms; a repeat of the request does not open it again.
    let confirmed = json!({ "request_id": "q1", "decision": "approve", "user": "ann" });
    write(one, "h", vec![event("b", 3, "run.permission_decided", &confirmed)]).await;
    write(one, "h", vec![event("b", 4, "run.permission_requested", &request("q1", "", soon))]).await;
    let settled = one.approval("b", "q1").await.unwrap().unwrap();
    assert_eq!((settled.status, settled.decision.as_deref()), (ApprovalStatus::Decided, Some("approve")));
    assert!(!decide(one, "b", "bob").await);
    // Typing answers a prompt, and no operation that waits in the host.
    write(one, "h", vec![event("a", 3, "run.input", &json!({ "input_id": "x" }))]).await;
    assert_eq!(one.approval("a", "q1").await.unwrap().unwrap().decision.as_deref(), Some("input"));
    write(one, "h", vec![event("b", 5, "run.input", &json!({ "input_id": "x" }))]).await;
    assert_eq!(one.approval("b", "q2").await.unwrap().unwrap().status, ApprovalStatus::Pending);
    write(one, "h", vec![event("b", 6, "run.permission_requested", &request("q3", "", soon))]).await;
    assert_eq!(one.expire_approvals(i64::MAX).await.unwrap(), 1, "only q3 has a deadline and is pending");
    assert_eq!(one.approval("b", "q3").await.unwrap().unwrap().decision.as_deref(), Some("timeout"));
    // The hub cannot know what became of a decision that was sent; the word of the host is the last one in both cases.
    write(one, "h", vec![event("sent", 1, "run.permission_requested", &request("q1", "", soon))]).await;
    assert!(decide(one, "sent", "ann").await);
    assert_eq!(one.expire_approvals(i64::MAX).await.unwrap(), 0);
    let sent = one.approval("sent", "q1").await.unwrap().unwrap();
    assert_eq!((sent.status, sent.decision.as_deref()), (ApprovalStatus::Sent, Some("approve")));
    write(one, "h", vec![event("sent", 2, "tool.result", &json!({ "request_id": "q1", "ok": false }))]).await;
    let failed = one.approval("sent", "q1").await.unwrap().unwrap();
    assert_eq!((failed.status, failed.decision.as_deref()), (ApprovalStatus::Decided, Some("approve")));
    let late = json!({ "request_id": "q3", "decision": "approve", "user": "bob" });
    write(one, "h", vec![event("b", 7, "run.permission_decided", &late)]).await;
    let late = one.approval("b", "q3").await.unwrap().unwrap();
    assert_eq!((late.decision.as_deref(), late.decided_by.as_deref()), (Some("approve"), Some("bob")));
    write(one, "h", vec![event("b", 8, "run.exited", &json!({ "exit_code": 0 }))]).await;
    assert_eq!(one.approval("b", "q2").await.unwrap().unwrap().decision.as_deref(), Some("withdrawn"));
    assert!(one.approvals(ApprovalStatus::Pending, None, 10).await.unwrap().is_empty());
}

async fn a_run_waits_for_its_oldest_open_request(store: &Store) {
    let ask = |seq, id: &str, expires: &str| {
        let data = json!({ "request_id": id, "op_tool": "bash", "op_args_summary": id, "approve_text": "", "expires_at": expires });
        event("w", seq, "run.permission_requested", &data)
    };
    let decided = |seq, id: &str| {
        event("w", seq, "run.permission_decided", &json!({ "request_id": id, "decision": "deny" }))
    };
    let waits_for = async |store: &Store| {
        let run = store.run("w").await.unwrap().unwrap();
        assert_eq!(run.status == RunStatus::AwaitingApproval, run.pending.is_some());
        run.pending
            .map(|pending| (pending.seq, pending.request_id.unwrap(), pending.op_args_summary.unwrap()))
    };
    let expected = |seq, id: &str| Some((seq, id.to_owned(), id.to_owned()));
    let soon = "2026-01-01T00:00:10Z";
    write(store, "h", vec![ask(1, "q1", ""), ask(2, "q2", soon), ask(3, "q3", soon)]).await;
    assert_eq!(waits_for(store).await, expected(3, "q3"));
    write(store, "h", vec![decided(4, "q3")]).await;
    assert_eq!(waits_for(store).await, expected(1, "q1"));
    // Asked and decided in one transaction.
    write(store, "h", vec![ask(5, "q5", soon), decided(6, "q5")]).await;
    assert_eq!(waits_for(store).await, expected(1, "q1"));
    write(store, "h", vec![event("w", 7, "run.awaiting_input", &json!({ "reason": "prompt" }))]).await;
    write(store, "h", vec![event("w", 8, "run.continued", &json!({}))]).await;
    assert_eq!(waits_for(store).await, expected(1, "q1"));
    write(store, "h", vec![decided(9, "q1")]).await;
    assert_eq!(waits_for(store).await, expected(2, "q2"));
    write(store, "h", vec![ask(10, "q10", "")]).await;
    write(store, "h", vec![decided(11, "q10")]).await;
    assert_eq!(waits_for(store).await, expected(2, "q2"));
    write(store, "h", vec![ask(12, "q12", "")]).await;
    write(store, "h", vec![ask(13, "q13", soon)]).await;
    store.expire_approvals(i64::MAX).await.unwrap();
    assert_eq!(waits_for(store).await, expected(12, "q12"), "the others are overdue");
    write(store, "h", vec![decided(14, "q12")]).await;
    assert_eq!(waits_for(store).await, None);
}

async fn the_end_of_a_run_withdraws_what_only_its_program_can_answer(store: &Store) {
    let ask = |seq, id: &str, typed: &str| {
        let soon = "2026-01-01T00:00:10Z";
        let data = json!({ "request_id": id, "op_tool": "bash", "approve_text": typed, "expires_at": soon });
        event("e", seq, "run.permission_requested", &data)
    };
    write(store, "h", vec![ask(1, "typed", "y\n"), ask(2, "waits", "")]).await;
    write(store, "h", vec![event("e", 3, "run.exited", &json!({ "exit_code": 0 }))]).await;
    write(store, "h", vec![ask(4, "later", "")]).await;
    let pending = store.approvals(ApprovalStatus::Pending, None, 10).await.unwrap();
    assert_eq!(pending.iter().map(|row| row.request_id.as_str()).collect::<Vec<_>>(), ["later", "waits"]);
    assert_eq!(store.approval("e", "typed").await.unwrap().unwrap().decision.as_deref(), Some("withdrawn"));
    let run = store.run("e").await.unwrap().unwrap();
    assert_eq!((run.status, run.pending), (RunStatus::Exited, None));
    for (seq, id) in [(5, "waits"), (6, "later")] {
        write(store, "h", vec![event("e", seq, "tool.result", &json!({ "request_id": id, "ok": true }))])
            .await;
    }
    assert!(store.approvals(ApprovalStatus::Pending, None, 10).await.unwrap().is_empty());
}

async fn the_audit_is_a_chain(one: &Store, other: &Store) {
    for (store, number) in [(one, 1), (other, 2), (one, 3)] {
        let entry = AuditEntry::new("user:ann", "run.stop", "r").with_detail(format!("{number}\0"));
        store.audit(entry).await.unwrap();
    }
    let entries = one.audit_entries(&AuditQuery { limit: 2, ..Default::default() }).await.unwrap();
    let details: Vec<&str> = entries.iter().map(|entry| entry.detail.as_str()).collect();
    assert_eq!(details, ["3\u{fffd}", "2\u{fffd}"], "newest first");
    let older = AuditQuery { before: Some(entries[1].id), limit: 10, ..Default::default() };
    assert_eq!(one.audit_entries(&older).await.unwrap().len(), 1);
    assert_eq!(one.verify_audit().await.unwrap(), None);
}

async fn ended_runs_are_removed_by_age_and_size(store: &Store) {
    let exit = |run: &str, seq| event(run, seq, "run.exited", &json!({ "exit_code": 0 }));
    let at = async |now_ms, events| {
        let batch = EventBatch { host_id: "h".to_owned(), events };
        store.write_events(&[batch], now_ms).await.unwrap();
    };
    let day = 24 * 3600 * 1000;
    // Seen in time; runs of hosts that were not count as ended.
    store.claim_host("h", TokenDigest::of("t"), (true, None), 10 * day / 1000).await.unwrap();
    let gone = EventBatch { host_id: "gone".to_owned(), events: vec![output("gone-running", 1)] };
    store.write_events(&[gone], day).await.unwrap();
    at(day, vec![output("old", 1), exit("old", 2), output("old-running", 1)]).await;
    at(10 * day, vec![output("new", 1), exit("new", 2)]).await;
    let keep = |bytes| Retention { age_ms: 5 * day, bytes };
    store.remove_old_runs(keep(i64::MAX / 2), 11 * day).await.unwrap();
    assert_eq!((store.run("old").await.unwrap(), seqs(store, "old").await), (None, vec![]));
    assert_eq!((store.run("gone-running").await.unwrap(), seqs(store, "gone-running").await), (None, vec![]));
    assert!(store.run("old-running").await.unwrap().is_some() && store.run("new").await.unwrap().is_some());
    store.remove_old_runs(keep(0), 11 * day).await.unwrap();
    assert_eq!(store.run("new").await.unwrap(), None);
    assert!(store.run("old-running").await.unwrap().is_some(), "a running one is kept");
}

#[tokio::test]
async fn other_users_cannot_read_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("with space?#%");
    let store = Store::open_sqlite(&inside).await.unwrap();
    store.add_token(new_token("a", Secret::random().unwrap().expose())).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&inside), 0o700);
    let files: Vec<_> = std::fs::read_dir(&inside).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() > 2, "the write-ahead log is there too: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    drop(Store::open_sqlite(directory.path()).await.unwrap());
    let url = format!("sqlite://{}", directory.path().join("hub.db").display());
    let pool = sqlx::AnyPool::connect(&url).await.unwrap();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (999, 'newer', TRUE, x'00', 0)";
    sqlx::query(newer).execute(&pool).await.unwrap();
    pool.close().await;
    let refused = Store::open_sqlite(directory.path()).await.unwrap_err().to_string();
    assert!(refused.contains("schema 999") && refused.contains("newer rexhub"), "{refused}");
}
