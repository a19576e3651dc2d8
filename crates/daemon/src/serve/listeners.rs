//! `rexd serve`: opens every configured listener, serves until a signal, and drains.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use link::listen::{ConnectionLimiter, HttpServer, PhaseDeadlines, Tls, WhenFull, bind};
use link::task::Tasks;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use super::exec_server_face::ExecServerFace;
use super::host_face::HostFace;
use super::signals::{self, ShutdownSignals};
use super::sockets::Sockets;
use super::stringd_face::StringdFace;
use super::{core, link_limits, open_audit, retention, sink};
use crate::cli::args::WsAuthFlags;
use crate::config::{Config, ConfigArgs, Listeners, Paths};
use crate::core::request::ConnectionContext;
use crate::core::runtime_policy::RuntimePolicy;
use crate::core::session::Face;
use crate::faces::exec_server::ExecServer;
use crate::faces::host::Host;
use crate::faces::rexd::{self, Rexd};
use crate::faces::stringd::Stringd;
use crate::net::auth::{Auth, Authenticator, Caller, RejectionLog};
use crate::net::http::{HEARTBEAT, HttpFrontEnd};
use crate::net::listen::{self, PassedListener, UnixSocket};
use crate::observe::metrics::{FaceMethods, Metrics, Transport};
use crate::observe::traces::{ExporterHandle, TraceSettings, Traces};
use crate::serve::notify::Notify;

/// The minimal time between a ping and the end of a connection that does not respond.
const PING_GRACE: Duration = Duration::from_secs(10);

/// What `rexd serve` opens.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The flags that select the configuration, to reload it.
    pub source: &'a ConfigArgs,
    /// The paths of configuration and state.
    pub paths: &'a Paths,
    /// The listeners of flags and configuration.
    pub listeners: Listeners,
    /// The client CA of the flags, which the configuration cannot change.
    pub client_ca: Option<PathBuf>,
    /// The exec-server face.
    pub exec_server: ExecServerFace,
    /// The host face.
    pub host: Option<HostFace>,
    /// The stringd face.
    pub stringd: Option<StringdFace>,
    /// Sockets that the service manager passed.
    pub passed: Vec<OwnedFd>,
}

/// The paths, with the sockets and secrets of listeners that flags or the service manager name.
pub fn with_listener_files(
    paths: &Paths,
    listeners: &Listeners,
    ws_auth: &WsAuthFlags,
    passed: &[OwnedFd],
) -> Paths {
    let key = listeners.tls.as_ref().map(|tls| tls.key.clone());
    let named = [listeners.unix.clone(), key, ws_auth.file.clone()].into_iter().flatten();
    let files = named.chain(listen::passed_paths(passed)).map(|file| paths.current.join(file));
    Paths { listener_files: files.collect(), ..paths.clone() }
}

/// Serves all listeners until a signal ends the daemon.
pub async fn serve(plan: Plan<'_>) -> anyhow::Result<()> {
    let Plan { config, source, paths, listeners, client_ca, exec_server, host, stringd, passed } = plan;
    // Every connection needs a descriptor.
    engine::process::raise_open_file_limit();
    let ending = signals::handle_shutdown(false)?;
    let mut hangups = signals::hangups()?;
    let notify = Notify::from_environment();
    let tls = listeners.tls.as_ref().map(|files| Tls::open(files, listeners.client_ca.as_deref()));
    let tls = tls.transpose().context("cannot use TLS")?;
    let auth = Auth::new(config, paths)?;
    let (sockets, exporting) = sockets(config, paths, (&auth, &tls), &ending)?;
    let urls = open(&sockets, &listeners, passed).await?;
    let exec_server = exec_server.beside(sockets.front_end().face.core(), &sockets.tasks).await?;
    let stringd = match stringd {
        Some(face) => Some(face.beside(sockets.front_end().face.core(), &sockets.tasks).await?),
        None => None,
    };
    host.iter().for_each(HostFace::log_to_file);
    let host = host.map(|host| host.open(sockets.front_end().face.core())).transpose()?;
    if urls.iter().any(|url| url.starts_with("http")) {
        announce_token(&auth)?;
    }
    let faces = urls.iter().map(|url| (Rexd::NAME, url.as_str()));
    let exec_server_url = exec_server.as_ref().and_then(|(_, url)| url.as_deref());
    let stringd_url = stringd.as_ref().map(|(_, url)| (Stringd::NAME, url.as_str()));
    let faces = faces.chain(exec_server_url.map(|url| (ExecServer::NAME, url)));
    let faces: Vec<_> = faces.chain(stringd_url).collect();
    announce(&faces, listeners.stdio)?;
    notify.ready(&format!("listening on {}", urls.join(", ")));
    if listeners.stdio {
        serve_stdio(&sockets)?;
    }
    let _peers = super::serve_peers(&sockets.front_end().face);
    if let Some(host) = &host {
        let rexd = super::host_face::serve_rexd(config, &sockets.front_end().face);
        sockets.tasks.spawn(host.clone().run(rexd));
    }
    watch_credentials(&sockets, tls.clone(), auth, &ending.stop);
    loop {
        tokio::select! {
            () = ending.stop.cancelled() => break,
            _hangup = hangups.recv() => {
                notify.reloading();
                reload((source, paths), sockets.front_end(), tls.as_ref(), client_ca.as_deref());
                notify.ready(&format!("listening on {}", urls.join(", ")));
            }
        }
    }
    notify.stopping();
    let mut sessions = vec![sockets.front_end().face.sessions().tasks().clone()];
    sessions.extend(exec_server.iter().map(|(face, _)| face.sessions().tasks().clone()));
    sessions.extend(host.iter().map(|face| face.sessions().tasks().clone()));
    sessions.extend(stringd.iter().map(|(face, _)| face.sessions().tasks().clone()));
    drain(&sockets, &sessions, config.server.drain, &ending).await;
    if let Some(exporting) = exporting {
        exporting.finish().await;
    }
    Ok(())
}

/// Follows changes of certificates, tokens and what they permit, until the daemon stops.
fn watch_credentials(sockets: &Sockets, tls: Option<Tls>, auth: Auth, stop: &CancellationToken) {
    if let (Some(tls), auth, stop) = (tls, auth.clone(), stop.clone()) {
        let reloading = async move { tls.reload_on_change(|| auth.recheck()).await };
        sockets.tasks.spawn(async move { stop.run_until_cancelled(reloading).await });
    }
    let watched = stop.clone();
    sockets.tasks.spawn(async move { auth.watch_files(watched).await });
    let (front_end, stop) = (sockets.front_end().clone(), stop.clone());
    sockets.tasks.spawn(async move { end_revoked(&front_end, stop).await });
}

fn sockets(
    config: &Config,
    paths: &Paths,
    (auth, tls): (&Auth, &Option<Tls>),
    ending: &ShutdownSignals,
) -> anyhow::Result<(Sockets, Option<ExporterHandle>)> {
    let metrics =
        Metrics::new(&[methods::<Rexd>(), methods::<ExecServer>(), methods::<Host>(), methods::<Stringd>()]);
    let audit = open_audit(config, &metrics)?;
    audit.iter().for_each(|file| file.start());
    let audit = sink(audit);
    let (traces, exporting) = traces(config, &metrics)?;
    let mut core = core(config, paths, (audit.clone(), metrics.clone()), ending.stop.clone())?;
    core.traces = traces;
    let file = &config.server;
    let limits = link_limits(&core);
    let front_end = HttpFrontEnd {
        face: Arc::new(Rexd::new(Arc::new(core), Some(retention(file)), None)),
        authenticator: Authenticator::new(auth.clone(), file),
        rejections: RejectionLog::new(audit),
        metrics,
        serves_metrics: config.telemetry.metrics,
        http_path: file.http_path.clone(),
        ws_path: file.ws_path.clone(),
        heartbeat: HEARTBEAT,
        websocket: link::websocket::Settings { ping_every: file.ping, deadline: file.ping * 2 + PING_GRACE },
        limits,
        stop: ending.stop.clone(),
        tasks: Tasks::new(),
    };
    let tasks = front_end.tasks.clone();
    let http = HttpServer {
        service: Arc::new(front_end),
        limiter: ConnectionLimiter::new(file.max_connections),
        when_full: WhenFull::Reject,
        deadlines: PhaseDeadlines::default(),
        tls: tls.clone(),
        stop: ending.stop.clone(),
        tasks: tasks.clone(),
    };
    let local_limiter = ConnectionLimiter::new(file.max_connections);
    Ok((Sockets { http: Arc::new(http), local_limiter, tasks }, exporting))
}

/// The methods of a face, for its metrics.
fn methods<F: Face>() -> FaceMethods {
    FaceMethods::new(F::NAME, F::table().iter().map(|method| method.name()))
}

/// Traces, if a collector is configured.
fn traces(config: &Config, metrics: &Metrics) -> anyhow::Result<(Traces, Option<ExporterHandle>)> {
    let endpoint = config.telemetry.otlp_endpoint.as_deref();
    let settings = TraceSettings::read(endpoint, |name| std::env::var(name).ok())?;
    let started = settings.map(|settings| Traces::start(settings, metrics.clone()));
    Ok(started.map_or((Traces::off(), None), |(traces, exporting)| (traces, Some(exporting))))
}

/// Opens every listener and returns their URLs.
async fn open(sockets: &Sockets, listeners: &Listeners, passed: Vec<OwnedFd>) -> anyhow::Result<Vec<String>> {
    let is_encrypted = sockets.http.tls.is_some();
    let scheme = if is_encrypted { "https" } else { "http" };
    let mut urls = Vec::new();
    let mut tcp = Vec::new();
    if let Some(address) = &listeners.http {
        tcp.push(bind(address).await?);
    }
    for passed in listen::passed(passed).context("cannot serve a socket of the service manager")? {
        match passed {
            PassedListener::Tcp(listener) => tcp.push(listener),
            PassedListener::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().map_or_else(String::new, |path| path.display().to_string());
                urls.push(format!("unix://{path}"));
                sockets.serve_unix(Arc::<UnixListener>::new(listener));
            }
        }
    }
    for listener in tcp {
        let address = listener.local_addr()?;
        if !is_encrypted && !address.ip().is_loopback() {
            tracing::warn!("other machines can reach {address} without TLS, so tokens can be intercepted");
        }
        urls.insert(0, format!("{scheme}://{address}"));
        sockets.tasks.spawn(sockets.http.clone().run(listener));
    }
    if let Some(path) = &listeners.unix {
        let unix = UnixSocket::bind(path)?;
        let path = std::path::absolute(&unix.path)?;
        urls.push(format!("unix://{}", path.display()));
        sockets.serve_unix(unix);
    }
    Ok(urls)
}

/// Prints one line per listener, on stdout unless that carries messages.
fn announce(faces: &[(&str, &str)], has_stdio: bool) -> std::io::Result<()> {
    let mut out: Box<dyn std::io::Write> = match has_stdio {
        true => Box::new(std::io::stderr()),
        false => Box::new(std::io::stdout()),
    };
    for (face, url) in faces {
        writeln!(out, "listening {face} {url}")?;
    }
    out.flush()
}

fn announce_token(auth: &Auth) -> anyhow::Result<()> {
    if let Some(file) = auth.ensure_token()? {
        writeln!(std::io::stderr(), "rexd: the token is in {}", file.display())?;
    }
    Ok(())
}

/// Serves standard streams beside the sockets; the daemon does not end with them.
fn serve_stdio(sockets: &Sockets) -> anyhow::Result<()> {
    let server = sockets.front_end();
    let link = link::stdio::open(&server.limits).context("cannot use standard input and output")?;
    let context = ConnectionContext::new(Caller::on_stdio(), Transport::Stdio);
    let counted = server.metrics.connection(Transport::Stdio);
    let serving = rexd::serve(server.face.clone(), link, context, server.stop.clone());
    sockets.tasks.spawn(async move {
        serving.await;
        drop(counted);
    });
    Ok(())
}

/// Reloads the policy, the tokens and the certificate. An error keeps the old values.
fn reload(
    (source, paths): (&ConfigArgs, &Paths),
    server: &HttpFrontEnd,
    tls: Option<&Tls>,
    client_ca: Option<&Path>,
) {
    let config = Config::load(source, paths);
    let reload_tls = |tls: &Tls| match &config {
        Ok(config) => tls.reload_with(client_ca.or(config.server.client_ca.as_deref())),
        Err(_) => tls.reload(),
    };
    match tls.map(reload_tls) {
        Some(Err(error)) => tracing::error!("reloading TLS failed, keeping the old certificate: {error}"),
        Some(Ok(())) => {
            server.authenticator.auth.recheck();
            tracing::info!("reloaded the certificate");
        }
        None => {}
    }
    match config {
        Ok(config) => {
            if let Err(error) = server.authenticator.auth.reload(&config) {
                tracing::error!("reloading the tokens failed, keeping the old ones: {error}");
            }
            server.face.core().policy.replace(RuntimePolicy::new(&config, paths));
            tracing::info!("reloaded the policy: {} rules", config.policy.settings().rules.len());
        }
        Err(error) => tracing::error!("reloading the configuration failed, keeping the old one: {error}"),
    }
}

/// Ends the sessions of callers whose credentials were revoked; their connections end by themselves.
async fn end_revoked(server: &HttpFrontEnd, stop: CancellationToken) {
    let mut changes = server.authenticator.auth.changed();
    while let Some(Ok(())) = stop.run_until_cancelled(changes.changed()).await {
        let auth = &server.authenticator.auth;
        server.face.sessions().end_revoked(|caller| !auth.is_valid(caller));
    }
}

/// Ends sessions and connections; after a second signal without waiting.
async fn drain(sockets: &Sockets, sessions: &[Tasks], timeout: Duration, ending: &ShutdownSignals) {
    let core = sockets.front_end().face.core();
    let drained = async {
        sockets.tasks.close();
        let sessions: Vec<&Tasks> = sessions.iter().collect();
        let done = async { tokio::join!(super::shut_down(core, &sessions), sockets.tasks.wait()) };
        if tokio::time::timeout(timeout, done).await.is_err() {
            tracing::warn!("some connections did not end in time");
        }
    };
    tokio::select! {
        () = drained => {}
        () = ending.at_once.cancelled() => {
            tracing::warn!("second signal: ending at once");
            core.engine.shut_down();
        }
    }
    sockets.front_end().rejections.summarise();
}
