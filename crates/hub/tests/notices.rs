//! Notices: pushes that only the browser can read, withdrawn once answered; subscriptions that are gone; webhooks.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::time::Duration;

use base64_simd::URL_SAFE_NO_PAD as BASE64;
use hub::auth::UserRole;
use hub::config::Limits;
use serde_json::{Value, json};
use support::Running;
use support::browser::Browser;
use support::peers::{ScriptedHost, app};
use support::push::{BrowserKeys, PushService};
use testkit::daemon::PATIENCE;
use testkit::tries::Tries;
use web_push_native::p256::ecdsa::signature::Verifier as _;
use web_push_native::p256::ecdsa::{Signature, VerifyingKey};

fn start() -> Running {
    let limits = Limits {
        prompt_notice: Duration::ZERO,
        notice_retry: Duration::from_millis(5),
        host_response: PATIENCE,
        ..Limits::default()
    };
    let hub = Running::start_with(limits, |config| config.push_allow_private = true);
    hub.user("olga", UserRole::Operator, "password");
    hub.user("vera", UserRole::Viewer, "password");
    hub.user("ann", UserRole::Admin, "password");
    hub
}

/// A request for permission as `rexd` sends it.
fn requested(request: &str) -> Value {
    json!({
        "request_id": request, "reason": "permission", "prompt": "bash", "op_tool": "bash",
        "op_args_summary": "cmd=rm x", "approve_text": "", "deny_text": "",
    })
}

fn operation(command: &str) -> Value {
    let operation = json!({ "kind": "run", "command": command, "cwd": "/w", "env": {}, "stdin_bytes": 0 });
    json!({ "summary": format!("run: {command}"), "operation": operation, "cwd": "/w" })
}

#[test]
fn a_push_asks_the_person_who_may_answer_and_is_withdrawn_once_answered() {
    let (hub, service) = (start(), PushService::start());
    let (olga, vera) =
        (Browser::sign_in(&hub, "olga", "password"), Browser::sign_in(&hub, "vera", "password"));
    let (keys, other) = (BrowserKeys::new(1), BrowserKeys::new(2));
    let subscribed = olga.post_json("/push/subscriptions", &keys.subscription(&service, "/olga"));
    let again = olga.post_json("/push/subscriptions", &keys.subscription(&service, "/olga"));
    assert_eq!(subscribed, again, "the same browser");
    vera.post_json("/push/subscriptions", &other.subscription(&service, "/vera"));
    // An open socket does not suppress notices.
    let _app = app(&hub, &hub.client("watching", UserRole::Operator));
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.event("r", 2, "run.permission_requested", requested("q"));
    let show = host.socket.next("rpc.approval.show");
    assert_eq!((&show["data"]["approval_id"], &show["data"]["user"]), (&json!("q"), &json!("olga")));
    host.respond(&show, operation("rm x"));

    let mut pushes = [service.next(), service.next()];
    pushes.sort_by(|one, two| one.path.cmp(&two.path));
    let [to_olga, to_vera] = pushes;
    let push = keys.decrypt(&to_olga);
    let expected = json!({
        "kind": "approval", "tag": "approval:r:q", "title": "Approve on h?", "body": "run: rm x\nin /w",
        "url": "/approvals?run=r&request=q", "run_id": "r", "request_id": "q", "host_id": "h", "actions": true,
        "ts": push["ts"],
    });
    assert_eq!((push, to_olga.header("urgency")), (expected, "high"));
    let seen_by_viewer = other.decrypt(&to_vera);
    assert_eq!(
        (&seen_by_viewer["actions"], &seen_by_viewer["body"]),
        (&json!(false), &json!("bash cmd=rm x"))
    );
    assert_eq!(to_olga.header("topic").len(), 32);

    let decision = olga.post("/approvals/r/q", &json!({ "decision": "approve", "actor": "web" }));
    assert_eq!(decision.head.status, 204, "{}", decision.body);
    let mut closes = [service.next(), service.next()];
    closes.sort_by(|one, two| one.path.cmp(&two.path));
    let closed = keys.decrypt(&closes[0]);
    assert_eq!((&closed["kind"], &closed["tag"]), (&json!("close"), &json!("approval:r:q")));
    assert_eq!(closes[0].header("topic"), to_olga.header("topic"), "it replaces one that is not delivered");

    host.event("r", 3, "run.permission_decided", json!({ "request_id": "q", "decision": "approve" }));
    host.event("r", 4, "run.exited", json!({ "exit_code": 2 }));
    let ended = keys.decrypt(&find(&service, "/olga"));
    let expected = ("ended", "Failed on h with status 2", "make", "/runs/r/terminal");
    let text = |member: &str| ended[member].as_str().unwrap().to_owned();
    assert_eq!(
        (text("kind"), text("title"), text("body"), text("url")),
        (expected.0.into(), expected.1.into(), expected.2.into(), expected.3.into())
    );
}

/// An operation that waits in the host can be approved after the end of the program: its notice stays on the screens.
#[test]
fn the_end_of_a_run_withdraws_no_notice_of_an_operation_that_still_waits() {
    let (hub, service) = (start(), PushService::start());
    let (vera, keys) = (Browser::sign_in(&hub, "vera", "password"), BrowserKeys::new(1));
    vera.post_json("/push/subscriptions", &keys.subscription(&service, "/vera"));
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    let mut request = requested("q");
    request["expires_at"] = "2026-01-01T01:00:00Z".into();
    host.event("r", 2, "run.permission_requested", request);
    let next = || keys.decrypt(&service.next())["kind"].as_str().unwrap().to_owned();
    assert_eq!(next(), "approval");
    host.event("r", 3, "run.exited", json!({ "exit_code": 0 }));
    assert_eq!(next(), "ended");
    host.event("r", 4, "run.permission_decided", json!({ "request_id": "q", "decision": "approve" }));
    assert_eq!(next(), "close");
}

/// The next request to a path.
fn find(service: &PushService, path: &str) -> support::push::Delivered {
    loop {
        let delivered = service.next();
        if delivered.path == path {
            return delivered;
        }
    }
}

#[test]
fn a_push_service_can_verify_who_sends() {
    let (hub, service) = (start(), PushService::start());
    let (olga, keys) = (Browser::sign_in(&hub, "olga", "password"), BrowserKeys::new(3));
    olga.post_json("/push/subscriptions", &keys.subscription(&service, "/x"));
    assert_eq!(olga.post("/push/test", &json!({})).head.status, 202);
    let delivered = service.next();
    assert_eq!(keys.decrypt(&delivered)["kind"], "test");
    let authorization = delivered.header("authorization").strip_prefix("vapid t=").unwrap();
    let (token, key) = authorization.split_once(", k=").unwrap();
    assert_eq!(olga.get_json("/push/key")["public_key"], key);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let key = VerifyingKey::from_sec1_bytes(&BASE64.decode_to_vec(key).unwrap()).unwrap();
    let signature = Signature::from_slice(&BASE64.decode_to_vec(signature).unwrap()).unwrap();
    key.verify(signed.as_bytes(), &signature).unwrap();
    let claims = BASE64.decode_to_vec(signed.split_once('.').unwrap().1).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(claims["aud"], format!("http://{}", service.address));
    assert!(
        delivered.header("ttl").parse::<u32>().unwrap() > 0
            && claims["exp"].as_i64().unwrap() > hub::auth::now()
    );
}

#[test]
fn a_prompt_is_announced_and_withdrawn_by_an_answer() {
    let (hub, service) = (start(), PushService::start());
    let (olga, keys) = (Browser::sign_in(&hub, "olga", "password"), BrowserKeys::new(4));
    let mut wanted = keys.subscription(&service, "/x");
    wanted["ends"] = false.into();
    olga.post_json("/push/subscriptions", &wanted);
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.event("r", 2, "run.awaiting_input", json!({ "reason": "prompt", "prompt": "Continue? <b>" }));
    let push = keys.decrypt(&service.next());
    assert_eq!(
        (&push["kind"], &push["tag"], &push["actions"]),
        (&json!("input"), &json!("input:r"), &json!(false))
    );
    assert_eq!(push["body"], "make\nContinue? <b>");
    host.event(
        "r",
        3,
        "run.input",
        json!({ "actor": "web", "input_id": "i", "text_redacted": "y", "text_sha256": "" }),
    );
    assert_eq!(keys.decrypt(&service.next())["kind"], "close");
    // The end of a run was not wanted: the next push is the one of another run.
    host.event("r", 4, "run.exited", json!({ "exit_code": 0 }));
    host.started("s");
    host.event("s", 2, "run.awaiting_input", json!({ "reason": "prompt", "prompt": "?" }));
    assert_eq!(keys.decrypt(&service.next())["tag"], "input:s");
    assert!(service.is_quiet());
}

#[test]
fn a_subscription_that_is_gone_is_removed_and_others_are_tried_again() {
    let (hub, service) = (start(), PushService::start());
    let (olga, keys) = (Browser::sign_in(&hub, "olga", "password"), BrowserKeys::new(5));
    for status in [404, 410] {
        olga.post_json("/push/subscriptions", &keys.subscription(&service, "/gone"));
        service.answer_next(status);
        olga.post("/push/test", &json!({}));
        service.next();
        let mut tries = Tries::within(2 * PATIENCE, "the subscription is removed");
        while olga.get_json("/push/subscriptions") != json!([]) {
            tries.again();
        }
    }
    olga.post_json("/push/subscriptions", &keys.subscription(&service, "/busy"));
    for status in [503, 429] {
        service.answer_next(status);
    }
    olga.post("/push/test", &json!({}));
    for _ in 0..3 {
        assert_eq!(keys.decrypt(&service.next())["kind"], "test");
    }
    let rows = olga.get_json("/push/subscriptions");
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["endpoint_host"]), (1, &json!("127.0.0.1")));
    assert_eq!(olga.delete(&format!("/push/subscriptions/{}", rows[0]["id"])), 204);
    assert_eq!(olga.delete(&format!("/push/subscriptions/{}", rows[0]["id"])), 404);
}

#[test]
fn a_sign_out_everywhere_ends_the_notices_to_all_browsers_of_the_user() {
    let (hub, service) = (start(), PushService::start());
    let (olga, vera) =
        (Browser::sign_in(&hub, "olga", "password"), Browser::sign_in(&hub, "vera", "password"));
    for path in ["/phone", "/desktop"] {
        olga.post_json("/push/subscriptions", &BrowserKeys::new(7).subscription(&service, path));
    }
    vera.post_json("/push/subscriptions", &BrowserKeys::new(8).subscription(&service, "/vera"));
    assert_eq!(olga.post("/auth/logout", &json!({ "everywhere": true })).head.status, 204);
    let again = Browser::sign_in(&hub, "olga", "password");
    assert_eq!(again.get_json("/push/subscriptions"), json!([]));
    assert_eq!(vera.get_json("/push/subscriptions").as_array().unwrap().len(), 1, "those of others stay");
}

#[test]
fn without_the_flag_only_public_addresses_over_tls_are_accepted() {
    let hub = Running::start(Limits::default());
    hub.user("ann", UserRole::Admin, "password");
    let (ann, keys, service) =
        (Browser::sign_in(&hub, "ann", "password"), BrowserKeys::new(6), PushService::start());
    for endpoint in
        ["http://push.example/x", "https://127.0.0.1/x", "https://localhost/x", "https://10.0.0.1/x", "x"]
    {
        let mut wanted = keys.subscription(&service, "/x");
        wanted["endpoint"] = endpoint.into();
        let answer = ann.post("/push/subscriptions", &wanted);
        assert_eq!(answer.head.status, 400, "{endpoint}: {}", answer.body);
        let webhook = json!({ "name": "w", "form": "json", "url": endpoint });
        assert_eq!(ann.post("/webhooks", &webhook).head.status, 400, "{endpoint}");
    }
    let mut wanted = keys.subscription(&service, "/x");
    wanted["endpoint"] = "https://push.example/x".into();
    wanted["keys"]["p256dh"] = "AAAA".into();
    assert_eq!(ann.post("/push/subscriptions", &wanted).head.status, 400);
    let program = hub.client("program", UserRole::Admin);
    assert_eq!(hub.get("/push/subscriptions", &program).head.status, 400, "only users");
}

#[test]
fn webhooks_receive_the_same_notices_in_their_own_form() {
    let (hub, service) = (start(), PushService::start());
    let ann = Browser::sign_in(&hub, "ann", "password");
    let base = format!("http://{}", service.address);
    for (name, form, path, more) in [
        ("plain", "json", "/plain", json!({ "token": "t0ken" })),
        ("topic", "ntfy", "/n/topic", json!({})),
        ("slack", "slack", "/slack/secret", json!({})),
        ("telegram", "telegram", "/botsecret/sendMessage", json!({ "chat_id": "42" })),
    ] {
        let mut new = json!({ "name": name, "form": form, "url": format!("{base}{path}") });
        new.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(ann.post("/webhooks", &new).head.status, 201, "{name}");
        assert_eq!(ann.post("/webhooks", &new).head.status, 409, "{name}");
    }
    let no_chat = json!({ "name": "x", "form": "telegram", "url": format!("{base}/x") });
    assert_eq!(ann.post("/webhooks", &no_chat).head.status, 400);
    let listed = ann.get("/webhooks").body;
    assert!(!listed.contains("secret") && !listed.contains("t0ken"), "{listed}");

    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.event("r", 2, "run.permission_requested", requested("q"));
    let link = format!("http://{}/approvals?run=r&request=q", hub.address);
    for _ in 0..4 {
        let delivered = service.next();
        let body = delivered.json();
        assert!(body.to_string().contains(&link), "{body}");
        match delivered.path.as_str() {
            "/plain" => {
                assert_eq!(
                    (&body["kind"], delivered.header("authorization")),
                    (&json!("approval"), "Bearer t0ken")
                );
            }
            "/n/" => assert_eq!((&body["topic"], &body["click"]), (&json!("topic"), &json!(link))),
            "/slack/secret" => assert_eq!(body["blocks"][0]["text"]["type"], "plain_text"),
            "/botsecret/sendMessage" => {
                assert_eq!((&body["chat_id"], body.get("parse_mode")), (&json!("42"), None));
            }
            other => panic!("{other}"),
        }
    }
    for name in ["plain", "topic", "slack", "telegram"] {
        assert_eq!(ann.delete(&format!("/webhooks/{name}")), 204, "{name}");
    }
    assert_eq!(ann.post("/webhooks/plain/test", &json!({})).head.status, 404);
}
