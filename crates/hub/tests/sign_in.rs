//! Signing in and out: errors, throttling, refresh, links, revocation, and what the log contains.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};

use hub::auth::UserRole;
use hub::config::Limits;
use hub::store::FailureLimits;
use rustix::net::{AddressFamily, SocketType};
use serde_json::{Value, json};
use support::Running;
use support::peers::{Envelopes, app, command};
use testkit::daemon::PATIENCE;

fn body(answer: &testkit::http::Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{}", answer.body))
}

#[test]
fn errors_of_the_login_are_those_of_the_document() {
    let hub = Running::start(Limits::default());
    hub.user("ann", UserRole::Viewer, "right");
    let login = |text: &str| hub.ask("/auth/login", &[], Some(text.as_bytes()));
    let wrong = login(r#"{"username":"ann","password":"wrong"}"#);
    assert_eq!((wrong.head.status, wrong.body.as_str()), (401, "invalid credentials"));
    let unknown = login(r#"{"username":"nobody","password":"wrong"}"#);
    assert_eq!((unknown.head.status, unknown.body.as_str()), (401, "invalid credentials"));
    assert_eq!(login(r#"{"username":"ann"}"#).head.status, 422);
    assert_eq!(login("{").head.status, 400);
    assert_eq!(hub.ask("/auth/login", &[], None).head.status, 405);
    let right = login(r#"{"username":"ann","password":"right"}"#);
    assert_eq!((right.head.status, body(&right)["role"].as_str()), (200, Some("viewer")));
    assert_eq!(hub.get("/users", body(&right)["access_token"].as_str().unwrap()).head.status, 403);
}

#[test]
fn a_client_that_refreshes_gets_short_tokens_and_signs_out_everywhere() {
    let hub = Running::start(Limits::default());
    hub.user("ann", UserRole::Operator, "right");
    let (first, other) = (hub.login("ann", "right"), hub.login("ann", "right"));
    let login = json!({ "username": "ann", "password": "right", "refresh": true });
    let signed_in = body(&hub.post("/auth/login", "", &login));
    assert!(signed_in["expires_in"].as_i64().unwrap() <= 3600, "{signed_in}");
    let access = signed_in["access_token"].as_str().unwrap();
    let refresh = json!({ "refresh_token": signed_in["refresh_token"] });
    let mut watching = app(&hub, access);
    let fresh = body(&hub.post("/auth/refresh", "", &refresh));
    let fresh = fresh["access_token"].as_str().unwrap();
    assert_eq!((hub.get("/runs", access).head.status, hub.get("/runs", fresh).head.status), (401, 200));
    // The open connection belongs to the sign-in, which goes on.
    watching.send(&command("no.such.type", "r", json!({})));
    watching.next("app.error");
    assert_eq!(hub.post("/auth/refresh", "", &json!({ "refresh_token": fresh })).head.status, 401);
    assert_eq!(hub.post("/auth/logout", &first, &json!({})).head.status, 204);
    assert_eq!((hub.get("/runs", &first).head.status, hub.get("/runs", &other).head.status), (401, 200));
    assert_eq!(hub.post("/auth/logout", fresh, &json!({ "everywhere": true })).head.status, 204);
    assert_eq!(watching.closed(), 1008, "an open connection ends");
    assert_eq!((hub.get("/runs", fresh).head.status, hub.get("/runs", &other).head.status), (401, 401));
    assert_eq!(hub.post("/auth/refresh", "", &refresh).head.status, 401);
}

#[test]
fn a_token_is_accepted_in_a_header_in_the_query_and_in_the_first_message() {
    let hub = Running::start(Limits::default());
    let token = hub.client("web", UserRole::Viewer);
    let bearer = format!("Bearer {token}");
    let mut app = Envelopes::dial(&hub, "/ws/app", &[("authorization", &bearer)]).unwrap();
    assert_eq!(app.next("app.ready")["data"]["role"], "viewer");
    let mut app = Envelopes::dial(&hub, "/ws/app?auth=message", &[]).unwrap();
    app.send(&json!({ "type": "app.auth", "data": { "token": token } }));
    assert_eq!(app.next("app.ready")["data"]["user"], "web");
    for first in [
        json!({ "type": "app.auth", "data": { "token": "wrong" } }),
        json!({ "type": "run.stop", "run_id": "r" }),
    ] {
        let mut app = Envelopes::dial(&hub, "/ws/app?auth=message", &[]).unwrap();
        app.send(&first);
        assert_eq!(app.closed(), 1008);
    }
    // Removing the token ends its connections.
    let mut app = support::peers::app(&hub, &token);
    hub.remove_token("web");
    assert_eq!(app.closed(), 1008);
}

/// A login from another address of the loopback network.
fn login_from(hub: &Running, from: [u8; 4], name: &str, password: &str) -> u16 {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::new(IpAddr::from(from), 0)).unwrap();
    rustix::net::connect(&socket, &hub.address).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = json!({ "username": name, "password": password }).to_string();
    let (address, length) = (hub.address, body.len());
    let request = format!(
        "POST /auth/login HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_thousand_tries_are_throttled_and_the_user_still_signs_in() {
    let limits = FailureLimits { of_user: 5, of_address: 20, window: 3600 };
    let hub = Running::start(Limits { login_failures: limits, ..Limits::default() });
    hub.user("ann", UserRole::Viewer, "right");
    let (home, attacker) = ([127, 0, 0, 1], [127, 0, 0, 2]);
    assert_eq!(login_from(&hub, home, "ann", "right"), 200);
    // The same statuses for a user that exists and one that does not.
    let tries = |name: &str| -> Vec<u16> {
        (0..500).map(|number| login_from(&hub, attacker, name, &format!("guess {number}"))).collect()
    };
    let (existing, missing) = (tries("ann"), tries("nobody"));
    let expected: Vec<u16> = (0..500).map(|number| if number < limits.of_user { 401 } else { 429 }).collect();
    assert_eq!((&existing, &missing), (&expected, &expected));
    assert_eq!(login_from(&hub, attacker, "ann", "right"), 429, "also with the right password");
    assert_eq!(login_from(&hub, [127, 0, 0, 3], "ann", "right"), 429, "also from another unknown address");
    assert_eq!(login_from(&hub, home, "ann", "right"), 200, "the user signs in from a known address");
    // Another address tries many names.
    let spraying: Vec<u16> =
        (0..25).map(|number| login_from(&hub, [127, 0, 0, 4], &format!("user{number}"), "x")).collect();
    assert_eq!((spraying[0], spraying[24]), (401, 429));
    // At the user's own address, another password or another user is not accepted while throttled.
    assert_eq!(login_from(&hub, home, "ann", "wrong"), 429);
    assert_eq!(login_from(&hub, home, "nobody", "right"), 429);
}

#[test]
fn guesses_from_an_address_where_the_user_signs_in_are_limited_too() {
    let limits = FailureLimits { of_user: 2, of_address: 2, window: 3600 };
    let hub = Running::start(Limits { login_failures: limits, ..Limits::default() });
    hub.user("ann", UserRole::Viewer, "right");
    let home = [127, 0, 0, 1];
    assert_eq!(login_from(&hub, home, "ann", "right"), 200);
    let guess = |number: i64| login_from(&hub, home, "ann", &format!("guess {number}"));
    let limit = limits.at_known_address().of_address;
    assert!((0..limit).map(guess).all(|status| matches!(status, 401 | 429)));
    assert_eq!(login_from(&hub, home, "ann", "right"), 429, "also with the right password");
}
