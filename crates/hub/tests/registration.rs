//! The registration of executors: tickets, tokens, owners, and every error.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::time::Duration;

use hub::config::Limits;
use hub::store::TokenKind;
use support::{Peer, Running, hub_with_tokens};

#[test]
fn an_executor_receives_a_url_and_connects() {
    let (hub, token, _) = hub_with_tokens(Limits::default());
    let url = hub.ticket("build-1", &token);
    let expected = format!("ws://{}/cloud/executor/build-1/rendezvous?ticket=", hub.address);
    assert!(url.starts_with(&expected) && url.len() == expected.len() + 64, "{url}");
    Peer::dial(hub.address, &url, &[]).unwrap();
    // The id is percent-encoded in the URL.
    let (status, answer) = hub.register("%20a%40b%20", Some(&token));
    assert_eq!((status, answer["executor_id"].as_str()), (200, Some("a@b")));
    Peer::dial(hub.address, answer["url"].as_str().unwrap(), &[]).unwrap();
}

#[test]
fn behind_a_proxy_the_public_url_is_returned() {
    let url = Some("https://hub.example.com/rex".parse().unwrap());
    let hub = Running::start_at(Limits::default(), url);
    let url = hub.ticket("e", &hub.token("e", TokenKind::Executor));
    assert!(url.starts_with("wss://hub.example.com/rex/cloud/executor/e/rendezvous?ticket="), "{url}");
}

#[test]
fn rejected_registrations_have_an_error_code() {
    let (hub, executor, harness) = hub_with_tokens(Limits { executors_per_token: 1, ..Limits::default() });
    let other = hub.token("other", TokenKind::Executor);
    hub.ticket("mine", &executor);
    let long = "x".repeat(129);
    for (id, token, expected) in [
        ("mine", None, (401, "no_token")),
        ("mine", Some("wrong"), (401, "unknown_token")),
        ("mine", Some(""), (401, "malformed_token")),
        ("mine", Some(harness.as_str()), (403, "wrong_kind")),
        ("mine", Some(other.as_str()), (403, "not_yours")),
        ("second", Some(executor.as_str()), (403, "too_many_executors")),
        ("%20%09", Some(executor.as_str()), (400, "bad_executor_id")),
        ("a%0Ab", Some(executor.as_str()), (400, "bad_executor_id")),
        ("%FF", Some(executor.as_str()), (400, "bad_executor_id")),
        (long.as_str(), Some(executor.as_str()), (400, "bad_executor_id")),
        ("%2E%2E", Some(executor.as_str()), (400, "bad_executor_id")),
        ("%2e", Some(executor.as_str()), (400, "bad_executor_id")),
        ("%2E%2E%2Fx", Some(executor.as_str()), (400, "bad_executor_id")),
        ("mine%E2%80%8B", Some(executor.as_str()), (400, "bad_executor_id")),
        ("m%D1%96ne", Some(executor.as_str()), (400, "bad_executor_id")),
        ("a/b", Some(executor.as_str()), (404, "not_found")),
    ] {
        let (status, answer) = hub.register(id, token);
        let error = &answer["error"];
        assert_eq!((status, error["code"].as_str().unwrap()), expected, "{id} {answer}");
        assert!(error["message"].as_str().unwrap().len() > 10, "{answer}");
    }
    assert_eq!(hub.ask("/cloud/executor/mine/register", &[], None).head.status, 405);
    assert_eq!(hub.ask("/healthz", &[], None).head.status, 200);
    // Beside the web application.
    assert_eq!(hub.ask("/", &[], None).head.status, 200);
    // The owner's token was removed, so the id is free.
    hub.remove_token("e");
    assert_eq!(hub.register("mine", Some(&executor)).0, 401);
    hub.ticket("mine", &other);
}

/// ARCHITECTURE.md, invariant 62.
#[test]
fn a_ticket_is_valid_once_and_only_for_its_executor() {
    let (hub, token, _) = hub_with_tokens(Limits::default());
    let refused = |url: &str| Peer::dial(hub.address, url, &[]).map(drop).unwrap_err();
    let url = hub.ticket("e", &token);
    assert_eq!(refused(&url.replace("executor/e/", "executor/f/")), (401, "bad_ticket".into()));
    let _connected = Peer::dial(hub.address, &url, &[]).unwrap();
    assert_eq!(refused(&url), (401, "bad_ticket".into()));
    assert_eq!(refused(&format!("{url}x")), (401, "bad_ticket".into()));
    assert_eq!(refused(&url.replace("ticket=", "role=harness&ticket=")), (400, "bad_role".into()));
    assert_eq!(refused(url.split_once('?').unwrap().0), (400, "bad_role".into()));
    // Removing the token invalidates its tickets.
    let url = hub.ticket("e", &token);
    hub.remove_token("e");
    assert_eq!(refused(&url), (401, "bad_ticket".into()));
}

#[test]
fn an_expired_ticket_is_rejected() {
    let (hub, token, _) = hub_with_tokens(Limits { ticket: Duration::ZERO, ..Limits::default() });
    let refused = Peer::dial(hub.address, &hub.ticket("e", &token), &[]).map(drop);
    assert_eq!(refused, Err((401, "bad_ticket".into())));
}

#[test]
fn pages_of_other_sites_are_rejected() {
    let (hub, token, harness) = hub_with_tokens(Limits::default());
    let _executor = hub.executor("e", &token);
    let url = format!("ws://{}/cloud/executor/e/rendezvous?role=harness", hub.address);
    let bearer = format!("Bearer {harness}");
    let dial = |origin: &str| {
        Peer::dial(hub.address, &url, &[("authorization", &bearer), ("origin", origin)]).map(drop)
    };
    assert_eq!(dial("https://evil.example"), Err((403, "foreign_origin".into())));
    assert_eq!(dial("null"), Err((403, "foreign_origin".into())));
    assert_eq!(dial(&format!("http://{}", hub.address)), Ok(()));
    let origin = ["Origin: https://evil.example".to_owned()];
    assert_eq!(hub.ask("/cloud/executor/e/register", &origin, Some(b"")).head.status, 403);
}

#[test]
fn a_request_without_an_upgrade_is_rejected() {
    let (hub, _, _) = hub_with_tokens(Limits::default());
    let answer = hub.ask("/cloud/executor/e/rendezvous?role=harness", &[], None);
    assert_eq!((answer.head.status, answer.head.header("upgrade")), (426, Some("websocket")));
}
