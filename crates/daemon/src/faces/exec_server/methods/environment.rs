//! `environment/info` and `environment/status`: the machine, for a client on another one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Roots;
use serde_json::Value;
use wire::exec_server::v1::{Capabilities, EnvironmentInfo, EnvironmentStatus, ShellInfo};

use super::{Context, ExecServerPrepared, PrepareResult, uri};

/// The shell for a user without one.
const FALLBACK: &str = "/bin/sh";

/// Checks and converts a `environment/info` request.
pub(crate) fn info_request(_: &Arc<Value>, context: &Context<'_>) -> PrepareResult {
    let info = info(&context.session.roots);
    Ok(ExecServerPrepared::response(async { Ok(info) }))
}

/// Checks and converts a `environment/status` request.
pub(crate) fn status_request(_: &Arc<Value>, _: &Context<'_>) -> PrepareResult {
    Ok(ExecServerPrepared::response(async { Ok(EnvironmentStatus { status: "ready".to_owned() }) }))
}

/// The machine, the user's shell, and optional capabilities of this server.
pub(crate) fn info(roots: &Roots) -> EnvironmentInfo {
    let is_served = |path: &PathBuf| path.is_absolute() && roots.admit(path, path).is_ok();
    let temp = Some(std::env::temp_dir()).filter(is_served).map(|temp| uri(&temp));
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    EnvironmentInfo {
        shell: shell(),
        cwd: start_directory(roots).filter(is_served).map(|cwd| uri(&cwd)),
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

/// Where a client without a project of its own begins: the first root, or this process's directory if `/` is served.
fn start_directory(roots: &Roots) -> Option<PathBuf> {
    match roots.paths().first() {
        Some(root) if root != Path::new("/") => Some(root.clone()),
        _ => std::env::current_dir().ok(),
    }
}

fn shell() -> ShellInfo {
    let configured = std::env::var("SHELL").ok().filter(|shell| Path::new(shell).is_absolute());
    let usual = ["/bin/bash", FALLBACK].into_iter().map(str::to_owned);
    let exists = |shell: &String| Path::new(shell).exists();
    let path = configured.into_iter().chain(usual).find(exists).unwrap_or_else(|| FALLBACK.to_owned());
    let name = Path::new(&path).file_name().and_then(|name| name.to_str()).unwrap_or("sh");
    ShellInfo { name: name.to_owned(), path }
}
