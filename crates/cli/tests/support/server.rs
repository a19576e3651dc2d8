//! A server as a shell script, in the place of `rexd`.
#![allow(dead_code, reason = "each test uses some of it")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use testkit::daemon::PATIENCE;
use testkit::proc::watch;
use testkit::sandbox::Sandbox;

use crate::support::rex;

/// `rex` whose target `local` is a server with these cases of a shell's `case $line`; `answer` and `say` send lines.
pub(crate) fn with_server(sandbox: &Sandbox, cases: &str, arguments: &[&str]) -> Command {
    let script = format!(
        "#!/bin/sh\nsay() {{ printf '%s\\n' \"$1\"; }}\n\
         answer() {{ say \"{{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$id,\\\"result\\\":$1}}\"; }}\n\
         while read -r line; do id=${{line#*\\\"id\\\":}}; id=${{id%%,*}}; case $line in {cases}\n\
         *) say \"{{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$id,\\\"error\\\":{{\\\"code\\\":-32601,\\\"message\\\":\\\"method not found\\\"}}}}\";;\n\
         esac; done\n"
    );
    let server = sandbox.write("server", script);
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = rex(sandbox, arguments);
    command.env("REX_REXD", server);
    command
}

/// Runs the command, which must end, and returns its output.
pub(crate) fn ended(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let watched = watch(i32::try_from(child.id()).unwrap());
    assert!(watched.ends_before(Instant::now() + 2 * PATIENCE), "{command:?} does not end");
    child.wait_with_output().unwrap()
}
