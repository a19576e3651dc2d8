//! `/session close`: what is forgotten, and what stays.

use std::time::Instant;

use serde_json::json;
use testkit::proc::watch;
use testkit::sandbox::Sandbox;

use crate::support::{PATIENCE, start};

#[test]
fn a_closed_session_loses_its_state_and_keeps_its_entry() {
    let sandbox = Sandbox::new();
    sandbox.write("root/page.md", "# Page\n");
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    let shell: i32 = {
        let reply = client.exec("bash:a", "kept=1; echo $$");
        reply.body().lines().last().unwrap().parse().unwrap()
    };
    assert_eq!(client.exec("file:b", "/open page.md").head["meta"]["title"], json!(null));
    client.exec("file:b", "/set x = 1");
    let created = |client: &mut crate::support::StringdClient| {
        let sessions = client.get("/sessions");
        let items = sessions["sessions"].as_array().unwrap().clone();
        items.iter().map(|item| (item["topic"].clone(), item["created"].clone())).collect::<Vec<_>>()
    };
    let before = created(&mut client);
    assert_eq!(client.exec("file:b", "/session close bash:a").body(), "Closed session: bash:a");
    assert!(watch(shell).ends_before(Instant::now() + PATIENCE), "its shell is left");
    assert_eq!(client.exec("file:b", "/session").body(), "sessions:\n* file:b");
    assert!(client.exec("bash:a", "echo [$kept]").body().ends_with("\n[]"), "a new shell");
    let closed = client.exec("file:b", "/session close");
    assert_eq!((closed.body(), &closed.head["meta"]), ("Closed session: file:b", &json!(null)));
    assert_eq!(client.get("/sessions?user_id=u")["sessions"][1]["doc"], json!(null));
    assert_eq!(client.exec("file:b", "/set").body(), "No variables set.");
    assert_eq!(created(&mut client), before, "the entries are the same ones");
}
