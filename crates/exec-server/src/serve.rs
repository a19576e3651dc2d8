//! Serves exec-server from any program, as `rexd exec-server` does.

use std::path::PathBuf;

use anyhow::Context as _;
use daemon::cli::args::{ExecServerArgs, WsAuthFlags};
use daemon::config::{Config, ConfigArgs, Paths};
use daemon::faces::exec_server::listen::ExecServerTransport;
use daemon::faces::exec_server::relay::RemoteExecutorConfig;

/// The paths that a server uses at run time. All have defaults, as for `rexd`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecServerRuntimePaths {
    /// The configuration: roots, rules, sandbox, audit. The default paths are searched if absent.
    pub config_file: Option<PathBuf>,
    /// The directory for the audit and other state; the user's state directory if absent.
    pub state_dir: Option<PathBuf>,
    /// The directories that may be read and changed. If empty, those of the configuration; without any, all that the
    /// user may access.
    pub roots: Vec<PathBuf>,
}

/// Serves on a URL, `ws://IP:PORT` or `stdio`, until a termination signal or the end of stdin. Prints the URL with its
/// actual port on standard output.
pub async fn run_main(listen_url: &str, paths: ExecServerRuntimePaths) -> anyhow::Result<()> {
    run_main_with_transport(listen_url.parse()?, paths).await
}

/// The same as [`run_main`], for a parsed URL.
pub async fn run_main_with_transport(
    transport: ExecServerTransport,
    paths: ExecServerRuntimePaths,
) -> anyhow::Result<()> {
    let daemon_paths = paths.daemon_paths();
    let config = ConfigArgs { file: paths.config_file, roots: paths.roots };
    let loaded = Config::load(&config, &daemon_paths).context("cannot read the configuration")?;
    let ws_auth = WsAuthFlags::default();
    let face = ExecServerArgs { config, transport, ws_auth, remote: None, concurrent_requests: None };
    daemon::serve::exec_server(&loaded, &daemon_paths, &face).await
}

/// Registers as an executor and serves the clients of the rendezvous, until a termination signal or a permanent error
/// of the registry.
pub async fn run_remote_executor(
    config: RemoteExecutorConfig,
    paths: ExecServerRuntimePaths,
) -> anyhow::Result<()> {
    let daemon_paths = paths.daemon_paths();
    let source = ConfigArgs { file: paths.config_file, roots: paths.roots };
    let loaded = Config::load(&source, &daemon_paths).context("cannot read the configuration")?;
    daemon::serve::remote_executor(&loaded, &daemon_paths, &config, None).await
}

impl ExecServerRuntimePaths {
    fn daemon_paths(&self) -> Paths {
        let paths = Paths::from_environment();
        match &self.state_dir {
            Some(directory) => Paths { state: Some(directory.clone()), ..paths },
            None => paths,
        }
    }
}
