//! Hosts of a hub as targets: commands, terminals and copies through `hub:HOST`, across cuts, by role.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;
#[path = "support/hub.rs"]
mod world;

use std::process::{Output, Stdio};
use std::time::Instant;

use serde_json::Value;
use support::{rex, run, text};
use testkit::daemon::PATIENCE;
use testkit::http::Http;
use testkit::proc::watch;
use testkit::screen::Screen;
use testkit::tries::Tries;
use world::{HOST, HubWorld, PASSWORD, with_input};

/// The host as a target.
const TARGET: &str = "hub:host-a";

fn exec(world: &HubWorld, command: &[&str]) -> Output {
    run(&world.sandbox, &[&["exec", "-t", TARGET, "--"], command].concat())
}

#[test]
fn a_host_is_a_target_with_exit_status_input_terminal_and_files() {
    let world = HubWorld::start();
    world.sign_in("olga");
    assert_eq!(TARGET, format!("hub:{HOST}"));
    let output = exec(&world, &["sh", "-c", "echo out; echo err >&2; pwd; exit 5"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let root = world.sandbox.root().canonicalize().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("out\n{}\n", root.display()));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "err\n");
    assert_eq!(exec(&world, &["no-such-program"]).status.code(), Some(127));

    let sorted = with_input(rex(&world.sandbox, &["exec", "-t", TARGET, "--", "sort"]), "b\na");
    assert_eq!(sorted.stdout, b"a\nb\n");

    let command = rex(&world.sandbox, &["shell", "-t", TARGET, "--", "env", "PS1=ready> ", "sh", "-i"]);
    let mut screen = Screen::start(&command, 90, 24);
    screen.shows("ready>");
    screen.type_in("stty size; exit 4\r");
    screen.shows("24 90");
    assert_eq!(screen.end().0.code(), Some(4));

    world.sandbox.write("outside/sent.txt", "content\n".repeat(100_000));
    let (from, to) = (world.sandbox.outside().join("sent.txt"), world.sandbox.outside().join("back.txt"));
    text(&world.sandbox, &["cp", "-t", TARGET, from.to_str().unwrap(), ":received.txt"]);
    assert_eq!(world.sandbox.read("root/received.txt"), world.sandbox.read("outside/sent.txt"));
    text(&world.sandbox, &["cp", "-t", TARGET, ":received.txt", to.to_str().unwrap()]);
    assert_eq!(world.sandbox.read("outside/back.txt"), world.sandbox.read("outside/sent.txt"));

    text(&world.sandbox, &["target", "add", "box", TARGET, "--hub", &world.url()]);
    assert!(text(&world.sandbox, &["target", "list"]).contains(TARGET));
    assert_eq!(text(&world.sandbox, &["read", "box:received.txt", "--length", "8"]), "content\n");
    let tested: Value =
        serde_json::from_str(&text(&world.sandbox, &["target", "test", "box", "--json"])).unwrap();
    assert_eq!(tested["ok"], true, "{tested}");
    let unknown = run(&world.sandbox, &["exec", "-t", "hub:no-such-host", "--", "true"]);
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(said.contains("the hub has no such host") && said.contains("rex hosts"), "{said}");
}

/// ARCHITECTURE.md, invariant 47.
#[test]
fn output_survives_cuts_and_a_killed_hub() {
    let mut world = HubWorld::start();
    world.sign_in("olga");
    let lines = |from: u32, to: u32| (from..=to).map(|i| format!("{i}\n")).collect::<String>();
    let slow = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo $i; sleep 0.005; done";
    let mut running = rex(&world.sandbox, &["exec", "-t", TARGET, "--", "sh", "-c", slow])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let seen = world.cut_as_it_arrives(running.stdout.take().unwrap());
    assert!(running.wait().unwrap().success(), "{seen:?}");
    assert_eq!(seen, lines(1, 400));

    let script =
        "seq 1 1000; touch halfway; until [ -e restarted ]; do sleep 0.05; done; seq 1001 2000; exit 6";
    let command = ["exec", "-t", TARGET, "--", "sh", "-c", script];
    let running =
        rex(&world.sandbox, &command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    world.sandbox.appears("root/halfway", Instant::now() + 3 * PATIENCE);
    world.restart_hub(|world| drop(world.sandbox.write("root/restarted", "")));
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), lines(1, 2000));
}

#[test]
fn the_role_at_the_hub_limits_the_session_and_a_removed_user_loses_it() {
    let world = HubWorld::start();
    world.sandbox.write("root/notes.txt", "readable\n");
    world.sign_in("viktor");
    assert_eq!(text(&world.sandbox, &["read", "-t", TARGET, "notes.txt"]), "readable\n");
    assert_eq!(exec(&world, &["touch", "made"]).status.code(), Some(255));
    let written = with_input(rex(&world.sandbox, &["write", "-t", TARGET, "made"]), "x");
    assert_eq!(written.status.code(), Some(255), "{written:?}");
    assert!(!world.sandbox.path("root/made").exists());

    world.sign_in("olga");
    let running = rex(&world.sandbox, &["exec", "-t", TARGET, "--", "sh", "-c", "touch begun; sleep 1000"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    world.sandbox.appears("root/begun", Instant::now() + 3 * PATIENCE);
    world.manage(&["user", "remove", "olga"]);
    let ended = watch(i32::try_from(running.id()).unwrap());
    assert!(ended.ends_before(Instant::now() + 3 * PATIENCE), "the session of a removed user continues");
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(255), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("rex login"));
}

/// The first pending request, once there is one.
fn pending(world: &HubWorld) -> Value {
    let mut tries = Tries::within(3 * PATIENCE, "the request is pending");
    loop {
        let list = text(&world.sandbox, &["approvals", "list", "-t", "hub:", "--json"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        if list[0]["request_id"].is_string() {
            return list[0].clone();
        }
        tries.again();
    }
}

#[test]
fn the_reason_of_a_denial_reaches_the_agent() {
    let ask = "[policy]\ndefault = \"allow\"\n[[policy.rules]]\nname = \"touching\"\naction = \"ask\"\nargv = [\"touch\", \"*\"]\n";
    let mut world = HubWorld::with_config(ask);
    world.start_host();
    world.sign_in("olga");
    let asking = rex(&world.sandbox, &["exec", "--json", "-t", TARGET, "--", "touch", "made"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let row = pending(&world);
    let body = r#"{"username":"olga","password":"PASSWORD"}"#.replace("PASSWORD", PASSWORD);
    let ask_hub = |path: &str, headers: &[String], body: &str| {
        let mut http = Http::connect(world.proxy.addresses.http).unwrap();
        http.ask(path, headers, Some(body.as_bytes())).unwrap()
    };
    let signed_in: Value = serde_json::from_str(&ask_hub("/auth/login", &[], &body).body).unwrap();
    let token = format!("Authorization: Bearer {}", signed_in["access_token"].as_str().unwrap());
    let (run, request) = (row["run_id"].as_str().unwrap(), row["request_id"].as_str().unwrap());
    let path = format!("/approvals/{run}/{request}");
    let denied = ask_hub(&path, &[token], r#"{"decision":"deny","reason":"not on Friday"}"#);
    assert_eq!(denied.head.status, 204, "{}", denied.body);
    let output = asking.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("denied by user:olga: not on Friday"), "{said}");
}

#[test]
fn a_question_of_the_policy_is_answered_over_the_hub_with_its_true_text() {
    let ask = "[policy]\ndefault = \"allow\"\n[[policy.rules]]\nname = \"touching\"\naction = \"ask\"\nargv = [\"touch\", \"*\"]\n";
    let mut world = HubWorld::with_config(ask);
    world.start_host();
    world.sign_in("olga");
    for (decision, made) in [("approve", true), ("deny", false)] {
        let name = format!("{decision}-token=SECRET");
        let asking = rex(&world.sandbox, &["exec", "--json", "-t", TARGET, "--", "touch", &name])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let id = pending(&world)["request_id"].as_str().unwrap().to_owned();
        let table = text(&world.sandbox, &["approvals", "list", "-t", TARGET]);
        assert!(table.contains(&name) && table.contains(HOST), "{table}");
        world.sign_in("viktor");
        let said = world.failure(&["approvals", decision, &id, "-t", "hub:"]);
        assert!(said.contains("forbidden: operator role required"), "{said}");
        world.sign_in("olga");
        let answered = text(&world.sandbox, &["approvals", decision, &id[..id.len() - 1], "-t", "hub:"]);
        assert!(answered.contains(&name), "{answered}");
        let output = asking.wait_with_output().unwrap();
        assert_eq!(output.status.success(), made, "{output:?}");
        assert_eq!(world.sandbox.root().join(&name).exists(), made);
        let said = world.failure(&["approvals", decision, &id, "-t", "hub:"]);
        assert!(said.contains("no pending approval"), "{said}");
    }
}

#[test]
fn approvals_are_prompted_for_as_they_arrive() {
    let ask = "[policy]\ndefault = \"allow\"\n[[policy.rules]]\nname = \"touching\"\naction = \"ask\"\nargv = [\"touch\", \"*\"]\n";
    let mut world = HubWorld::with_config(ask);
    world.start_host();
    world.sign_in("olga");
    let mut screen = Screen::start(&rex(&world.sandbox, &["approvals", "watch", "-t", "hub:"]), 120, 40);
    screen.shows("waiting for approval requests");
    let asking = rex(&world.sandbox, &["exec", "--json", "-t", TARGET, "--", "touch", "prompted"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    screen.shows("approve? [y]es");
    assert!(
        screen.text().contains("touch prompted") && screen.text().contains("host: host-a"),
        "{}",
        screen.text()
    );
    screen.type_in("y\r");
    assert!(asking.wait_with_output().unwrap().status.success());
    assert!(world.sandbox.path("root/prompted").exists());
    screen.shows("approve by olga");
}
