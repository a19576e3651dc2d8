//! Bad input from a hub: each is ignored or refused with its reason, nothing is lost, and the rest keeps working.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod host_support;

use std::process::Stdio;

use futures_util::SinkExt as _;
use host_support::{HostProcess, ScriptedHub, Stored};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;
use testkit::sandbox::Sandbox;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

#[tokio::test]
async fn messages_that_are_none_do_not_disturb_a_host() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection.start(&mut stored, "while read line; do echo got-$line; done").await;
    let deep = "[".repeat(100_000);
    for text in [
        "",
        "no JSON",
        "{}",
        "[]",
        "null",
        r#"{"ts": "2026-01-01T00:00:00Z", "data": {}}"#,
        r#"{"type": 7}"#,
        r#"{"type": "run.send_input"}"#,
        r#"{"type": "run.send_input", "run_id": "none", "data": {"input_id": "x", "text": "y"}}"#,
        r#"{"type": "run.ack", "data": {"run_id": "none", "last_seq": 9}}"#,
        r#"{"type": "run.ack", "data": {"run_id": 1, "last_seq": "x"}}"#,
        r#"{"type": "rpc.run.start", "data": 5}"#,
        r#"{"type": "rpc.fs.read", "run_id": "../../etc", "data": {"request_id": "a", "path": "b"}}"#,
        r#"{"type": "run.resize", "run_id": "none", "data": {"cols": -1, "rows": 99999999}}"#,
        r#"{"type": "no.such.type", "data": {}}"#,
        &deep,
    ] {
        connection.socket.send(Message::text(text.to_owned())).await.unwrap();
    }
    connection.socket.send(Message::binary(vec![0, 159, 146, 150])).await.unwrap();
    for last_seq in [-1, 0, i64::MIN, 1 << 60, i64::MAX] {
        connection.send("run.ack", None, json!({"run_id": run, "last_seq": last_seq})).await;
    }
    // A message of another time.
    let old = json!({"type": "run.send_input", "ts": "1990-01-01T00:00:00Z", "run_id": run,
        "data": {"input_id": "old", "text": "old\n"}});
    connection.socket.send(Message::text(old.to_string())).await.unwrap();
    connection.output(&mut stored, &run, "got-old").await;
    connection.send("run.stop", Some(&run), json!({})).await;
    connection.exited(&mut stored, &run).await;
    stored.assert_complete(&run);
}

/// A hub whose numbers are wrong when it connects does not make the host skip numbers.
#[tokio::test]
async fn a_wrong_position_in_the_greeting_is_ignored() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection.start(&mut stored, "read line; echo got-$line").await;
    for last_seq in [2_000_000, 1 << 60, i64::MAX] {
        drop(connection);
        connection = hub.accept().await;
        connection.next().await;
        connection.send("run.ack", None, json!({"run_id": run, "last_seq": last_seq})).await;
        connection.send("hub.ready", None, json!({"version": "test", "generation": 1})).await;
    }
    connection.send("run.send_input", Some(&run), json!({"input_id": "i", "text": "x\n"})).await;
    connection.exited(&mut stored, &run).await;
    assert!(stored.text(&run).contains("got-x"));
    stored.assert_complete(&run);
}

/// Rejects a run after its first output, and expects another run to arrive, and the rejected one on the next connection.
async fn rejected_once(error: serde_json::Value, has_run: bool) {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    connection.is_acking = false;
    // More than may be sent without an acknowledgement.
    let rejected = connection.start(&mut stored, "yes | head -c 8000000").await;
    connection.output(&mut stored, &rejected, "y").await;
    connection.send("hub.error", has_run.then_some(rejected.as_str()), error).await;
    let other = connection.start(&mut stored, "echo arrives").await;
    connection.output(&mut stored, &other, "arrives").await;
    drop(connection);
    let (mut connection, _) = hub.greeted(&stored).await;
    connection.exited(&mut stored, &rejected).await;
    stored.assert_complete(&rejected);
}

#[tokio::test]
async fn an_event_that_the_hub_rejects_holds_up_no_other_run() {
    rejected_once(json!({"code": "bad_seq", "message": "the seq is too large"}), true).await;
}

/// The hub has not read which run the message is about.
#[tokio::test]
async fn an_event_that_is_too_large_for_the_hub_holds_up_no_other_run() {
    rejected_once(json!({"code": "too_large", "message": "message too large"}), false).await;
}

#[tokio::test]
async fn a_message_of_100_mb_is_refused_without_losing_an_event() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection.start(&mut stored, "read line; echo got-$line").await;
    let large = "x".repeat(100 * 1024 * 1024);
    let text = format!(r#"{{"type": "run.send_input", "run_id": "{run}", "data": {{"text": "{large}"}}}}"#);
    // The host may close the connection while the message is being sent.
    let sent = connection.socket.send(Message::text(text)).await;
    let input = json!({"type": "run.send_input", "ts": "2026-01-01T00:00:00Z", "run_id": run,
        "data": {"input_id": "i", "text": "small\n"}});
    let is_open = sent.is_ok() && connection.socket.send(Message::text(input.to_string())).await.is_ok();
    let is_answered = is_open && {
        let list = json!({"type": "rpc.runs.list", "data": {"request_id": "list"}});
        connection.socket.send(Message::text(list.to_string())).await.is_ok()
    };
    if !is_answered || !host_support::is_open(&mut connection, &mut stored).await {
        drop(connection);
        (connection, _) = hub.greeted(&stored).await;
        connection.send("run.send_input", Some(&run), input["data"].clone()).await;
    }
    connection.exited(&mut stored, &run).await;
    assert_eq!(stored.text(&run).matches("got-small").count(), 1);
    stored.assert_complete(&run);
}

#[tokio::test]
async fn a_host_whose_id_another_one_uses_comes_back_and_loses_nothing() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection.start(&mut stored, "echo one; read line; echo two").await;
    connection.output(&mut stored, &run, "one").await;
    let reason = CloseFrame { code: 4409.into(), reason: "replaced".into() };
    connection.socket.close(Some(reason)).await.unwrap();
    let (mut connection, _) = hub.greeted(&stored).await;
    connection.send("run.send_input", Some(&run), json!({"input_id": "i", "text": "\n"})).await;
    connection.exited(&mut stored, &run).await;
    assert!(stored.text(&run).contains("two"));
    stored.assert_complete(&run);
    let log = sandbox.read("home/state/rexd/host.log");
    assert!(log.contains("give each its own --host-id"), "{log}");
}

/// Starts a host for which a write beyond the limit of [`limit_files`] fails, and does not end it.
fn start_limitable(sandbox: &Sandbox, hub: &str) -> HostProcess {
    HostProcess::start_with(sandbox, hub, |command| {
        let host = std::mem::replace(command, sandbox.command("/bin/sh"));
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(host.get_program()).args(host.get_args());
        command.stdin(Stdio::null()).stdout(Stdio::null());
    })
}

/// The limit on the size of a file of a running host: beyond it, writes fail as on a full disk.
fn limit_files(host: &HostProcess, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(host.child.id()).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

#[tokio::test]
async fn a_full_disk_loses_events_by_name_and_the_host_keeps_working() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let mut host = start_limitable(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let wait = |name: &str| format!("until [ -e {name} ]; do sleep 0.1; done");
    let cmd = format!(
        "echo before; {}; echo during; {}; echo after; {}; echo end",
        wait("full"),
        wait("free"),
        wait("restarted")
    );
    let run = connection.start(&mut stored, &cmd).await;
    connection.output(&mut stored, &run, "before").await;
    limit_files(&host, Some(1));
    sandbox.write("root/full", "");
    let lost = connection.until(&mut stored, |event| event["type"] == "run.lost").await;
    assert_eq!(lost["run_id"], run, "{lost}");
    // The rest keeps working; what needs the disk is refused with its reason.
    let info = connection.request(&mut stored, "rpc.host.info", None, json!({"request_id": "info"})).await;
    assert_eq!(info["ok"], true, "{info}");
    let start = json!({"request_id": "refused", "tool": "shell", "cmd": "echo never"});
    let refused = connection.request(&mut stored, "rpc.run.start", None, start).await;
    assert_eq!(refused["ok"], false, "{refused}");
    limit_files(&host, None);
    sandbox.write("root/free", "");
    connection.output(&mut stored, &run, "after").await;
    // A restarted host continues with the numbers and with the output that were sent.
    host.kill();
    drop(connection);
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    sandbox.write("root/restarted", "");
    connection.exited(&mut stored, &run).await;
    let text = stored.text(&run);
    assert_eq!(text, "before\r\nafter\r\nend\r\n");
    assert_eq!(stored.last(&run), *stored.runs[&run].keys().last().unwrap(), "no number is missing");
    let next = connection.start(&mut stored, "echo again").await;
    connection.exited(&mut stored, &next).await;
    assert!(stored.text(&next).contains("again"));
    stored.assert_complete(&next);
}
