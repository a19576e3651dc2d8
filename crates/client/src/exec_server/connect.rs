//! Connects to an exec-server: over given streams, a link, a WebSocket or a rendezvous.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use link::Link;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use wire::exec_server::v1::{InitializeParams, InitializeResponse};

use super::driver::ExecServerDriver;
use super::error::{ExecServerError, ExecServerLoss};
use super::handle::ExecServerClient;
use super::handshake::{FIRST_FREE_ID, handshake};
use super::options::{ExecServerClientConnectOptions, RemoteExecServerConnectArgs};
use crate::connection::inbox;
use crate::dial;
use crate::error::{ConnectError, ConnectStep};
use crate::options::KeepAlive;
use crate::target::{BearerToken, HARNESS_ROLE, Scheme, Target, UrlTarget};

/// How to connect to a server, for the first time and after a lost connection.
#[derive(Debug)]
pub(super) struct Connector {
    /// Where and how to dial; `None` for a link that the caller made.
    pub(super) address: Option<ExecServerAddress>,
    pub(super) options: ExecServerClientConnectOptions,
}

/// The URL of a server, and how a connection to it is made and kept alive.
#[derive(Debug)]
pub(crate) struct ExecServerAddress {
    pub(crate) url: UrlTarget,
    /// The time limit for connecting.
    pub(crate) timeout: Duration,
    pub(crate) keep_alive: KeepAlive,
}

impl ExecServerClient {
    /// Connects over a server's standard streams, or any two byte streams: `stdin` is written and `stdout` is read.
    /// Starts no program, and does not reconnect when the streams end.
    pub async fn connect_stdio<W, R>(
        stdin: W,
        stdout: R,
        options: ExecServerClientConnectOptions,
    ) -> Result<ExecServerClient, ExecServerError>
    where
        W: AsyncWrite + Unpin + Send + 'static,
        R: AsyncRead + Unpin + Send + 'static,
    {
        ExecServerClient::connect_link(
            link::ndjson::link(stdout, stdin, &dial::exec_server_limits()),
            options,
        )
        .await
    }

    /// Connects over an existing link. Create it with [`exec_server_limits`](super::exec_server_limits) to accept long
    /// responses.
    pub async fn connect_link(
        link: Link,
        options: ExecServerClientConnectOptions,
    ) -> Result<ExecServerClient, ExecServerError> {
        let connector = Connector { address: None, options };
        let resume = connector.options.resume_session_id.clone();
        let (link, initialized) = connector.initialize(link, resume).await?;
        ExecServerClient::run(link, initialized, connector)
    }

    /// Connects through a rendezvous, whose relay frames carry the messages; `role=harness` is added to the address if
    /// it is missing.
    pub async fn connect_relay(
        mut args: RemoteExecServerConnectArgs,
    ) -> Result<ExecServerClient, ExecServerError> {
        if !url(&args)?.is_harness() {
            let separator = if args.websocket_url.contains('?') { '&' } else { '?' };
            args.websocket_url.push(separator);
            args.websocket_url.push_str(HARNESS_ROLE);
        }
        ExecServerClient::connect_websocket(args).await
    }

    /// Connects to a server's WebSocket, or through a rendezvous if the query has `role=harness`. A lost connection is
    /// replaced as long as the server keeps the session.
    pub async fn connect_websocket(
        args: RemoteExecServerConnectArgs,
    ) -> Result<ExecServerClient, ExecServerError> {
        let address = ExecServerAddress {
            url: url(&args)?,
            timeout: args.connect_timeout,
            keep_alive: KeepAlive::default(),
        };
        ExecServerClient::connect_url(address, args.into()).await
    }

    /// The same, for the URL of a target with its headers and certificates.
    pub(crate) async fn connect_url(
        address: ExecServerAddress,
        options: ExecServerClientConnectOptions,
    ) -> Result<ExecServerClient, ExecServerError> {
        let connector = Connector { address: Some(address), options };
        let resume = connector.options.resume_session_id.clone();
        let (link, initialized) = connector.connect(resume).await?;
        ExecServerClient::run(link, initialized, connector)
    }

    fn run(
        link: Link,
        initialized: InitializeResponse,
        connector: Connector,
    ) -> Result<ExecServerClient, ExecServerError> {
        let (sender, inbox) = inbox();
        let drained = Arc::new(Notify::new());
        let next_id = Arc::new(AtomicU64::new(FIRST_FREE_ID));
        let name_prefix = crate::session::random_hex().map_err(ExecServerError::Random)?.into();
        let initialized = Arc::new(initialized);
        let shared = (next_id.clone(), drained.clone());
        let driver = ExecServerDriver::new((link, initialized.clone()), connector, inbox, shared);
        let tasks = TaskTracker::new();
        tasks.spawn(driver.run());
        tasks.close();
        Ok(ExecServerClient { inbox: sender, tasks, initialized, next_id, drained, name_prefix })
    }
}

impl Connector {
    /// Connects and performs the handshake.
    pub(super) async fn connect(
        &self,
        resume: Option<String>,
    ) -> Result<(Link, InitializeResponse), ExecServerError> {
        let Some(ExecServerAddress { url, timeout, keep_alive }) = &self.address else {
            return Err(ExecServerLoss::Disconnected.into());
        };
        let timed_out = || {
            let target = Target::ExecServer(url.clone());
            ConnectError::new(target, ConnectStep::Connect, format!("no answer within {timeout:?}"))
                .transient()
        };
        let dialed = tokio::time::timeout(*timeout, dial::exec_server(url, keep_alive)).await;
        let link = dialed.unwrap_or_else(|_| Err(timed_out()))?;
        self.initialize(link, resume).await
    }

    async fn initialize(
        &self,
        mut link: Link,
        resume_session_id: Option<String>,
    ) -> Result<(Link, InitializeResponse), ExecServerError> {
        let client_name = self.options.client_name.clone();
        let params = InitializeParams { client_name, resume_session_id, session_ack: Some(true) };
        let timeout = self.options.initialize_timeout;
        let answered = tokio::time::timeout(timeout, handshake(&mut link, &params)).await;
        let initialized = answered.unwrap_or(Err(ExecServerError::InitializeTimedOut(timeout)))?;
        Ok((link, initialized))
    }
}

fn url(args: &RemoteExecServerConnectArgs) -> Result<UrlTarget, ExecServerError> {
    // The query may contain a token and is not part of the message.
    let redacted = args.websocket_url.split('?').next().unwrap_or_default();
    let invalid = |cause: &str| ConnectError::new(redacted, ConnectStep::Find, cause);
    match args.websocket_url.parse() {
        Ok(Target::Url(url)) if matches!(url.scheme, Scheme::Ws | Scheme::Wss) => {
            Ok(UrlTarget { token: args.bearer_token.clone().map(BearerToken), ..url })
        }
        Ok(_) => Err(invalid("the address of an exec-server must start with ws:// or wss://").into()),
        Err(error) => Err(invalid(&error.problem).into()),
    }
}
