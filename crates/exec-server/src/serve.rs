//! Being a server: what `rexd exec-server` does, for a program of one's own.

use std::path::PathBuf;

use anyhow::Context as _;
use daemon::cli::args::{ExecServerArgs, WsAuthFlags};
use daemon::config::{Config, ConfigArgs, Paths};
use daemon::faces::exec_server::listen::ExecServerTransport;
use daemon::faces::exec_server::relay::RemoteExecutorConfig;

/// Where a server finds what it needs at run time. Everything has a default, as for `rexd`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecServerRuntimePaths {
    /// The configuration: roots, rules, sandbox, audit. The usual places are searched if absent.
    pub config_file: Option<PathBuf>,
    /// The folder for the audit and other state; the user's if absent.
    pub state_dir: Option<PathBuf>,
    /// What may be seen and changed; what the configuration says if empty, and everything that the user may if that
    /// says nothing.
    pub roots: Vec<PathBuf>,
}

/// Serves on a URL, `ws://IP:PORT` or `stdio`, until a signal asks for the end or the peer on stdio is done. The URL
/// with its real port is printed on standard output.
pub async fn run_main(listen_url: &str, paths: ExecServerRuntimePaths) -> anyhow::Result<()> {
    run_main_with_transport(listen_url.parse()?, paths).await
}

/// The same, for a URL that was read already.
pub async fn run_main_with_transport(
    transport: ExecServerTransport,
    paths: ExecServerRuntimePaths,
) -> anyhow::Result<()> {
    let daemon_paths = paths.daemon_paths();
    let config = ConfigArgs { file: paths.config_file, roots: paths.roots };
    let loaded = Config::load(&config, &daemon_paths).context("cannot read the configuration")?;
    let face = ExecServerArgs { config, transport, ws_auth: WsAuthFlags::default(), remote: None };
    daemon::serve::exec_server(&loaded, &daemon_paths, &face).await
}

/// Registers as an executor and serves whoever comes through the rendezvous, until a signal asks for the end or the
/// registry says something that no waiting mends.
pub async fn run_remote_executor(
    config: RemoteExecutorConfig,
    paths: ExecServerRuntimePaths,
) -> anyhow::Result<()> {
    let daemon_paths = paths.daemon_paths();
    let source = ConfigArgs { file: paths.config_file, roots: paths.roots };
    let loaded = Config::load(&source, &daemon_paths).context("cannot read the configuration")?;
    daemon::serve::remote_executor(&loaded, &daemon_paths, &config).await
}

impl ExecServerRuntimePaths {
    fn daemon_paths(&self) -> Paths {
        let paths = Paths::from_environment();
        match &self.state_dir {
            Some(folder) => Paths { state: Some(folder.clone()), ..paths },
            None => paths,
        }
    }
}
