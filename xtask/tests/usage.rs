//! The command line of `xtask`. With this test, `cargo test` builds the program, and `make test` runs it without another build.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::process::Command;

#[test]
fn an_unknown_command_prints_the_usage() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("unknown").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && printed.contains("generate"), "{printed}");
}
