//! The queue of a topic: order, limits, clients that leave, and topics beside each other.

use serde_json::json;
use testkit::sandbox::Sandbox;
use testkit::tries::Tries;

use crate::support::{PATIENCE, Served, StringdClient, start};

/// A topic whose running command ends when something is written to `gate`.
fn blocked(served: &Served, sandbox: &Sandbox) -> StringdClient {
    let mut client = served.user(&sandbox.root());
    assert_eq!(client.exec("bash:q", "mkfifo gate other; echo start > order").head["ok"], true);
    client.begin("bash:q", "cat gate");
    status(served, |item| item["executing"] == true);
    client
}

/// Waits until the item of the topic `bash:q` has a property.
fn status(served: &Served, is_reached: impl Fn(&serde_json::Value) -> bool) {
    topic_status(served, "bash:q", is_reached);
}

/// Waits until the item of a topic has a property.
pub(crate) fn topic_status(served: &Served, topic: &str, is_reached: impl Fn(&serde_json::Value) -> bool) {
    let mut client = served.client();
    let mut tries = Tries::within(PATIENCE, "the state of the topic");
    loop {
        let sessions = client.get("/sessions");
        let items = sessions["sessions"].as_array().unwrap();
        if items.iter().any(|item| item["topic"] == topic && is_reached(item)) {
            return;
        }
        tries.again();
    }
}

fn open_gate(sandbox: &Sandbox) {
    // Opening for writing waits for the reader.
    std::fs::write(sandbox.path("root/gate"), "open\n").unwrap();
}

/// A waiting command, in the queue when this returns.
fn queued(served: &Served, position: usize, cmd: &str) -> StringdClient {
    let mut client = served.client();
    client.begin("bash:q", cmd);
    status(served, |item| item["queue_length"] == position);
    client
}

#[test]
fn sixteen_commands_wait_in_order_and_one_more_is_refused() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut running = blocked(&served, &sandbox);
    let mut waiting: Vec<StringdClient> =
        (1..=16).map(|number| queued(&served, number, &format!("echo {number} >> order"))).collect();
    let mut refused = served.client();
    refused.begin("bash:q", "true");
    let (head, body) = refused.answer();
    assert_eq!(head.status, 429);
    let message = "Topic u:bash:q has 16 commands queued. Try again later.";
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&body).unwrap(),
        json!({ "error": "QUEUE_FULL", "message": message })
    );
    // The seventh leaves, and its place is free for another.
    drop(waiting.remove(6));
    status(&served, |item| item["queue_length"] == 15);
    waiting.push(queued(&served, 16, "echo 17 >> order"));
    assert_eq!(
        served.client_of("u").exec("bash:p", "echo beside").head["ok"],
        true,
        "another topic is not delayed"
    );
    open_gate(&sandbox);
    assert_eq!(running.reply().head["ok"], true);
    for client in &mut waiting {
        assert_eq!(client.reply().head["ok"], true);
    }
    let order: Vec<String> = sandbox.read("root/order").lines().map(str::to_owned).collect();
    let expected: Vec<String> = std::iter::once("start".to_owned())
        .chain((1..=17).filter(|number| *number != 7).map(|number| number.to_string()))
        .collect();
    assert_eq!(order, expected);
}

#[test]
fn a_command_that_waits_too_long_is_refused_and_runs_never() {
    let sandbox = Sandbox::with_config("[stringd]\nqueue_wait_ms = 2000\nqueue_size = 1\n");
    let served = start(&sandbox);
    let mut running = blocked(&served, &sandbox);
    let mut late = served.client();
    late.begin("bash:q", "echo late >> order");
    let (head, body) = late.answer();
    assert_eq!(head.status, 504);
    let expected = json!({ "error": "QUEUE_TIMEOUT", "message": "Timed out waiting in queue." });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap(), expected);
    open_gate(&sandbox);
    assert_eq!(running.reply().head["ok"], true);
    assert_eq!(running.exec("bash:q", "cat order").body().lines().last(), Some("start"));
}

#[test]
fn a_running_command_completes_without_its_client() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut running = served.user(&sandbox.root());
    running.exec("bash:q", "mkfifo gate");
    running.begin("bash:q", "cat gate; echo done > result");
    status(&served, |item| item["executing"] == true);
    drop(running);
    open_gate(&sandbox);
    status(&served, |item| item["executing"] == false);
    assert_eq!(sandbox.read("root/result"), "done\n");
}

#[test]
fn deleting_a_session_ends_its_running_command() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut running = blocked(&served, &sandbox);
    let mut waiting = queued(&served, 1, "echo waits");
    assert_eq!(served.client().request("DELETE", "/sessions/u/bash:q", b"").1["deleted"], true);
    assert_ne!(running.reply().code(), "", "the shell was ended");
    let reply = waiting.reply();
    assert!(reply.content.contains("the session was deleted"), "{reply:?}");
    assert_eq!(served.client_of("u").exec("bash:q", "echo new").head["ok"], true);
}

#[test]
fn a_command_of_a_document_finishes_after_its_session_or_user_was_deleted() {
    for path in ["/sessions/u/file:q", "/users/u"] {
        let sandbox = Sandbox::new();
        let served = start(&sandbox);
        let mut running = served.user(&sandbox.root());
        assert_eq!(running.exec("file:q", "/exec mkfifo gate").head["ok"], true);
        running.begin("file:q", "/exec cat gate; echo done > result");
        topic_status(&served, "file:q", |item| item["executing"] == true);
        assert_eq!(served.client().request("DELETE", path, b"").1["deleted"], true);
        assert_eq!(served.client().get("/health")["sessions"], 0);
        open_gate(&sandbox);
        let reply = running.reply();
        assert_eq!(reply.head["ok"], true, "{path}: {reply:?}");
        assert_eq!(sandbox.read("root/result"), "done\n");
    }
}
