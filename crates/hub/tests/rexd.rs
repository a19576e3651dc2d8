//! REXD through the hub: streams of users reach the host with the user's name and role.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use hub::auth::UserRole;
use hub::config::Limits;
use serde_json::{Value, json};
use support::peers::ScriptedHost;
use support::{Peer, Running};
use tungstenite::Message;

fn host(hub: &Running) -> Peer {
    let url = format!("ws://{}/ws/host/rexd?host_id=h", hub.address);
    Peer::dial(hub.address, &url, &[("authorization", "Bearer token")]).unwrap()
}

fn client(hub: &Running, host: &str, token: &str) -> Result<Peer, u16> {
    let url = format!("ws://{}/hosts/{host}/rexd", hub.address);
    let bearer = format!("Bearer {token}");
    Peer::dial(hub.address, &url, &[("authorization", &bearer)]).map_err(|(status, _)| status)
}

/// The text frame before the first frame of a stream.
fn announcement(host: &mut Peer) -> Value {
    loop {
        match host.receive() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_host_learns_whose_stream_it_is_before_its_first_frame() {
    let hub = Running::start(Limits::default());
    let (operator, viewer) = (hub.client("ann", UserRole::Operator), hub.client("bob", UserRole::Viewer));
    // The host is enrolled by either of its connections.
    let mut host = host(&hub);
    let (mut one, mut two) = (client(&hub, "h", &operator).unwrap(), client(&hub, "h", &viewer).unwrap());
    one.send("s1", "hello");
    assert_eq!(announcement(&mut host), json!({ "stream_id": "s1", "user": "ann", "role": "operator" }));
    host.expect("s1", "hello");
    two.send("s2", "hello too");
    assert_eq!(announcement(&mut host), json!({ "stream_id": "s2", "user": "bob", "role": "viewer" }));
    host.expect("s2", "hello too");
    one.send("s1", "again");
    host.expect("s1", "again");
    host.send("s2", "answer");
    two.expect("s2", "answer");
    // A client cannot announce a stream itself, nor use that of another.
    two.send_raw(Message::text(r#"{"stream_id":"s3","user":"root","role":"admin"}"#)).unwrap();
    two.send("s1", "mine?");
    assert_eq!(two.reset_next(), "s1");
    two.send("s2", "still");
    host.expect("s2", "still");
    // A removed token is out at once.
    hub.remove_token("ann");
    assert_eq!(one.closed(), 1008);
    assert_eq!(host.reset_next(), "s1");
    assert_eq!(client(&hub, "h", &operator).map(drop), Err(401));
    assert_eq!(client(&hub, "h", "wrong").map(drop), Err(401));
    assert_eq!(client(&hub, "unknown", &viewer).map(drop), Err(404));
}

#[test]
fn a_removed_host_loses_both_connections_and_a_newer_one_replaces_the_older() {
    let hub = Running::start(Limits::default());
    let viewer = hub.client("bob", UserRole::Viewer);
    let mut events = ScriptedHost::connect(&hub, "h");
    // Once it is served, so that the removal ends it.
    events.started("r");
    events.acked("r", 1);
    let (mut old, mut watching) = (host(&hub), client(&hub, "h", &viewer).unwrap());
    let mut new = host(&hub);
    assert_eq!((old.closed(), watching.closed()), (4409, 1012), "clients connect again");
    hub.with_store(async |store| assert!(store.remove_host("h").await.unwrap()));
    assert_eq!((new.closed(), events.socket.closed()), (1008, 1008));
    let other = format!("ws://{}/ws/host/rexd?host_id=h&host_token=", hub.address);
    assert_eq!(Peer::dial(hub.address, &other, &[]).map(drop).unwrap_err().0, 401);
}
