//! Starts a daemon on this machine for one session.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use link::child::{self, Child};

use super::{Carrier, TargetLink, limits};
use crate::error::{ConnectError, ConnectStep};
use crate::target::LocalTarget;

const NAME: &str = "rexd";
const INSTALL_HINT: &str = "put rexd next to rex or on the PATH, or set REX_REXD to its path";

pub(super) fn dial(local: &LocalTarget) -> Result<TargetLink, ConnectError> {
    let program = match &local.program {
        Some(program) => program.clone(),
        None => find_program().ok_or_else(|| {
            ConnectError::new("local", ConnectStep::Find, "rexd is not installed on this machine")
                .hint(INSTALL_HINT)
        })?,
    };
    let mut command = Command::new(&program);
    // Ctrl-C at the terminal must not reach the daemon; this program forwards it to the command.
    command.arg("--stdio").process_group(0);
    for root in &local.roots {
        command.arg("--root").arg(root);
    }
    if local.roots.is_empty() && !has_config() {
        // A relative root starts at the daemon's working directory, which it inherits.
        command.args(["--root", "."]);
    }
    let started = child::spawn(command, &limits());
    let (link, child) = started.map_err(|error| {
        ConnectError::new("local", ConnectStep::Start, format!("{}: {error}", program.display()))
            .hint(INSTALL_HINT)
    })?;
    Ok(TargetLink { link, carrier: Carrier::Local(child) })
}

pub(super) async fn explain(child: &mut Child) -> ConnectError {
    let status = child.ended().await;
    let stderr = child.errors().text();
    let cause = match (stderr.is_empty(), status) {
        (false, _) => stderr,
        (true, Some(status)) => format!("rexd exited without a message ({status})"),
        (true, None) => "rexd does not answer".to_owned(),
    };
    ConnectError::new("local", ConnectStep::Start, cause).hint("check this machine with `rexd doctor`")
}

/// Finds the daemon: `REX_REXD`, then next to this program, then on the PATH.
pub(crate) fn find_program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("REX_REXD").filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    find_beside(NAME)
}

/// Finds a program next to this one, or else on the PATH.
pub(crate) fn find_beside(name: &str) -> Option<PathBuf> {
    let ours = std::env::current_exe().ok();
    let beside = ours.as_deref().and_then(Path::parent).map(|directory| directory.join(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join(name)).collect::<Vec<_>>();
    beside.into_iter().chain(on_path).find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

/// Whether the daemon will find a configuration file; these are the paths that it searches.
fn has_config() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if set("REXD_CONFIG").is_some() {
        return true;
    }
    let home = set("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".config")));
    let user = home.map(|directory| directory.join("rexd/config.toml"));
    Path::new("/etc/rexd/config.toml").exists() || user.is_some_and(|file| file.exists())
}
