//! The exec-server face: alone, on standard streams or on an address, or beside the other faces over the same engine.

use std::io::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use link::task::Tasks;

use super::{alone, serve_peers_of, shut_down_alone, signals};
use crate::cli::args::{ExecServerArgs, RegistrationArgs, WsAuthFlags};
use crate::config::{Config, Listeners, Paths};
use crate::core::Core;
use crate::core::request::ConnectionContext;
use crate::core::session::Face as _;
use crate::faces::exec_server::listen::{ExecServerTransport, WebSocketFrontEnd, WsAuth};
use crate::faces::exec_server::relay::{self, RemoteExecutorConfig, RemoteExecutorError};
use crate::faces::exec_server::{self, ExecServer};
use crate::net::auth::Caller;
use crate::observe::metrics::Transport;

/// Serves only exec-server, until its peer disconnects or a signal ends the daemon.
pub async fn exec_server(config: &Config, paths: &Paths, face: &ExecServerArgs) -> anyhow::Result<()> {
    if let Some(remote) = &face.remote {
        let executor = executor(remote, None)?;
        return remote_executor(config, paths, &executor, face.concurrent_requests).await;
    }
    let (core, service, ending) = alone_with_face(config, paths, face.concurrent_requests)?;
    let _peers = serve_peers_of(&core);
    match face.transport {
        ExecServerTransport::Stdio => {
            let link = link::stdio::open(&exec_server::link_limits(&core))
                .context("cannot use standard input and output")?;
            let context = ConnectionContext::new(Caller::on_stdio(), Transport::Stdio);
            exec_server::serve(service.clone(), link, context).await;
        }
        ExecServerTransport::WebSocket { bind_address } => {
            let auth = ws_auth(&face.ws_auth)?;
            let listener = auth.bind(bind_address).await?;
            let mut out = std::io::stdout().lock();
            writeln!(out, "ws://{}", listener.local_addr()?)?;
            out.flush()?;
            drop(out);
            WebSocketFrontEnd::server(service.clone(), auth, config.server.max_connections)
                .run(listener)
                .await;
        }
    }
    shut_down_alone(&core, &[service.sessions().tasks()], &ending).await;
    Ok(())
}

/// Registers with a hub as an executor and serves its streams, until a signal ends the daemon or a permanent error occurs.
pub async fn remote_executor(
    config: &Config,
    paths: &Paths,
    executor: &RemoteExecutorConfig,
    concurrent_requests: Option<NonZeroUsize>,
) -> anyhow::Result<()> {
    let (core, service, ending) = alone_with_face(config, paths, concurrent_requests)?;
    let _peers = serve_peers_of(&core);
    let ended = register(&service, executor).await;
    shut_down_alone(&core, &[service.sessions().tasks()], &ending).await;
    Ok(ended?)
}

/// An engine for this face alone, the face, and the shutdown signals.
fn alone_with_face(
    config: &Config,
    paths: &Paths,
    concurrent_requests: Option<NonZeroUsize>,
) -> anyhow::Result<(Arc<Core>, Arc<ExecServer>, signals::ShutdownSignals)> {
    let (core, ending) = alone(config, paths)?;
    let face = ExecServer::new(core.clone()).with_resume_bytes(config.server.resume_bytes);
    Ok((core, Arc::new(face.with_concurrent_requests(concurrent_requests)), ending))
}

/// The exec-server face beside the other faces, from flags and the configuration.
#[derive(Debug, Default)]
pub struct ExecServerFace {
    max_connections: usize,
    resume_bytes: u64,
    listen: Option<(SocketAddr, WsAuth)>,
    executor: Option<RemoteExecutorConfig>,
}

impl ExecServerFace {
    /// Flags take precedence over the file. If a flag sets the authentication, the file's settings for it are ignored.
    pub fn new(
        listeners: &Listeners,
        flags: &WsAuthFlags,
        config: &Config,
    ) -> anyhow::Result<ExecServerFace> {
        let file = &config.exec_server;
        let auth = if *flags == WsAuthFlags::default() { &file.ws_auth } else { flags };
        let listen = match listeners.exec_server {
            Some(address) => Some((address, ws_auth(auth)?)),
            None => None,
        };
        let executor = match &file.remote {
            Some(remote) if listeners.registers => Some(executor(remote, file.remote_token_file.as_deref())?),
            _ => None,
        };
        let (max_connections, resume_bytes) = (config.server.max_connections, config.server.resume_bytes);
        Ok(ExecServerFace { max_connections, resume_bytes, listen, executor })
    }

    /// Opens the listener and the registration. Returns the face and the URL of its listener.
    pub(super) async fn beside(
        self,
        core: &Arc<Core>,
        tasks: &Tasks,
    ) -> anyhow::Result<Option<(Arc<ExecServer>, Option<String>)>> {
        if self.listen.is_none() && self.executor.is_none() {
            return Ok(None);
        }
        let service = Arc::new(ExecServer::new(core.clone()).with_resume_bytes(self.resume_bytes));
        let mut url = None;
        if let Some((address, auth)) = self.listen {
            let listener = auth.bind(address).await?;
            url = Some(format!("ws://{}", listener.local_addr()?));
            let sockets = WebSocketFrontEnd::server(service.clone(), auth, self.max_connections);
            tasks.spawn(sockets.run(listener));
        }
        if let Some(executor) = self.executor {
            let service = service.clone();
            tasks.spawn(async move {
                // The other faces continue.
                if let Err(error) = register(&service, &executor).await {
                    tracing::error!("{error}; the daemon is not registered until it is restarted");
                }
            });
        }
        Ok(Some((service, url)))
    }
}

/// Serves the streams of a rendezvous until the face ends or a permanent error occurs.
async fn register(
    service: &Arc<ExecServer>,
    executor: &RemoteExecutorConfig,
) -> Result<(), RemoteExecutorError> {
    let serve = |link| {
        let context = ConnectionContext::new(Caller::through_rendezvous(), Transport::Ws);
        exec_server::serve(service.clone(), link, context)
    };
    tokio::select! {
        ended = relay::run(executor, serve, &service.core().tasks) => ended.map(|never| match never {}),
        () = service.core().stop.cancelled() => Ok(()),
    }
}

/// The executor to register, with the token in this file or in the environment.
fn executor(remote: &RegistrationArgs, token_file: Option<&Path>) -> anyhow::Result<RemoteExecutorConfig> {
    let executor = match token_file {
        Some(path) => {
            let unusable = || format!("exec_server.remote_token_file {} cannot be used", path.display());
            let token = std::fs::read_to_string(path).with_context(unusable)?;
            RemoteExecutorConfig::with_bearer_token(&remote.url, &remote.executor_id, &token)
                .with_context(unusable)?
        }
        None => RemoteExecutorConfig::new(&remote.url, &remote.executor_id)?,
    };
    Ok(remote.name.iter().fold(executor, |executor, name| executor.named(name)))
}

fn ws_auth(flags: &WsAuthFlags) -> anyhow::Result<WsAuth> {
    Ok(WsAuth::from_flags(flags.mode.as_deref(), flags.file.as_deref(), flags.sha256.as_deref())?)
}
