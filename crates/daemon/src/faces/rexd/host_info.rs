//! The machine of the server, as `session.info` reports it, so that a client can tell a model where its commands run.

use std::path::Path;

use rustix::system::uname;
use wire::rexd::v1::HostInfo;

/// Reads the host name, the operating system and the shell.
pub(super) fn host_info() -> HostInfo {
    let system = uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    HostInfo {
        name: text(system.nodename()),
        os: format!("{} {} {}", text(system.sysname()), text(system.release()), text(system.machine())),
        shell: Some(if has_program("bash") { "bash" } else { "sh" }.to_owned()),
    }
}

/// Whether a program is in a directory of `PATH`.
fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_executable(&directory.join(name)))
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}
