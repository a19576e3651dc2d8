//! `rex` as a client of a real hub: signing in and out, hosts and runs, and what each role may do.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;
#[path = "support/hub.rs"]
mod world;

use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;
use support::{rex, run, text};
use testkit::daemon::PATIENCE;
use testkit::proc::watch;
use testkit::screen::Screen;
use testkit::serve::ServedDaemon;
use world::{HOST, HubWorld, PASSWORD, with_input};

/// Reads until a text was received; returns everything so far.
fn read_until(from: &mut impl Read, text: &str) -> String {
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while !seen.contains(text) {
        let read = from.read(&mut buffer).unwrap();
        assert!(read > 0, "it ended before {text:?}: {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    seen
}

#[test]
fn signing_in_stores_a_private_file_and_signing_out_ends_it_at_the_hub_too() {
    let world = HubWorld::without_host();
    let wrong = world.try_sign_in("olga", "guessed");
    assert_eq!(wrong.status.code(), Some(255));
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("wrong user name or password") && said.contains("hint: "), "{said}");

    world.sign_in("olga");
    let file = world.sandbox.path("home/config/rexd/hubs.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let stored = world.logins();
    assert!(stored.contains("refresh_token") && !stored.contains(PASSWORD), "{stored}");
    assert_eq!(text(&world.sandbox, &["hosts", "--json"]), "[]\n");

    let out = text(&world.sandbox, &["logout"]);
    assert_eq!(out, format!("signed out of {}\n", world.url()));
    assert!(world.failure(&["hosts"]).contains("not signed in to a hub"));
    // A copy of the file is worth nothing afterwards.
    std::fs::write(&file, stored).unwrap();
    let said = world.failure(&["hosts"]);
    assert!(said.contains("the sign-in has expired or was revoked") && said.contains("rex login"), "{said}");
}

#[test]
fn the_password_is_read_from_the_terminal_without_echo() {
    let world = HubWorld::without_host();
    let command = rex(&world.sandbox, &["login", &world.url(), "--user", "olga"]);
    let mut screen = Screen::start(&command, 100, 24);
    screen.shows("Password of olga at");
    screen.type_in(&format!("{PASSWORD}\r"));
    screen.shows("signed in to");
    let (status, seen) = screen.end();
    assert!(status.success(), "{seen}");
    assert!(!seen.contains("horse"), "{seen}");
}

#[test]
fn an_address_that_is_no_hub_is_refused_with_a_hint() {
    let world = HubWorld::without_host();
    let daemon = ServedDaemon::start(&testkit::programs::program("rexd"), &world.sandbox);
    let login = |url: &str| {
        let command = rex(&world.sandbox, &["login", url, "--user", "olga", "--password-stdin"]);
        let output = with_input(command, PASSWORD);
        assert_eq!(output.status.code(), Some(255), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = login(&format!("http://{}", daemon.addresses.http));
    assert!(said.contains("is not a hub") || said.contains("wrong user name or password"), "{said}");
    assert!(said.contains("hint: "), "{said}");
    let said = login(&world.url().replace("http:", "https:"));
    assert!(said.contains("cannot log in to https:") && said.contains("use http://"), "{said}");
    let said = login("hub.example");
    assert!(said.contains("invalid address of a hub") && said.contains("https://HOST"), "{said}");
    let said = login("http://127.0.0.1:1");
    assert!(said.contains("cannot reach") && said.contains("rexhub serve"), "{said}");
}

#[test]
fn an_expired_token_is_renewed_once_for_all_processes() {
    let world = HubWorld::without_host();
    world.sign_in("olga");
    let before: Value = serde_json::from_str(&world.logins()).unwrap();
    let mut expired = before.clone();
    expired["hubs"][0]["expires_at"] = Value::from(1);
    let file = world.sandbox.path("home/config/rexd/hubs.json");
    std::fs::write(&file, expired.to_string()).unwrap();
    let children: Vec<_> = (0..4)
        .map(|_| rex(&world.sandbox, &["hosts", "--json"]).stdout(Stdio::piped()).spawn().unwrap())
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, b"[]\n");
    }
    let after: Value = serde_json::from_str(&world.logins()).unwrap();
    assert_ne!(after["hubs"][0]["access_token"], before["hubs"][0]["access_token"]);
    assert!(after["hubs"][0]["expires_at"].as_i64().unwrap() > 1);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_client_token_signs_in_without_a_user() {
    let world = HubWorld::without_host();
    let created = world.manage(&["token", "add", "ci", "--kind", "client", "--role", "viewer"]);
    let token = created.split_whitespace().max_by_key(|word| word.len()).unwrap();
    let login =
        |token: &str| with_input(rex(&world.sandbox, &["login", &world.url(), "--token-stdin"]), token);
    let wrong = login("not-a-token");
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("does not accept the token"));
    assert!(login(token).status.success());
    assert_eq!(text(&world.sandbox, &["hosts", "--json"]), "[]\n");
    let output = run(&world.sandbox, &["logout"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("rexhub token remove"));
}

#[test]
fn runs_are_started_watched_typed_into_and_stopped() {
    let world = HubWorld::start();
    world.sign_in("olga");
    let table = text(&world.sandbox, &["hosts"]);
    assert!(table.contains(HOST) && table.contains("online"), "{table}");
    assert!(world.failure(&["runs", "start", "-t", "hub:", "-c", "true"]).contains("needs one host"));

    let id = world.start_run("printf 'one\\ntwo\\n'; exit 7");
    let watched = run(&world.sandbox, &["runs", "watch", &id]);
    assert_eq!(watched.status.code(), Some(7), "{watched:?}");
    assert_eq!(String::from_utf8(watched.stdout).unwrap(), "one\r\ntwo\r\n");
    let events = run(&world.sandbox, &["runs", "watch", "--json", &id]);
    let events: Vec<Value> = String::from_utf8(events.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.first().unwrap()["type"], "run.started");
    assert_eq!(events.last().unwrap()["data"]["exit_code"], 7);

    let id = world.start_run("read -r line; echo \"got $line\"; sleep 1000");
    let prefix = &id[..id.len() - 2];
    let mut watching =
        rex(&world.sandbox, &["runs", "watch", prefix]).stdout(Stdio::piped()).spawn().unwrap();
    text(&world.sandbox, &["runs", "send", prefix, "hello"]);
    let mut stdout = watching.stdout.take().unwrap();
    read_until(&mut stdout, "got hello");
    let listed = text(&world.sandbox, &["runs", "list", "-t", &format!("hub:{HOST}")]);
    assert!(listed.contains(&id), "{listed}");
    text(&world.sandbox, &["runs", "stop", prefix, "-s", "kill"]);
    let ended = watch(i32::try_from(watching.id()).unwrap());
    assert!(ended.ends_before(Instant::now() + 3 * PATIENCE), "the watch does not end with the run");
    assert_eq!(watching.wait().unwrap().code(), Some(137));
    let listed = text(&world.sandbox, &["runs", "list", "-a"]);
    assert!(listed.contains("exited (137)"), "{listed}");
    assert!(world.failure(&["runs", "watch", "no-such-run"]).contains("no run no-such-run"));
}

#[test]
fn a_watch_misses_and_repeats_nothing_when_its_connection_is_cut() {
    let world = HubWorld::start();
    world.sign_in("olga");
    let id = world.start_run("i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo line $i; sleep 0.005; done");
    let mut watching = rex(&world.sandbox, &["runs", "watch", &id]).stdout(Stdio::piped()).spawn().unwrap();
    let seen = world.cut_as_it_arrives(watching.stdout.take().unwrap());
    assert!(watching.wait().unwrap().success(), "{seen:?}");
    let expected: String = (1..=400).map(|i| format!("line {i}\r\n")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_watch_continues_after_the_hub_was_killed() {
    let mut world = HubWorld::start();
    world.sign_in("olga");
    let id = world.start_run("seq 1 500; until [ -e restarted ]; do sleep 0.05; done; seq 501 1000");
    let mut watching = rex(&world.sandbox, &["runs", "watch", &id]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = watching.stdout.take().unwrap();
    let mut seen = read_until(&mut stdout, "\n500\r\n");
    world.restart_hub(|world| drop(world.sandbox.write("root/restarted", "")));
    stdout.read_to_string(&mut seen).unwrap();
    assert!(watching.wait().unwrap().success(), "{seen:?}");
    let expected: String = (1..=1000).map(|i| format!("{i}\r\n")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_viewer_watches_and_changes_nothing() {
    let world = HubWorld::start();
    world.sign_in("olga");
    let id = world.start_run("echo visible; exit 3");
    world.sign_in("viktor");
    let watched = run(&world.sandbox, &["runs", "watch", &id]);
    assert_eq!(watched.status.code(), Some(3), "{watched:?}");
    let target = format!("hub:{HOST}");
    for arguments in [
        &["runs", "start", "-t", &target, "-c", "touch started"][..],
        &["runs", "send", &id, "text"],
        &["runs", "stop", &id],
    ] {
        let said = world.failure(arguments);
        assert!(said.contains("forbidden: operator role required"), "{said}");
    }
    assert!(!world.sandbox.path("root/started").exists());
}

#[test]
fn a_removed_user_is_out_at_once() {
    let world = HubWorld::start();
    world.sign_in("olga");
    let id = world.start_run("echo begun; sleep 1000");
    let mut watching = rex(&world.sandbox, &["runs", "watch", &id])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = watching.stdout.take().unwrap();
    read_until(&mut stdout, "begun");
    world.manage(&["user", "remove", "olga"]);
    let ended = watch(i32::try_from(watching.id()).unwrap());
    assert!(ended.ends_before(Instant::now() + 3 * PATIENCE), "the watch of a removed user continues");
    let watched = watching.wait_with_output().unwrap();
    assert_eq!(watched.status.code(), Some(255));
    let said = String::from_utf8(watched.stderr).unwrap();
    assert!(said.contains("rex login"), "{said}");
    assert!(world.failure(&["hosts"]).contains("the sign-in has expired or was revoked"));
}
