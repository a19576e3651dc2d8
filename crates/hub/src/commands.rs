//! The commands of `rexhub`.

use std::io::Write as _;

use anyhow::{Context as _, bail};
use link::listen::Tls;
use link::task::OwnedTask;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::administration;
use crate::args::{DataArgs, HubCommand, Serve};
use crate::config::{Config, Limits, Storage, TlsFiles, default_data};
use crate::log;
use crate::serve::Hub;
use crate::store::Retention;

/// Runs one command of the hub.
pub async fn run(command: HubCommand) -> anyhow::Result<()> {
    match command {
        HubCommand::Serve(serve) => run_hub(serve).await,
        HubCommand::User(command) => administration::user(command).await,
        HubCommand::Token(command) => administration::token(command).await,
        HubCommand::JoinCode(args) => administration::join_code(args).await,
        HubCommand::Host(command) => administration::host(command).await,
    }
}

async fn run_hub(serve: Serve) -> anyhow::Result<()> {
    if serve.nats.is_some() {
        unsupported("--nats")?;
    }
    log::to_stderr();
    raise_open_files();
    let stop = CancellationToken::new();
    let mut signals = stop_on_signals(&stop)?;
    let tls = serve.tls_cert.zip(serve.tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
    let config = Config {
        storage: storage(serve.data)?,
        enrolment: serve.enrol,
        retention: Retention {
            age_ms: i64::from(serve.keep_days) * 24 * 3600 * 1000,
            bytes: i64::from(serve.keep_gib) << 30,
        },
        listen: serve.listen,
        tls,
        public_url: serve.public_url,
        authority: serve.ca_cert,
        push_allow_private: serve.push_allow_private,
        limits: Limits::default(),
    };
    let hub = Hub::bind(config).await?;
    if hub.is_exposed() {
        tracing::warn!("tokens are sent unencrypted: use --tls-cert and --tls-key, or a proxy with TLS");
    }
    let reloading = reload_on_hangup(hub.tls())?;
    print_line(&format!("listening {}", hub.url()))?;
    let served = hub.serve(stop).await;
    signals.shutdown().await;
    reloading.stop().await;
    Ok(served?)
}

/// Raises the limit on open files: each connection needs one.
fn raise_open_files() {
    let mut limits = getrlimit(Resource::Nofile);
    limits.current = limits.maximum;
    // If this fails, fewer connections are possible.
    setrlimit(Resource::Nofile, limits).ok();
}

/// TERM and INT stop the hub: the first after a drain, the second at once.
fn stop_on_signals(stop: &CancellationToken) -> anyhow::Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut received = signal(kind).context("cannot handle signals")?;
        let stop = stop.clone();
        tasks.spawn(async move {
            while received.recv().await.is_some() {
                if stop.is_cancelled() {
                    std::process::exit(1);
                }
                stop.cancel();
            }
        });
    }
    Ok(tasks)
}

/// HUP reloads the certificate.
fn reload_on_hangup(tls: Option<Tls>) -> anyhow::Result<OwnedTask<()>> {
    let mut received = signal(SignalKind::hangup()).context("cannot handle signals")?;
    Ok(OwnedTask::spawn(async move {
        while received.recv().await.is_some() {
            match tls.as_ref().map(Tls::reload) {
                Some(Ok(())) => tracing::info!("reloaded the TLS certificate"),
                Some(Err(error)) => {
                    tracing::error!("reloading TLS failed, keeping the old certificate: {error}")
                }
                None => {}
            }
        }
    }))
}

/// Where the state is stored.
pub(crate) fn storage(args: DataArgs) -> anyhow::Result<Storage> {
    if let Some(url) = args.database {
        return Ok(Storage::Database(url.parse()?));
    }
    let directory = args.data.or_else(default_data);
    let directory =
        directory.context("no data directory: neither XDG_DATA_HOME nor HOME is set; use --data DIR")?;
    Ok(Storage::Directory(directory))
}

fn unsupported(what: &str) -> anyhow::Result<()> {
    bail!("{what} is not supported yet")
}

/// Prints a line on stdout.
pub(crate) fn print_line(line: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("cannot write to stdout")
}
