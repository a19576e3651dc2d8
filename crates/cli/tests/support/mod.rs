//! What the tests of the command line share: `rex` beside its `rexd`, in a sandbox.
#![allow(dead_code, reason = "each test uses some of it")]

use std::process::{Command, Output, Stdio};

use testkit::programs::program;
use testkit::sandbox::Sandbox;

/// The program under test.
pub(crate) const REX: &str = env!("CARGO_BIN_EXE_rex");

/// `rex` with these arguments, in the sandbox's root, which has no configuration: it serves the current directory.
pub(crate) fn rex(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(REX);
    command.env("REX_REXD", program("rexd")).env("XDG_DATA_HOME", sandbox.path("home/data"));
    command.current_dir(sandbox.root()).args(arguments);
    command
}

/// Runs `rex` to its end.
pub(crate) fn run(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    rex(sandbox, arguments).output().expect("rex")
}

/// Runs `rex` and returns what it printed; it must succeed.
pub(crate) fn text(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = run(sandbox, arguments);
    assert!(output.status.success(), "rex {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs `rex` with something on its stdin.
pub(crate) fn feed(sandbox: &Sandbox, arguments: &[&str], input: impl Into<Stdio>) -> Output {
    rex(sandbox, arguments).stdin(input).output().expect("rex")
}
