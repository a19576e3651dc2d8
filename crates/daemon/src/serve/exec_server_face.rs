//! exec-server: alone, on standard streams or on an address, or beside the other faces over the same engine.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use tokio_util::task::TaskTracker;

use super::{core, open_audit, shut_down as shut_down_core, signals, sink};
use crate::cli::args::{ExecServerArgs, WsAuthFlags};
use crate::config::{Config, Listeners, Paths};
use crate::core::Core;
use crate::core::request::ConnectionContext;
use crate::core::session::Face as _;
use crate::faces::exec_server::listen::{ExecServerTransport, WebSocketFrontEnd, WsAuth};
use crate::faces::exec_server::relay::{self, RemoteExecutorConfig, RemoteExecutorError};
use crate::faces::exec_server::{self, ExecServer};
use crate::net::auth::Caller;
use crate::observe::metrics::{Metrics, Transport};

/// Serves exec-server alone until its peer is done or a signal asks for the end.
pub async fn exec_server(config: &Config, paths: &Paths, face: &ExecServerArgs) -> anyhow::Result<()> {
    if let Some(remote) = &face.remote {
        let executor = RemoteExecutorConfig::new(&remote.url, &remote.executor_id)?;
        let executor = remote.name.iter().fold(executor, |executor, name| executor.named(name));
        return remote_executor(config, paths, &executor).await;
    }
    let (core, service, ending) = alone(config, paths)?;
    match face.transport {
        ExecServerTransport::Stdio => {
            let link = link::stdio::open(&exec_server::link_limits())
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
    shut_down(&core, &service, &ending).await;
    Ok(())
}

/// Registers as an executor and serves the streams that come from there, until a signal asks for the end or something
/// happens that no waiting mends.
pub async fn remote_executor(
    config: &Config,
    paths: &Paths,
    executor: &RemoteExecutorConfig,
) -> anyhow::Result<()> {
    let (core, service, ending) = alone(config, paths)?;
    let ended = register(&service, executor).await;
    shut_down(&core, &service, &ending).await;
    Ok(ended?)
}

/// Ends every session, unless a second signal wants the end at once: the kernel then takes the processes along.
async fn shut_down(core: &Core, face: &ExecServer, ending: &signals::ShutdownSignals) {
    let sessions = [face.sessions().tasks()];
    let orderly = shut_down_core(core, &sessions);
    tokio::select! {
        () = orderly => {}
        () = ending.at_once.cancelled() => {}
    }
}

/// An engine for this face alone, the face over it, and what signals ask for: a terminal that closes is one.
fn alone(
    config: &Config,
    paths: &Paths,
) -> anyhow::Result<(Arc<Core>, Arc<ExecServer>, signals::ShutdownSignals)> {
    engine::process::raise_open_file_limit();
    let ending = signals::handle_shutdown(true)?;
    let stop = ending.stop.clone();
    let metrics = Metrics::off();
    let audit = open_audit(config, &metrics)?;
    audit.iter().for_each(|file| file.start());
    let core = Arc::new(core(config, paths, (sink(audit), metrics), stop)?);
    let face = Arc::new(ExecServer::new(core.clone()));
    Ok((core, face, ending))
}

/// What Codex is offered beside the other faces, of what flags and the file say together.
#[derive(Debug, Default)]
pub struct ExecServerFace {
    /// Connections at a time.
    most: usize,
    listen: Option<(SocketAddr, WsAuth)>,
    executor: Option<RemoteExecutorConfig>,
}

impl ExecServerFace {
    /// Flags win over the file: if they say anything of what clients have to show, the file says nothing.
    pub fn new(
        listeners: &Listeners,
        flags: &WsAuthFlags,
        config: &Config,
    ) -> anyhow::Result<ExecServerFace> {
        let file = &config.exec_server;
        let shown = if *flags == WsAuthFlags::default() { &file.ws_auth } else { flags };
        let listen = listeners.exec_server.map(|address| Ok::<_, anyhow::Error>((address, ws_auth(shown)?)));
        let remote = file.remote.as_ref().filter(|_| listeners.registers);
        let executor = remote.map(|remote| {
            let executor = match &file.remote_token_file {
                Some(path) => {
                    let unusable =
                        || format!("exec_server.remote_token_file {} cannot be used", path.display());
                    let token = std::fs::read_to_string(path).with_context(unusable)?;
                    RemoteExecutorConfig::with_bearer_token(&remote.url, &remote.executor_id, &token)
                        .with_context(unusable)?
                }
                None => RemoteExecutorConfig::new(&remote.url, &remote.executor_id)?,
            };
            Ok::<_, anyhow::Error>(remote.name.iter().fold(executor, |executor, name| executor.named(name)))
        });
        Ok(ExecServerFace {
            most: config.server.max_connections,
            listen: listen.transpose()?,
            executor: executor.transpose()?,
        })
    }

    /// Opens what is offered; the face, and where it listens.
    pub(super) async fn beside(
        self,
        core: &Arc<Core>,
        tasks: &TaskTracker,
    ) -> anyhow::Result<Option<(Arc<ExecServer>, Option<String>)>> {
        if self.listen.is_none() && self.executor.is_none() {
            return Ok(None);
        }
        let service = Arc::new(ExecServer::new(core.clone()));
        let mut url = None;
        if let Some((address, auth)) = self.listen {
            let listener = auth.bind(address).await?;
            url = Some(format!("ws://{}", listener.local_addr()?));
            let sockets = WebSocketFrontEnd::server(service.clone(), auth, self.most);
            tasks.spawn(sockets.run(listener));
        }
        if let Some(executor) = self.executor {
            let service = service.clone();
            tasks.spawn(async move {
                // The other faces go on: what no waiting mends is for the operator to mend.
                if let Err(error) = register(&service, &executor).await {
                    tracing::error!("{error}; this daemon is no executor there until it is started again");
                }
            });
        }
        Ok(Some((service, url)))
    }
}

/// Serves the streams of a rendezvous until the face ends, or something happens that no waiting mends.
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

fn ws_auth(flags: &WsAuthFlags) -> anyhow::Result<WsAuth> {
    Ok(WsAuth::from_flags(flags.mode.as_deref(), flags.file.as_deref(), flags.sha256.as_deref())?)
}
