//! `environment/info`: what the machine is like, for a client that never sees it.

use std::path::{Path, PathBuf};

use engine::Roots;
use wire::exec_server::v1::{Capabilities, EnvironmentInfo, ShellInfo};

use super::paths::uri;

/// The shell of whoever has none.
const FALLBACK: &str = "/bin/sh";

/// The machine, the user's shell, and what we can do beyond the usual.
pub(super) fn info(roots: &Roots) -> EnvironmentInfo {
    let is_served = |path: &PathBuf| path.is_absolute() && roots.admit(path, path).is_ok();
    let temp = Some(std::env::temp_dir()).filter(is_served).map(|temp| uri(&temp));
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    EnvironmentInfo {
        shell: shell(),
        cwd: std::env::current_dir().ok().filter(is_served).map(|cwd| uri(&cwd)),
        temporary_directories: temp.iter().cloned().collect(),
        temp_dir: temp,
        executor_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        user_home_dir: home.map(|home| uri(&home)),
        platform_os: Some(std::env::consts::OS.to_owned()),
        capabilities: Capabilities {
            fs_watch_missing: true,
            http_header_env_vars: true,
            sandboxed_file_streaming: true,
            file_write_streaming: true,
        },
    }
}

fn shell() -> ShellInfo {
    let named = std::env::var("SHELL").ok().filter(|shell| Path::new(shell).is_absolute());
    let usual = ["/bin/bash", FALLBACK].into_iter().map(str::to_owned);
    let is_there = |shell: &String| Path::new(shell).exists();
    let path = named.into_iter().chain(usual).find(is_there).unwrap_or_else(|| FALLBACK.to_owned());
    let name = Path::new(&path).file_name().and_then(|name| name.to_str()).unwrap_or("sh");
    ShellInfo { name: name.to_owned(), path }
}
