//! Two nodes on one PostgreSQL: what one stores, the other shows; leases, tickets, throttling and removals hold on both.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::sync::Arc;

use hub::auth::UserRole;
use hub::config::{Limits, Storage};
use hub::store::{FailureLimits, TokenKind};
use hub::wakeups::{LocalWakeups, Wakeups};
use serde_json::{Value, json};
use support::peers::{Envelopes, ScriptedHost, app, command, output_of};
use support::postgres::Postgres;
use support::{Peer, Running};

/// Two nodes; the database ends with the last value.
fn two_nodes(limits: &Limits) -> (Running, Running, Postgres) {
    let postgres = Postgres::start();
    let database = postgres.database();
    let wakeups: Arc<dyn Wakeups> = Arc::new(LocalWakeups::default());
    let node = || {
        let url = postgres.url(&database);
        Running::start_node(limits.clone(), wakeups.clone(), |config| config.storage = Storage::Database(url))
    };
    (node(), node(), postgres)
}

/// Waits until the hub has handled a subscription: before, it sends new events, and then again as stored ones.
fn settle(app: &mut Envelopes) {
    app.send(&json!({ "type": "app.ping" }));
    app.next("app.pong");
}

#[test]
fn a_second_node_shows_events_and_hosts_and_ends_what_was_removed() {
    let (one, two, _postgres) = two_nodes(&Limits::default());
    let (viewer, admin) = (one.client("v", UserRole::Viewer), one.client("a", UserRole::Admin));
    let (mut all, mut subscribed) = (app(&two, &viewer), app(&two, &viewer));
    let mut host = ScriptedHost::connect(&one, "h");
    assert_eq!(all.next("host.online")["host_id"], "h");
    host.started("r");
    host.acked("r", 1);
    subscribed.send(&command("run.subscribe", "r", json!({ "after_seq": 0 })));
    settle(&mut subscribed);
    for seq in 2..=40 {
        host.output("r", seq);
    }
    host.event("r", 41, "run.exited", json!({ "exit_code": 0 }));
    for app in [&mut all, &mut subscribed] {
        let seen = app.until(|message| message["type"] == "run.exited");
        assert_eq!(output_of(&seen), (2..=40).collect::<Vec<_>>(), "each event once and in order");
    }

    // The host moves to the other node: the older connection ends and changes nothing.
    let mut moved = ScriptedHost::connect(&two, "h");
    assert_eq!(host.socket.closed(), 4409);
    moved.output("r", 42);
    moved.acked("r", 42);
    assert_eq!(one.get_json("/hosts", &viewer)[0]["online"], true);
    let seen = all.until(|message| message["seq"] == 42);
    assert!(seen.iter().all(|message| message["type"] != "host.offline"), "{seen:#?}");
    let mut other = app(&one, &viewer);
    moved.output("r", 43);
    assert_eq!(other.next("run.output")["seq"], 43, "the first node shows what the second one stored");
    drop(moved);
    other.next("host.offline");

    // Removed through one node, out at the other one.
    let removed = one.request("DELETE", "/tokens/v", &admin, None);
    assert_eq!(removed.0, 204, "{}", removed.1);
    assert_eq!((all.closed(), subscribed.closed(), other.closed()), (1008, 1008, 1008));
    assert_eq!(two.get("/runs", &viewer).head.status, 401);
}

#[test]
fn tickets_and_failed_logins_count_on_every_node() {
    let failures = FailureLimits { of_user: 4, of_address: 100, window: 3600 };
    let (one, two, _postgres) = two_nodes(&Limits { login_failures: failures, ..Limits::default() });
    let token = one.token("e", TokenKind::Executor);
    let url = one.ticket("build", &token);
    let at_two = url.replace(&one.address.to_string(), &two.address.to_string());
    let _executor = Peer::dial(two.address, &at_two, &[]).unwrap();
    assert_eq!(Peer::dial(one.address, &url, &[]).map(drop), Err((401, "bad_ticket".into())), "it was used");

    one.user("ann", UserRole::Viewer, "right");
    let guess = json!({ "username": "ann", "password": "wrong" });
    let tries: Vec<u16> = [&one, &two, &one, &two, &one, &two]
        .map(|node| node.post("/auth/login", "", &guess).head.status)
        .to_vec();
    assert_eq!(tries, [401, 401, 401, 401, 429, 429]);
}

/// Wake-ups that are lost delay nothing for good: positions are compared with the store.
#[test]
fn a_node_that_missed_wake_ups_compares_with_the_store() {
    let (one, two, _postgres) = two_nodes(&Limits::default());
    let viewer = one.client("v", UserRole::Viewer);
    let mut host = ScriptedHost::connect(&one, "h");
    host.started("r");
    host.acked("r", 1);
    let mut app = app(&two, &viewer);
    app.send(&command("run.subscribe", "r", json!({ "after_seq": 0 })));
    assert_eq!(app.next("run.started")["seq"], 1);
    settle(&mut app);
    // More wake-ups than wait for a subscriber; the last event is awaited, however many were missed.
    for seq in 2..=6000 {
        host.output("r", seq);
    }
    let mut seen = Vec::new();
    let is_last = |message: &Value| message["seq"] == 6000;
    seen.extend(output_of(&app.until(is_last)));
    assert_eq!(seen, (2..=6000).collect::<Vec<_>>());
}
