//! A daemon on this machine, started for one session.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use link::child::{self, Child};

use super::{Carrier, Dialed, limits};
use crate::error::{ConnectError, ConnectStep};
use crate::target::LocalTarget;

const NAME: &str = "rexd";
const HOW_TO_GET: &str = "put rexd beside rex or on the PATH, or set REX_REXD to where it lies";

pub(super) fn dial(local: &LocalTarget) -> Result<Dialed, ConnectError> {
    let program = match &local.program {
        Some(program) => program.clone(),
        None => find_program().ok_or_else(|| {
            ConnectError::new("local", ConnectStep::Find, "there is no rexd on this machine").hint(HOW_TO_GET)
        })?,
    };
    let mut command = Command::new(&program);
    // A key that interrupts is for the command, which hears of it from us; the daemon has to live on.
    command.arg("--stdio").process_group(0);
    for root in &local.roots {
        command.arg("--root").arg(root);
    }
    if local.roots.is_empty() && !has_config() {
        // A relative root is the daemon's own directory, which it takes over from us.
        command.args(["--root", "."]);
    }
    let started = child::spawn(command, &limits());
    let (link, child) = started.map_err(|error| {
        ConnectError::new("local", ConnectStep::Start, format!("{}: {error}", program.display()))
            .hint(HOW_TO_GET)
    })?;
    Ok(Dialed { link, carrier: Carrier::Local(child) })
}

pub(super) async fn explain(child: &mut Child) -> ConnectError {
    let status = child.ended().await;
    let said = child.errors().text();
    let cause = match (said.is_empty(), status) {
        (false, _) => said,
        (true, Some(status)) => format!("rexd ended without a word ({status})"),
        (true, None) => "rexd does not answer".to_owned(),
    };
    ConnectError::new("local", ConnectStep::Start, cause)
        .hint("`rexd doctor` says what is wrong on this machine")
}

/// The daemon's program: `REX_REXD`, then beside ours, then on the PATH.
pub(crate) fn find_program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("REX_REXD").filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let ours = std::env::current_exe().ok();
    let beside = ours.as_deref().and_then(Path::parent).map(|folder| folder.join(NAME));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(NAME)).collect::<Vec<_>>();
    beside.into_iter().chain(on_path).find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

/// Whether the daemon will find a configuration of its own; the places are the daemon's.
fn has_config() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if set("REXD_CONFIG").is_some() {
        return true;
    }
    let home = set("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".config")));
    let user = home.map(|folder| folder.join("rexd/config.toml"));
    Path::new("/etc/rexd/config.toml").exists() || user.is_some_and(|file| file.exists())
}
