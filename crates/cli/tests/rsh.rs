//! `rex rsh`: the command line of ssh, over a real sshd and to a target with an alias.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

#[path = "support/ssh.rs"]
mod ssh;
mod support;

use std::fs::File;
use std::os::unix::fs::symlink;

use ssh::Machine;
use support::{feed, run};
use testkit::programs::program;
use testkit::sandbox::Sandbox;

#[test]
fn a_host_without_an_alias_is_reached_over_ssh_with_the_options_of_ssh() {
    let machine = Machine::start_with("REXD_CONFIG=$DIR/config.toml");
    std::fs::create_dir_all(machine.home(".local/bin")).unwrap();
    symlink(program("rexd"), machine.home(".local/bin/rexd")).unwrap();
    let config = machine.sshd.client_config(&machine.sandbox);
    let config = config.to_str().unwrap();
    let words = ["rsh", "-q", "-F", config, "-oBatchMode=yes", "-o", "SetEnv=GREETING=hello", "machine"];
    let line = ["echo", "$GREETING", "$(pwd);", "cat; exit 3"];
    let input = machine.sandbox.write("input", "from stdin\n");
    let output = feed(&machine.sandbox, &[&words[..], &line].concat(), File::open(input).unwrap());
    let expected = format!("hello {}\nfrom stdin\n", machine.sandbox.root().display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

#[test]
fn an_alias_comes_first_and_what_cannot_be_done_is_refused() {
    let sandbox = Sandbox::new();
    let registry = serde_json::json!({ "version": 1, "targets": { "box": { "transport": "local" } } });
    sandbox.write("home/config/rexd/targets.json", registry.to_string());
    let output =
        run(&sandbox, &["rsh", "-p", "2222", "-l", "ada", "-4", "box", "--", "printf", "%s", "'a  b'"]);
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"a  b"[..], Some(0)), "{output:?}");
    assert_eq!(run(&sandbox, &["rsh", "ada@box", "echo hi"]).stdout, b"hi\n");
    assert_eq!(run(&sandbox, &["rsh", "-G", "box"]).stdout, b"hostname box\n");
    for (words, word) in [
        (&["-N", "box"][..], "unsupported option -N"),
        (&["-L", "1:a:1", "box"], "unsupported option -L"),
        (&["-o", "LocalForward=1:a:1", "box", "true"], "unsupported option -o LocalForward"),
        (&["-o", "RemoteCommand true", "box"], "unsupported option -o RemoteCommand"),
        (&["-s", "box", "netconf"], "unknown subsystem netconf"),
        (&["-oX=$(touch x)", "a;b", "true"], "plain names"),
    ] {
        let refused = run(&sandbox, &[&["rsh"], words].concat());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            refused.status.code() == Some(255) && said.contains(word) && said.contains("hint:"),
            "{said}"
        );
    }
}
