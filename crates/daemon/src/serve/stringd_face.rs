//! The stringd face: alone, or beside the other faces over the same engine. It listens on 127.0.0.1 and nowhere else.

use std::ffi::OsString;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use link::task::Tasks;
use tokio::net::TcpListener;
use wire::stringd::v0_1::DEFAULT_PORT;

use super::{alone, serve_peers_of, shut_down_alone};
use crate::cli::args::StringdArgs;
use crate::config::{Config, Listeners, Paths};
use crate::core::Core;
use crate::core::session::Face as _;
use crate::faces::stringd::{self, Stringd, StringdLog, StringdSettings};

/// Serves only stringd, until `/shutdown` or a signal ends the daemon.
pub async fn stringd(config: &Config, paths: &Paths, args: &StringdArgs) -> anyhow::Result<()> {
    let settings = StringdFace::alone(config, paths, args, |name| std::env::var_os(name))?;
    let listener = settings.bind().await?;
    let (core, ending) = alone(config, paths)?;
    let _peers = serve_peers_of(&core);
    let max_connections = settings.max_connections;
    let face = settings.open(&core)?;
    let mut out = std::io::stdout().lock();
    if let (users @ 1.., file) = face.loaded_users() {
        writeln!(out, "Loaded {users} user(s) from {}", file.display())?;
    }
    writeln!(out, "stringd listening on http://{}", listener.local_addr()?)?;
    out.flush()?;
    drop(out);
    face.log_start(listener.local_addr()?.port());
    stringd::server(face.clone(), max_connections).run(listener).await;
    face.end().await;
    shut_down_alone(&core, &[face.sessions().tasks()], &ending).await;
    Ok(())
}

/// The stringd face from flags, environment and configuration.
#[derive(Debug)]
pub struct StringdFace {
    port: u16,
    max_connections: usize,
    settings: StringdSettings,
}

impl StringdFace {
    /// The face alone: an argument wins over a variable, and this over the file. Its data is in the current directory.
    fn alone(
        config: &Config,
        paths: &Paths,
        args: &StringdArgs,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> anyhow::Result<StringdFace> {
        let filled = |name: &str| variable(name).filter(|value| !value.is_empty());
        let port =
            filled("STRINGD_PORT").and_then(|port| port.to_str()?.parse().ok()).filter(|port| *port != 0);
        let port = args.port.or(port).or(config.stringd.port).unwrap_or(DEFAULT_PORT);
        let data_dir = filled("STRINGD_DATA_DIR").map(|dir| paths.current.join(PathBuf::from(dir)));
        let data_dir = data_dir.or_else(|| config.stringd.data_dir.clone());
        let data_dir = data_dir.unwrap_or_else(|| paths.current.join(".stringd"));
        let logs = args.log || filled("STRINGD_LOG").is_some_and(|value| value == "1");
        StringdFace::new(config, paths, (port, data_dir, logs))
    }

    /// The face of `rexd serve`, if a flag or the file names its port. Its data is in the state directory.
    pub fn beside_others(
        config: &Config,
        paths: &Paths,
        listeners: &Listeners,
    ) -> anyhow::Result<Option<StringdFace>> {
        let Some(port) = listeners.stringd else { return Ok(None) };
        let in_state = || paths.state.as_ref().map(|state| state.join("stringd"));
        let data_dir = config.stringd.data_dir.clone().or_else(in_state);
        let data_dir = data_dir.context("there is no state directory: set HOME or stringd.data_dir")?;
        if config.roots.is_empty() {
            tracing::warn!("no roots are configured: stringd serves / with the rights of this user");
        }
        StringdFace::new(config, paths, (port, data_dir, false)).map(Some)
    }

    fn new(
        config: &Config,
        paths: &Paths,
        (port, data_dir, logs): (u16, PathBuf, bool),
    ) -> anyhow::Result<StringdFace> {
        let log = match logs {
            true => Some(StringdLog::open(&data_dir).context("cannot write the log of stringd")?),
            false => None,
        };
        let file = &config.stringd;
        let settings = StringdSettings {
            data_dir,
            access: file.access,
            queue: file.queue,
            command_timeout: file.command_timeout,
            daemon_home: paths.home.clone(),
            log,
        };
        Ok(StringdFace { port, max_connections: config.server.max_connections, settings })
    }

    async fn bind(&self) -> anyhow::Result<TcpListener> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
    }

    fn open(self, core: &Arc<Core>) -> anyhow::Result<Arc<Stringd>> {
        let data = self.settings.data_dir.clone();
        Stringd::new(core.clone(), self.settings).with_context(|| format!("cannot use {}", data.display()))
    }

    /// Opens the listener beside the other faces. Returns the face and its URL.
    pub(super) async fn beside(
        self,
        core: &Arc<Core>,
        tasks: &Tasks,
    ) -> anyhow::Result<(Arc<Stringd>, String)> {
        let (listener, max_connections) = (self.bind().await?, self.max_connections);
        let url = format!("http://{}", listener.local_addr()?);
        let face = self.open(core)?;
        let (server, served) = (stringd::server(face.clone(), max_connections), face.clone());
        tasks.spawn(async move {
            server.run(listener).await;
            served.end().await;
        });
        Ok((face, url))
    }
}
