//! The hub over TLS, with a changed certificate, and with two executors of the same id.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod through_hub;

use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use testkit::daemon::PATIENCE;
use testkit::programs::program;
use testkit::tries::Tries;
use through_hub::{Executor, HubWorld, certify, gather};

/// A program that trusts only the certificate of this name.
fn trusting(world: &HubWorld, name: &str, certificate: &str) -> Command {
    let mut command = world.sandbox.command(program(name));
    command.env("SSL_CERT_FILE", world.sandbox.path(certificate)).env("REX_TOKEN", &world.token);
    command
}

/// Reads a file of the executor.
fn read_greeting(world: &HubWorld, certificate: &str) -> Output {
    let file = world.sandbox.root().join("greeting");
    let mut command = trusting(world, "examples/connect_relay", certificate);
    command
        .args([&world.rendezvous(&world.addresses), &world.token, file.to_str().unwrap()])
        .output()
        .unwrap()
}

#[test]
fn executor_and_harness_meet_over_tls_and_a_new_certificate_is_taken_without_a_restart() {
    let world = HubWorld::over_tls();
    world.sandbox.write("root/greeting", "hi");
    std::fs::copy(world.sandbox.path("cert.pem"), world.sandbox.path("old.pem")).unwrap();
    let mut tries = Tries::within(PATIENCE, "the file is not read over TLS");
    while read_greeting(&world, "old.pem").stdout != b"aGk=\n" {
        tries.again();
    }
    let mut rex = trusting(&world, "rex", "old.pem");
    rex.arg("-t").arg(format!("codex:{}?role=harness", world.rendezvous(&world.addresses)));
    let output = rex.args(["exec", "--", "echo", "hello"]).output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"hello\n"[..]), "{output:?}");

    certify(&world.sandbox);
    kill_process(Pid::from_child(world.hub()), Signal::HUP).unwrap();
    let mut tries = Tries::within(PATIENCE, "the new certificate is not used");
    while read_greeting(&world, "cert.pem").stdout != b"aGk=\n" {
        tries.again();
    }
    let refused = read_greeting(&world, "old.pem");
    assert!(!refused.status.success(), "{refused:?}");
    assert!(!world.log(1).text().contains("is gone"), "the executor was left alone: {}", world.log(1).text());
}

#[tokio::test]
async fn of_two_executors_with_one_id_the_first_is_closed_and_the_last_serves() {
    let mut world = HubWorld::new(Executor::Rexd);
    let first = world.connect(&world.addresses).await;
    world.join(Executor::Rexd);
    let mut tries = Tries::within(PATIENCE, "the first one is not told");
    while !world.log(1).text().contains("another executor connected as \"e-1\"") {
        tries.again();
    }
    assert!(world.log(1).text().contains("--executor-id of its own"), "{}", world.log(1).text());
    drop(first);
    // Else it would come back for its place.
    world.end(1);
    let client = world.connect(&world.addresses).await;
    let mut process = client.start(world.shell("p", "echo served", &[])).await.unwrap();
    assert_eq!(gather(&mut process).await, (b"served\n".to_vec(), Some(0)));
}
