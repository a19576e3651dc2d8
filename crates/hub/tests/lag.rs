//! Apps that do not keep up, gaps in the events of a run, and what one client can occupy.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::time::Duration;

use hub::auth::UserRole;
use hub::config::Limits;
use hub::store::FailureLimits;
use serde_json::{Value, json};
use support::Running;
use support::peers::{Envelopes, ScriptedHost, app, command, output_of};

/// The numbers of the events among messages.
fn seqs(messages: &[Value]) -> Vec<i64> {
    messages.iter().filter_map(|message| message["seq"].as_i64()).collect()
}

/// More than an app's queue and the buffers of its socket hold.
#[test]
fn an_app_that_lagged_is_told_and_its_subscriptions_have_no_gap() {
    // The apps read nothing, and answer no ping, until everything is sent.
    let hub = Running::start(Limits { silence: Duration::from_secs(3600), ..Limits::default() });
    let token = hub.client("v", UserRole::Viewer);
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.acked("r", 1);
    let mut plain = app(&hub, &token);
    let subscribe = |data: Value| -> Envelopes {
        let mut app = app(&hub, &token);
        app.send(&command("run.subscribe", "r", data));
        app.next("run.started");
        app
    };
    let mut full = subscribe(json!({ "after_seq": 0 }));
    let mut without_output = subscribe(json!({ "after_seq": 0, "include_output": false }));
    let (total, padding) = (24_000, "x".repeat(2000));
    for seq in 2..=total {
        // Every other event is no output.
        let (kind, data) = match seq % 2 {
            0 => ("run.metadata", json!({ "padding": padding })),
            _ => ("run.output", json!({ "stream": "stdout", "text": padding })),
        };
        host.event("r", seq, kind, data);
        if seq % 500 == 0 {
            host.acked("r", seq);
        }
    }
    let is_last = |message: &Value| message["seq"] == total;
    let seen = full.until(is_last);
    assert_eq!(seqs(&seen), (2..=total).collect::<Vec<_>>());
    let resyncs: Vec<_> = seen.iter().filter(|message| message["type"] == "app.resync").collect();
    assert!(!resyncs.is_empty() && resyncs[0]["data"]["dropped"].as_u64() > Some(0), "{resyncs:?}");
    let seen = without_output.until(is_last);
    assert_eq!(seqs(&seen), (2..=total).filter(|seq| seq % 2 == 0).collect::<Vec<_>>());
    // An app without a position learns how much it has missed, and can read it over HTTP.
    let resync = plain.next("app.resync");
    assert!(resync["data"]["dropped"].as_u64() > Some(0), "{resync}");
}

#[test]
fn events_behind_a_gap_are_shown_after_a_while_and_messages_are_in_the_order_of_the_run() {
    let hub = Running::start(Limits { gap: Duration::ZERO, ..Limits::default() });
    let token = hub.client("v", UserRole::Viewer);
    let (mut host, mut app) = (ScriptedHost::connect(&hub, "h"), app(&hub, &token));
    host.started("r");
    host.output("r", 3);
    host.event("r", 4, "run.exited", json!({ "exit_code": 7 }));
    host.acked("r", 1);
    // No further event arrives.
    let seen = app.until(|message| message["type"] == "run.exited");
    assert_eq!(seqs(&seen), [1, 3, 4]);
    assert_eq!(hub.get_json("/runs/r", &token)["last_seq"], 1, "the gap is not acknowledged");
    host.output("r", 2);
    host.acked("r", 4);
    let messages = hub.get_json("/runs/r/messages", &token);
    assert_eq!(seqs(messages.as_array().unwrap()), [1, 2, 3, 4]);
    // A page before the last one, in the order of the run and not of the arrival.
    let last = &messages[3]["id"];
    let page = hub.get_json(&format!("/runs/r/messages?limit=2&before_id={last}"), &token);
    assert_eq!(seqs(page.as_array().unwrap()), [2, 3]);
    let first = &page[0]["id"];
    let page = hub.get_json(&format!("/runs/r/messages?limit=2&before_id={first}"), &token);
    assert_eq!(seqs(page.as_array().unwrap()), [1]);
}

/// Requests that a host does not answer occupy nothing of other clients, and nothing after their client has gone.
#[test]
fn unanswered_requests_of_one_app_do_not_affect_others() {
    let hub = Running::start(Limits::default());
    let token = hub.client("v", UserRole::Viewer);
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.acked("r", 1);
    let read =
        |id: usize| command("rpc.fs.read", "r", json!({ "request_id": format!("q{id}"), "path": "x" }));
    let mut greedy = app(&hub, &token);
    for id in 0..1024 {
        greedy.send(&read(id));
        host.socket.next("rpc.fs.read");
    }
    greedy.send(&read(1024));
    let refused = greedy.next("rpc.response");
    assert_eq!(refused["data"]["request_id"], "q1024");
    assert!(refused["data"]["error"].as_str().unwrap().starts_with("too many requests"), "{refused}");
    // A repeated request is not a further one, and its response arrives once.
    greedy.send(&read(0));
    let request = host.socket.next("rpc.fs.read");
    let mut other = app(&hub, &token);
    other.send(&read(2000));
    let others = host.socket.next("rpc.fs.read");
    host.respond(&others, json!({ "content": "for the other" }));
    assert_eq!(other.next("rpc.response")["data"]["result"]["content"], "for the other");
    host.respond(&request, json!({ "content": "first" }));
    assert_eq!(greedy.next("rpc.response")["data"]["result"]["content"], "first");
    greedy.send(&read(1024));
    host.socket.next("rpc.fs.read");
    // The responses of a client that has gone reach nobody.
    assert_eq!(greedy.close(), 1000);
    host.respond(&request, json!({ "content": "late" }));
    other.send(&read(2001));
    let others = host.socket.next("rpc.fs.read");
    host.respond(&others, json!({}));
    assert_eq!(other.next("rpc.response")["data"]["request_id"], "q2001");
}

/// Attempts at the same time are counted before their passwords are checked.
#[test]
fn parallel_guesses_are_throttled_like_others() {
    let failures = FailureLimits { of_user: 5, of_address: 1000, window: 3600 };
    let hub = Running::start(Limits { login_failures: failures, ..Limits::default() });
    hub.user("ann", UserRole::Viewer, "right");
    let guess = |number: usize| json!({ "username": "ann", "password": format!("guess {number}") });
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let hub = &hub;
        let tries: Vec<_> = (0..40)
            .map(|number| scope.spawn(move || hub.post("/auth/login", "", &guess(number)).head.status))
            .collect();
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((count(401), count(429)), (5, 35), "{statuses:?}");
}

/// Output of a host is not sent twice to an app that subscribes while it arrives.
#[test]
fn a_subscription_in_the_middle_of_output_has_no_gap_and_no_repeat() {
    let hub = Running::start(Limits::default());
    let token = hub.client("v", UserRole::Viewer);
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.acked("r", 1);
    let total = 2000;
    let mut apps = Vec::new();
    for seq in 2..=total {
        host.output("r", seq);
        if seq % 400 == 0 {
            let mut app = app(&hub, &token);
            app.send(&command("run.subscribe", "r", json!({ "after_seq": seq / 2 })));
            apps.push((app, seq / 2));
        }
    }
    for (mut app, after) in apps {
        // What arrived before the subscription was for an app that receives everything.
        let seen = output_of(&app.until(|message| message["seq"] == total));
        let from = seen.iter().rposition(|seq| *seq == after + 1).unwrap();
        let live: Vec<i64> = seen[..from].to_vec();
        assert_eq!(seen[from..], (after + 1..=total).collect::<Vec<_>>(), "before: {live:?}");
    }
}
