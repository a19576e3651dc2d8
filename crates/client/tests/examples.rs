//! The examples work on this machine.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use testkit::programs::program;
use testkit::sandbox::Sandbox;

/// Runs an example in the sandbox's root; returns its output.
fn run(sandbox: &Sandbox, example: &str) -> (String, String) {
    let mut command = sandbox.command(program(&format!("examples/{example}")));
    command.env("REX_REXD", program("rexd")).env("REXD_CONFIG", sandbox.config());
    let output = command.arg("local").current_dir(sandbox.root()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{example}: {}", text(output.stderr));
    (text(output.stdout), text(output.stderr))
}

#[test]
fn a_command_is_run_and_its_status_printed() {
    let (out, errors) = run(&Sandbox::new(), "run");
    assert_eq!((out.as_str(), errors.as_str()), ("out\nended with 3\n", "err\n"));
}

#[test]
fn a_command_reads_input_and_is_killed_with_its_children() {
    let (out, _) = run(&Sandbox::new(), "talk");
    // The shell may be killed before it has started both children.
    let ended = out.strip_prefix("heard hello\n").and_then(|rest| rest.strip_suffix("left 0\n"));
    assert!(ended.is_some_and(|lines| lines.lines().all(|line| line.starts_with("ended "))), "{out}");
    assert!(out.contains("\nended "), "{out}");
}

#[test]
fn files_are_written_watched_edited_and_searched() {
    let sandbox = Sandbox::new();
    let (out, _) = run(&sandbox, "files");
    assert_eq!(out, "created greeting.txt\nhello there\n1 match\n");
    assert!(!sandbox.path("root/example-of-files").exists());
}

#[test]
fn an_approval_request_is_received_and_approved() {
    let sandbox = Sandbox::with_config(
        "[[policy.rules]]\nname = \"removals\"\naction = \"ask\"\nargv = [\"rm\", \"*\"]\n",
    );
    let (out, _) = run(&sandbox, "approve");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("asked: ") && lines[0].contains("rm -f nothing"), "{out}");
    assert!(lines.contains(&"decided: approve") && lines.contains(&"ended with 0"), "{out}");
}

#[test]
fn a_detached_process_is_found_again() {
    let (out, _) = run(&Sandbox::new(), "come_back");
    assert_eq!(out, "listed: true\none\ntwo\nended with 0\n");
}
