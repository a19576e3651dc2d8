//! Serves exec-server from any program, as `rexd exec-server` does.

use std::path::PathBuf;

use anyhow::Context as _;
use daemon::cli::args::{ExecServer, WsAuthFlags};
use daemon::config::{Config, ConfigArgs, Places};
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
    let places = paths.places();
    let config = ConfigArgs { file: paths.config_file, roots: paths.roots };
    let loaded = Config::load(&config, &places).context("cannot read the configuration")?;
    let face = ExecServer { config, transport, ws_auth: WsAuthFlags::default(), remote: None };
    daemon::serve::exec_server(&loaded, &places, &face).await
}

/// Registers as an executor and serves the clients of the rendezvous, until a termination signal or a permanent error
/// of the registry.
pub async fn run_remote_executor(
    config: RemoteExecutorConfig,
    paths: ExecServerRuntimePaths,
) -> anyhow::Result<()> {
    let places = paths.places();
    let source = ConfigArgs { file: paths.config_file, roots: paths.roots };
    let loaded = Config::load(&source, &places).context("cannot read the configuration")?;
    daemon::serve::remote_executor(&loaded, &places, &config).await
}

impl ExecServerRuntimePaths {
    fn places(&self) -> Places {
        let places = Places::from_environment();
        match &self.state_dir {
            Some(directory) => Places { state: Some(directory.clone()), ..places },
            None => places,
        }
    }
}
