//! A machine that accepts the connection and does not answer: the error has a hint, and no process is left.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::time::{Duration, Instant};

use client::target::{RemoteCommand, SshTarget};
use client::{Error, Session, SessionOptions, Target};
use testkit::daemon::PATIENCE;
use testkit::proc::{ProcessWatch, children, watch};
use testkit::sandbox::Sandbox;
use testkit::sshd::Sshd;
use testkit::tries::Tries;

/// Finds the ssh that this program starts.
fn our_ssh() -> ProcessWatch {
    let ours = i32::try_from(std::process::id()).unwrap();
    let is_ssh = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "ssh")
    };
    let mut tries = Tries::within(PATIENCE, "an ssh");
    loop {
        if let Some(pid) = children(ours).into_iter().find(is_ssh) {
            return watch(pid);
        }
        tries.again();
    }
}

#[tokio::test]
async fn a_machine_that_does_not_answer_leaves_no_ssh_behind() {
    let sandbox = Sandbox::new();
    let sshd = Sshd::start(&sandbox);
    let target = Target::Ssh(SshTarget {
        host: "far".to_owned(),
        options: vec!["-F".to_owned(), sshd.client_config(&sandbox).to_str().unwrap().to_owned()],
        // It echoes the requests, which are not responses.
        command: Some(RemoteCommand::Line("exec cat".to_owned())),
        is_unshared: true,
        ..SshTarget::default()
    });
    let options = SessionOptions { connect_timeout: Duration::from_secs(2), ..SessionOptions::default() };
    let ssh = std::thread::spawn(our_ssh);
    let Err(Error::Connect(error)) = Session::open(target, options).await else { panic!("it answers") };
    assert_eq!(error.to_string(), "cannot reach ssh:far: no answer within 2 s");
    let hint = error.hint.unwrap();
    assert!(hint.contains("`ssh far`") && hint.contains("speaks REXD"), "{hint}");
    // No task of this program runs any more that could end it later.
    assert!(ssh.join().unwrap().ends_before(Instant::now() + PATIENCE), "ssh is still running");
}
