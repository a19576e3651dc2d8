//! What each command does.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use link::listen::Tls;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::{Ask, Place, Serve, TokenAdd, TokenAsk, TokenList, TokenRemove};
use crate::auth::{Digest, Secret, now};
use crate::config::{Config, Limits, TlsFiles, default_data};
use crate::log;
use crate::serve::Hub;
use crate::store::{NewToken, Sqlite, Store as _};

/// Does what is asked.
pub async fn run(ask: Ask) -> anyhow::Result<()> {
    match ask {
        Ask::Serve(serve) => run_hub(serve).await,
        Ask::Token(TokenAsk::Add(add)) => add_token(add).await,
        Ask::Token(TokenAsk::List(list)) => list_tokens(list).await,
        Ask::Token(TokenAsk::Remove(remove)) => remove_token(remove).await,
        Ask::User(_) => not_yet("`rexhub user`"),
        Ask::JoinCode(_) => not_yet("`rexhub join-code`"),
        Ask::Host(_) => not_yet("`rexhub host`"),
    }
}

async fn run_hub(serve: Serve) -> anyhow::Result<()> {
    for (flag, is_given) in [("--nats", serve.nats.is_some()), ("--enrol", serve.enrol.is_some())] {
        if is_given {
            not_yet(flag)?;
        }
    }
    log::to_stderr();
    allow_many_files();
    let stop = stop_on_signals()?;
    let tls = serve.tls_cert.zip(serve.tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
    let config = Config {
        data: folder(serve.place)?,
        listen: serve.listen,
        tls,
        public_url: serve.public_url,
        limits: Limits::default(),
    };
    let hub = Hub::bind(config).await?;
    if hub.is_exposed() {
        tracing::warn!(
            "tokens travel readable to others: use --tls-cert and --tls-key, or a proxy that speaks TLS"
        );
    }
    read_again_on_hangup(hub.tls())?;
    say(&format!("listening {}", hub.url()))?;
    hub.serve(stop).await?;
    Ok(())
}

/// A connection is a file: as many as the system lets us have.
fn allow_many_files() {
    let mut limits = getrlimit(Resource::Nofile);
    limits.current = limits.maximum;
    // Fewer are only fewer.
    setrlimit(Resource::Nofile, limits).ok();
}

/// TERM and INT end the hub, gently the first time.
fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut received = signal(kind).context("cannot listen for signals")?;
        let stop = stop.clone();
        // Lives as long as the runtime.
        tokio::spawn(async move {
            while received.recv().await.is_some() {
                if stop.is_cancelled() {
                    std::process::exit(1);
                }
                stop.cancel();
            }
        });
    }
    Ok(stop)
}

/// HUP has the certificate read again.
fn read_again_on_hangup(tls: Option<Tls>) -> anyhow::Result<()> {
    let mut received = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    // Lives as long as the runtime.
    tokio::spawn(async move {
        while received.recv().await.is_some() {
            match tls.as_ref().map(Tls::reload) {
                Some(Ok(())) => tracing::info!("the certificate was read again"),
                Some(Err(error)) => tracing::error!("TLS stays as it was: {error}"),
                None => {}
            }
        }
    });
    Ok(())
}

async fn add_token(add: TokenAdd) -> anyhow::Result<()> {
    let store = Sqlite::open(&folder(add.place)?).await?;
    let secret = Secret::random().context("there is no randomness for a token")?;
    let digest = Digest::of(secret.expose());
    store.add_token(NewToken { name: add.name, kind: add.kind, digest, created: now() }).await?;
    say(secret.expose())
}

async fn list_tokens(list: TokenList) -> anyhow::Result<()> {
    let store = Sqlite::open(&folder(list.place)?).await?;
    let tokens = store.tokens().await?;
    if list.json {
        for token in tokens {
            let (created, last_used) = (time(Some(token.created)), time(token.last_used));
            let line =
                json!({ "name": token.name, "kind": token.kind, "created": created, "last_used": last_used });
            say(&line.to_string())?;
        }
        return Ok(());
    }
    let width = tokens.iter().map(|token| token.name.chars().count()).max().unwrap_or_default().max(4);
    if !tokens.is_empty() {
        say(&format!("{:width$}  {:8}  {:20}  LAST USED", "NAME", "KIND", "CREATED"))?;
    }
    for token in tokens {
        let created = time(Some(token.created)).unwrap_or_default();
        let last_used = time(token.last_used).unwrap_or_else(|| "never".to_owned());
        say(&format!("{:width$}  {:8}  {created:20}  {last_used}", token.name, token.kind))?;
    }
    Ok(())
}

async fn remove_token(remove: TokenRemove) -> anyhow::Result<()> {
    let store = Sqlite::open(&folder(remove.place)?).await?;
    match store.remove_token(&remove.name).await? {
        true => Ok(()),
        false => bail!("there is no token called {:?}: `rexhub token list` shows all", remove.name),
    }
}

fn folder(place: Place) -> anyhow::Result<PathBuf> {
    if place.database.is_some() {
        not_yet("--database")?;
    }
    let folder = place.data.or_else(default_data);
    folder.context("neither XDG_DATA_HOME nor HOME says where to keep things: give a folder with --data")
}

fn not_yet(what: &str) -> anyhow::Result<()> {
    bail!("{what} is not in this version yet")
}

fn time(seconds: Option<i64>) -> Option<String> {
    jiff::Timestamp::from_second(seconds?).ok().map(|time| time.to_string())
}

/// A line on stdout.
fn say(line: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("cannot write to stdout")
}
