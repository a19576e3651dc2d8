//! The commands of `rexhub`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use link::listen::Tls;
use link::task::OwnedTask;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{DataArgs, HubCommand, Serve, TokenAdd, TokenCommand, TokenList, TokenRemove};
use crate::auth::{Secret, now};
use crate::config::{Config, Limits, TlsFiles, default_data};
use crate::log;
use crate::serve::Hub;
use crate::store::{NewToken, Sqlite, Store as _};

/// Runs one command of the hub.
pub async fn run(command: HubCommand) -> anyhow::Result<()> {
    match command {
        HubCommand::Serve(serve) => run_hub(serve).await,
        HubCommand::Token(TokenCommand::Add(add)) => add_token(add).await,
        HubCommand::Token(TokenCommand::List(list)) => list_tokens(list).await,
        HubCommand::Token(TokenCommand::Remove(remove)) => remove_token(remove).await,
        HubCommand::User(_) => unsupported("`rexhub user`"),
        HubCommand::JoinCode(_) => unsupported("`rexhub join-code`"),
        HubCommand::Host(_) => unsupported("`rexhub host`"),
    }
}

async fn run_hub(serve: Serve) -> anyhow::Result<()> {
    for (flag, is_given) in [("--nats", serve.nats.is_some()), ("--enrol", serve.enrol.is_some())] {
        if is_given {
            unsupported(flag)?;
        }
    }
    log::to_stderr();
    raise_open_files();
    let stop = CancellationToken::new();
    let mut signals = stop_on_signals(&stop)?;
    let tls = serve.tls_cert.zip(serve.tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
    let config = Config {
        data: data_dir(serve.data)?,
        listen: serve.listen,
        tls,
        public_url: serve.public_url,
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

async fn add_token(add: TokenAdd) -> anyhow::Result<()> {
    let store = Sqlite::open(&data_dir(add.data)?).await?;
    let secret = Secret::random().context("no random bytes for a token")?;
    let digest = secret.digest();
    store.add_token(NewToken { name: add.name, kind: add.kind, digest, created: now() }).await?;
    print_line(secret.expose())
}

async fn list_tokens(list: TokenList) -> anyhow::Result<()> {
    let store = Sqlite::open(&data_dir(list.data)?).await?;
    let tokens = store.tokens().await?;
    if list.json {
        for token in tokens {
            let (created, last_used) = (time(Some(token.created)), time(token.last_used));
            let line =
                json!({ "name": token.name, "kind": token.kind, "created": created, "last_used": last_used });
            print_line(&line.to_string())?;
        }
        return Ok(());
    }
    let width = tokens.iter().map(|token| token.name.chars().count()).max().unwrap_or_default().max(4);
    if !tokens.is_empty() {
        print_line(&format!("{:width$}  {:8}  {:20}  LAST USED", "NAME", "KIND", "CREATED"))?;
    }
    for token in tokens {
        let created = time(Some(token.created)).unwrap_or_default();
        let last_used = time(token.last_used).unwrap_or_else(|| "never".to_owned());
        print_line(&format!("{:width$}  {:8}  {created:20}  {last_used}", token.name, token.kind))?;
    }
    Ok(())
}

async fn remove_token(remove: TokenRemove) -> anyhow::Result<()> {
    let store = Sqlite::open(&data_dir(remove.data)?).await?;
    match store.remove_token(&remove.name).await? {
        true => Ok(()),
        false => bail!("no token {:?}; list them with `rexhub token list`", remove.name),
    }
}

fn data_dir(args: DataArgs) -> anyhow::Result<PathBuf> {
    if args.database.is_some() {
        unsupported("--database")?;
    }
    let directory = args.data.or_else(default_data);
    directory.context("no data directory: neither XDG_DATA_HOME nor HOME is set; use --data DIR")
}

fn unsupported(what: &str) -> anyhow::Result<()> {
    bail!("{what} is not supported yet")
}

fn time(seconds: Option<i64>) -> Option<String> {
    jiff::Timestamp::from_second(seconds?).ok().map(|time| time.to_string())
}

/// Prints a line on stdout.
fn print_line(line: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("cannot write to stdout")
}
