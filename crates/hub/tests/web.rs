//! Browsers: the files of the app and their headers, sign-in by cookie, requests of other sites, and share links.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use hub::auth::{Secret, UserRole, now};
use hub::config::Limits;
use serde_json::{Value, json};
use support::Running;
use support::browser::{Browser, cookie_of, request};
use support::peers::{Envelopes, ScriptedHost, command, output_of};

const HTML: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8";

fn page(hub: &Running, method: &str, path: &str, headers: &[&str]) -> testkit::http::Answer {
    let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
    request(hub, method, path, &headers, None)
}

#[test]
fn the_app_is_served_with_headers_that_confine_it() {
    let hub = Running::start(Limits::default());
    for path in [
        "/",
        "/login",
        "/hosts",
        "/hosts/h",
        "/runs/r/terminal",
        "/approvals",
        "/new",
        "/audit",
        "/settings",
        "/share/x",
    ] {
        let answer = page(&hub, "GET", path, &[HTML]);
        let header = |name: &str| answer.head.header(name).unwrap_or_default().to_owned();
        assert_eq!(
            (answer.head.status, header("content-type").as_str()),
            (200, "text/html; charset=utf-8"),
            "{path}"
        );
        assert_eq!(header("cache-control"), "no-cache");
        let policy = header("content-security-policy");
        assert!(
            policy.contains("script-src 'self';") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe-eval") && !policy.contains("script-src 'self' "), "{policy}");
        assert_eq!(
            (header("x-content-type-options"), header("referrer-policy")),
            ("nosniff".into(), "no-referrer".into())
        );
    }
    // Requests of the API with the same paths are those of the API.
    let api = page(&hub, "GET", "/hosts", &["Accept: application/json"]);
    assert_eq!((api.head.status, api.head.header("cache-control")), (401, Some("no-store")));
    // Addresses that the API does not have are those of the app for every client.
    for path in ["/login", "/new", "/settings", "/share/x"] {
        for accept in ["Accept: */*", "Accept: application/json"] {
            let answer = page(&hub, "GET", path, &[accept]);
            assert_eq!(answer.head.status, 200, "{path}");
            assert_eq!(answer.head.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        }
    }
    // A person who opens an unknown address gets the app, which says so.
    let tag = page(&hub, "GET", "/", &[HTML]).head.header("etag").unwrap().to_owned();
    let unknown = page(&hub, "GET", "/unknown", &[HTML, &format!("If-None-Match: {tag}")]);
    assert_eq!(unknown.head.status, 404);
    assert_eq!(unknown.head.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(unknown.body.contains("/assets/"), "{}", unknown.body);
    assert!(unknown.head.header("content-security-policy").is_some());
    let other = page(&hub, "GET", "/unknown", &["Accept: */*"]);
    assert_eq!((other.head.status, other.head.header("content-type")), (404, Some("application/json")));
    assert_eq!(page(&hub, "GET", "/assets/unknown.js", &[]).head.status, 404);
    assert_eq!(page(&hub, "POST", "/login", &[HTML]).head.status, 404);
}

#[test]
fn files_are_validated_and_those_with_a_hash_are_kept() {
    let hub = Running::start(Limits::default());
    let index = page(&hub, "GET", "/", &[]);
    let tag = index.head.header("etag").unwrap().to_owned();
    let again = page(&hub, "GET", "/", &[&format!("If-None-Match: \"x\", {tag}")]);
    assert_eq!((again.head.status, again.body.as_str()), (304, ""));
    let head = page(&hub, "HEAD", "/", &[]);
    assert_eq!(
        (head.head.status, head.head.header("content-length")),
        (200, index.head.header("content-length"))
    );
    for never_kept in ["/sw.js", "/manifest.webmanifest", "/version.json"] {
        let answer = page(&hub, "GET", never_kept, &[]);
        assert_eq!(
            (answer.head.status, answer.head.header("cache-control")),
            (200, Some("no-cache")),
            "{never_kept}"
        );
    }
    let start = index.body.find("/assets/").unwrap();
    let asset: String = index.body[start..].chars().take_while(|c| *c != '"').collect();
    let answer = page(&hub, "GET", &asset, &[]);
    assert_eq!(answer.head.header("cache-control"), Some("public, max-age=31536000, immutable"), "{asset}");
    let version: Value = serde_json::from_str(&page(&hub, "GET", "/version.json", &[]).body).unwrap();
    let config: Value = serde_json::from_str(&page(&hub, "GET", "/auth/config", &[]).body).unwrap();
    assert_eq!((&config["bundle_version"], &config["ca"]), (&version["version"], &json!(false)));
}

#[test]
fn a_cookie_signs_a_browser_in_until_it_signs_out() {
    let hub = Running::start(Limits::default());
    hub.user("ann", UserRole::Operator, "password");
    let body = json!({ "username": "ann", "password": "password", "cookie": true });
    let answer = request(&hub, "POST", "/auth/login", &[], Some(&body));
    let set = answer.head.header("set-cookie").unwrap();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && !set.contains("Secure"), "{set}");
    let (one, two) = (Browser::sign_in(&hub, "ann", "password"), Browser::sign_in(&hub, "ann", "password"));
    let me = one.get("/auth/me");
    assert_eq!(cookie_of(&me), one.cookie, "the cookie is prolonged");
    let me: Value = serde_json::from_str(&me.body).unwrap();
    assert_eq!((&me["user"], &me["role"], &me["kind"]), (&json!("ann"), &json!("operator"), &json!("user")));
    let origin = format!("http://{}", hub.address);
    let mut socket = one.socket(Some(&origin)).unwrap();
    let ready = socket.next("app.ready");
    assert_eq!(ready["data"]["bundle_version"], me["bundle_version"]);
    socket.send(&json!({ "type": "app.ping" }));
    socket.next("app.pong");
    let answer = one.post("/auth/logout", &json!({}));
    assert_eq!(answer.head.status, 204);
    assert!(answer.head.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!((socket.closed(), one.get("/auth/me").head.status), (1008, 401));
    assert_eq!(two.get("/auth/me").head.status, 200, "only here");
    let three = Browser::sign_in(&hub, "ann", "password");
    assert_eq!(three.post("/auth/logout", &json!({ "everywhere": true })).head.status, 204);
    assert_eq!(two.get("/auth/me").head.status, 401, "everywhere");
}

#[test]
fn a_link_signs_in_once_and_only_in_time() {
    let hub = Running::start(Limits::default());
    hub.user("ann", UserRole::Viewer, "password");
    let code = |ends: i64| {
        let secret = Secret::random().unwrap();
        hub.with_store(async |store| {
            let user = store.user("ann").await.unwrap().unwrap();
            store.add_sign_in_link(user.id, secret.digest(), ends).await.unwrap();
        });
        secret.expose().to_owned()
    };
    let (fresh, expired) = (code(now() + 60), code(now() - 1));
    let open =
        |code: &str| request(&hub, "POST", "/auth/link", &[], Some(&json!({ "code": code, "cookie": true })));
    let answer = open(&fresh);
    assert_eq!(answer.head.status, 200, "{}", answer.body);
    assert!(cookie_of(&answer).len() > 40 && !answer.body.contains("token"));
    for code in [&fresh, &expired, "x"] {
        let answer = open(code);
        assert_eq!((answer.head.status, answer.head.header("set-cookie")), (401, None), "{}", answer.body);
    }
}

#[test]
fn pages_of_other_sites_can_neither_read_nor_post_nor_open_a_socket() {
    let hub = Running::start(Limits::default());
    hub.user("ann", UserRole::Admin, "password");
    let browser = Browser::sign_in(&hub, "ann", "password");
    let (cookie, own) = (format!("Cookie: {}", browser.cookie), format!("Origin: http://{}", hub.address));
    let ask = |method: &str, headers: &[&str]| {
        let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
        let body = json!({});
        let body = (method == "POST").then_some(&body);
        request(&hub, method, if method == "POST" { "/join-codes" } else { "/auth/me" }, &headers, body)
            .head
            .status
    };
    for headers in [
        vec![cookie.as_str(), "Origin: https://evil.example"],
        vec![&cookie, "Origin: null"],
        vec![&cookie, "Sec-Fetch-Site: cross-site"],
        vec![&cookie, "Sec-Fetch-Site: same-site"],
        vec![&cookie, &own, "Sec-Fetch-Site: cross-site"],
    ] {
        assert_eq!((ask("GET", &headers), ask("POST", &headers)), (403, 403), "{headers:?}");
    }
    assert_eq!(ask("POST", &[&cookie]), 403, "a change needs proof of its origin");
    assert_eq!(ask("POST", &[&cookie, &own]), 200);
    assert_eq!(ask("GET", &[&cookie]), 200);
    for origin in [Some("https://evil.example"), Some("null"), None] {
        assert_eq!(browser.socket(origin).err().map(|(status, _)| status), Some(403), "{origin:?}");
    }
    // No response permits other sites to read it.
    let answer = browser.get("/auth/me");
    assert!(!answer.head.headers.iter().any(|(name, _)| name.starts_with("access-control")));
}

#[test]
fn a_viewer_cannot_change_anything() {
    let hub = Running::start(Limits::default());
    hub.user("vera", UserRole::Viewer, "password");
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.acked("r", 1);
    let viewer = Browser::sign_in(&hub, "vera", "password");
    assert_eq!(viewer.get_json("/runs/r")["command"], "make");
    for (path, body) in [
        ("/runs/r/share", json!({})),
        ("/runs/r/input", json!({ "input_id": "i", "text": "x" })),
        ("/approvals/r/q", json!({ "decision": "approve" })),
        ("/webhooks", json!({ "name": "w", "form": "json", "url": "https://hook.example/" })),
        ("/join-codes", json!({})),
    ] {
        assert_eq!(viewer.post(path, &body).head.status, 403, "{path}");
    }
    for path in ["/audit", "/audit/export", "/webhooks", "/users", "/tokens", "/runs/r/shares"] {
        assert_eq!(viewer.get(path).head.status, 403, "{path}");
    }
    assert_eq!((viewer.delete("/shares/1"), viewer.delete("/hosts/h")), (403, 403));
}

/// The viewer of a link on `/ws/app`.
fn share_socket(hub: &Running, token: &str) -> Envelopes {
    let mut socket = Envelopes::dial(hub, "/ws/app?auth=message", &[]).unwrap();
    socket.send(&json!({ "type": "app.auth", "data": { "token": token } }));
    socket
}

/// What the viewer of a link to the run `r` may request.
fn http_is_confined(hub: &Running, token: &str) {
    let me = hub.get_json("/auth/me", token);
    assert_eq!((&me["kind"], &me["role"], &me["run_id"]), (&json!("share"), &json!("viewer"), &json!("r")));
    assert_eq!(hub.get_json("/runs/r", token)["id"], "r");
    assert_eq!(hub.get_json("/runs/r/messages", token).as_array().unwrap().len(), 2);
    for path in [
        "/runs",
        "/runs/other",
        "/runs/other/messages",
        "/sessions/r",
        "/hosts",
        "/approvals",
        "/runs/r/shares",
        "/me",
        "/push/key",
    ] {
        assert_eq!(hub.get(path, token).head.status, 403, "{path}");
    }
    assert_eq!(hub.post("/runs/r/input", token, &json!({ "input_id": "i", "text": "x" })).head.status, 403);
    assert_eq!(hub.get("/ws/app", token).head.status, 401, "only by message, which no log shows");
    assert_eq!(Envelopes::dial(hub, &format!("/hosts/h/rexd?token={token}"), &[]).err().unwrap().0, 401);
}

#[test]
fn a_share_link_reaches_its_run_alone_until_it_is_removed() {
    let hub = Running::start(Limits::default());
    hub.user("olga", UserRole::Operator, "password");
    let browser = Browser::sign_in(&hub, "olga", "password");
    let mut host = ScriptedHost::connect(&hub, "h");
    for run in ["r", "other"] {
        host.started(run);
        host.output(run, 2);
        host.event(run, 3, "run.awaiting_input", json!({ "reason": "prompt", "prompt": "?" }));
        host.acked(run, 3);
    }
    let share = browser.post_json("/runs/r/share", &json!({ "expires_in": 600 }));
    let token = share["token"].as_str().unwrap();
    assert_eq!(share["url"], format!("http://{}/share/{token}", hub.address));
    assert_eq!(browser.post("/runs/r/share", &json!({ "expires_in": 1 })).head.status, 400);
    assert_eq!(browser.post("/runs/unknown/share", &json!({})).head.status, 404);

    http_is_confined(&hub, token);
    let mut socket = share_socket(&hub, token);
    socket.next("app.ready");
    for refused in [
        command("run.subscribe", "other", json!({ "after_seq": 0 })),
        command("run.send_input", "r", json!({ "input_id": "i", "text": "x" })),
        command("run.stop", "r", json!({})),
        command("rpc.fs.read", "r", json!({ "request_id": "1", "path": "x" })),
        command("rpc.run.screen", "other", json!({ "request_id": "2" })),
    ] {
        socket.send(&refused);
        let is_rpc = refused["type"].as_str().unwrap().starts_with("rpc.");
        let answer = socket.next(if is_rpc { "rpc.response" } else { "app.error" });
        assert!(answer.to_string().contains("this link only shows one run"), "{answer}");
    }
    socket.send(&command("run.subscribe", "r", json!({ "after_seq": 0 })));
    // Handled before the next event: that would otherwise arrive before the stored ones.
    socket.send(&json!({ "type": "app.ping" }));
    socket.next("app.pong");
    host.output("other", 4);
    host.output("r", 4);
    let seen = socket.until(|message| message["seq"] == 4);
    assert_eq!(output_of(&seen), [2, 4]);
    assert!(seen.iter().all(|message| message["run_id"] != "other"), "{seen:#?}");

    let listed = browser.get_json("/runs/r/shares");
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["created_by"]), (1, &json!("user:olga")));
    assert!(!listed.to_string().contains(token));
    assert_eq!(browser.delete(&format!("/shares/{}", share["id"])), 204);
    assert_eq!(browser.delete(&format!("/shares/{}", share["id"])), 404);
    assert_eq!((socket.closed(), hub.get("/auth/me", token).head.status), (1008, 401));
    assert_eq!(share_socket(&hub, token).closed(), 1008);
}

#[test]
fn an_expired_share_link_is_worth_nothing() {
    let hub = Running::start(Limits::default());
    let secret = Secret::random().unwrap();
    hub.with_store(async |store| {
        let new = hub::store::NewShare {
            digest: secret.digest(),
            run_id: "r",
            created_by: "user:x",
            now: now() - 100,
            ends: now() - 1,
        };
        store.add_share(new, 9).await.unwrap().unwrap();
    });
    assert_eq!(hub.get("/auth/me", secret.expose()).head.status, 401);
    assert_eq!(share_socket(&hub, secret.expose()).closed(), 1008);
}

#[test]
fn the_audit_is_filtered_and_exported() {
    let hub = Running::start(Limits::default());
    hub.user("ann", UserRole::Admin, "password");
    let browser = Browser::sign_in(&hub, "ann", "password");
    browser.post_json("/join-codes", &json!({}));
    let rows = browser.get_json("/audit?actor=ann&action=join_code");
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["action"]), (1, &json!("join_code.add")));
    assert_eq!(browser.get("/audit?since=yesterday").head.status, 400);
    let csv = browser.get("/audit/export?format=csv&action=join_code");
    assert_eq!(csv.head.header("content-disposition"), Some("attachment; filename=\"audit.csv\""));
    let lines: Vec<&str> = csv.body.lines().collect();
    assert!(lines.len() == 2 && lines[1].contains("\"user:ann\",\"join_code.add\""), "{lines:?}");
    let lines = browser.get("/audit/export").body;
    assert!(
        lines.lines().count() >= 3 && lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok())
    );
    assert_eq!(browser.get("/audit/export?format=pdf").head.status, 400);
}

#[test]
fn the_first_decision_is_announced_and_a_later_one_is_told_whose_it_was() {
    let hub = Running::start(Limits::default());
    let (ann, olga) = (hub.client("ann", UserRole::Operator), hub.client("olga", UserRole::Operator));
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.event(
        "r",
        2,
        "run.permission_requested",
        json!({ "request_id": "q", "approve_text": "", "deny_text": "" }),
    );
    host.acked("r", 2);
    let mut app = support::peers::app(&hub, &olga);
    let deny = json!({ "decision": "deny", "reason": "not on Friday" });
    assert_eq!(hub.post("/approvals/r/q", &ann, &deny).head.status, 204);
    let announced = app.next("approval.decision");
    assert_eq!((&announced["run_id"], &announced["host_id"]), (&json!("r"), &json!("h")));
    let expected = json!({ "request_id": "q", "decision": "deny", "user": "ann", "reason": "not on Friday" });
    assert_eq!(announced["data"], expected);
    let sent = host.socket.next("run.permission.deny");
    assert_eq!(sent["data"]["reason"], "not on Friday", "it reaches the host");
    let late = hub.post("/approvals/r/q", &olga, &json!({ "decision": "approve" }));
    assert_eq!((late.head.status, late.body.as_str()), (409, "already decided by ann: deny"));
}

#[test]
fn the_own_authority_is_offered_to_browsers() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    std::fs::write(&file, "-----BEGIN CERTIFICATE-----\n").unwrap();
    let hub = Running::start_with(Limits::default(), |config| config.authority = Some(file));
    let answer = page(&hub, "GET", "/ca.crt", &[]);
    assert_eq!(answer.head.header("content-type"), Some("application/x-x509-ca-cert"));
    assert!(answer.body.starts_with("-----BEGIN CERTIFICATE-----"));
    assert!(page(&hub, "GET", "/auth/config", &[]).body.contains("\"ca\":true"));
    assert_eq!(page(&Running::start(Limits::default()), "GET", "/ca.crt", &[]).head.status, 404);
}
