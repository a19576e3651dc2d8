//! Reaching an exec-server: over given streams, or by WebSocket.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use link::Link;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use wire::exec_server::v1::{InitializeParams, InitializeResponse};

use super::driver::Driver;
use super::error::ExecServerError;
use super::greet::{FIRST_FREE_ID, greet};
use super::handle::{ExecServerClient, LETTERS};
use super::options::{ExecServerClientConnectOptions, RemoteExecServerConnectArgs};
use crate::connection::{Writers, inbox};
use crate::dial;
use crate::error::{ConnectError, ConnectStep};
use crate::target::{BearerToken, HARNESS, Scheme, Target, UrlTarget};

/// How a server is reached again after a cut.
#[derive(Debug)]
pub(super) struct Reach {
    /// Nothing where somebody else made the link.
    pub(super) socket: Option<(UrlTarget, Duration)>,
    pub(super) options: ExecServerClientConnectOptions,
}

impl ExecServerClient {
    /// Speaks over a server's standard streams, or any two byte streams: `stdin` is written and `stdout` is read.
    /// Nothing is started, and after their end nothing is resumed.
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

    /// Speaks over a link that somebody made, with [`exec_server_limits`](super::exec_server_limits) if long answers are
    /// to be taken.
    pub async fn connect_link(
        link: Link,
        options: ExecServerClientConnectOptions,
    ) -> Result<ExecServerClient, ExecServerError> {
        let reach = Reach { socket: None, options };
        let resume = reach.options.resume_session_id.clone();
        let (link, answered) = reach.greet(link, resume).await?;
        ExecServerClient::run(link, answered, reach)
    }

    /// Connects through a rendezvous, whose frames carry the messages; `role=harness` is added to its address if it does
    /// not say so itself.
    pub async fn connect_relay(
        mut args: RemoteExecServerConnectArgs,
    ) -> Result<ExecServerClient, ExecServerError> {
        if !url(&args)?.is_harness() {
            let joint = if args.websocket_url.contains('?') { '&' } else { '?' };
            args.websocket_url.push(joint);
            args.websocket_url.push_str(HARNESS);
        }
        ExecServerClient::connect_websocket(args).await
    }

    /// Connects to a server's WebSocket, or through a rendezvous if its query says so. A cut is hidden as long as the server keeps the session.
    pub async fn connect_websocket(
        args: RemoteExecServerConnectArgs,
    ) -> Result<ExecServerClient, ExecServerError> {
        let url = url(&args)?;
        let patience = args.connect_timeout;
        ExecServerClient::connect_url(url, patience, args.into()).await
    }

    /// The same, for an address with all that a target may say about it.
    pub(crate) async fn connect_url(
        url: UrlTarget,
        patience: Duration,
        options: ExecServerClientConnectOptions,
    ) -> Result<ExecServerClient, ExecServerError> {
        let reach = Reach { socket: Some((url, patience)), options };
        let resume = reach.options.resume_session_id.clone();
        let (link, answered) = reach.connect(resume).await?;
        ExecServerClient::run(link, answered, reach)
    }

    fn run(
        link: Link,
        answered: InitializeResponse,
        reach: Reach,
    ) -> Result<ExecServerClient, ExecServerError> {
        let (Writers { letters, farewells }, inbox) = inbox(LETTERS);
        let drained = Arc::new(Notify::new());
        let next_id = Arc::new(AtomicU64::new(FIRST_FREE_ID));
        let names = crate::session::random_text()
            .map_err(|error| ExecServerError::Protocol(error.to_string()))?
            .into();
        let answered = Arc::new(answered);
        let driver = Driver::new((link, answered.clone()), reach, inbox, (next_id.clone(), drained.clone()));
        tokio::spawn(driver.run());
        Ok(ExecServerClient { letters, farewells, answered, next_id, drained, names })
    }
}

impl Reach {
    /// Dials and says who we are.
    pub(super) async fn connect(
        &self,
        resume: Option<String>,
    ) -> Result<(Link, InitializeResponse), ExecServerError> {
        let Some((url, patience)) = &self.socket else {
            return Err(ExecServerError::Lost("there is no way to make this link again".to_owned()));
        };
        let late = || {
            let target = Target::ExecServer(url.clone());
            ConnectError::new(target, ConnectStep::Connect, format!("no answer within {patience:?}"))
                .transient()
        };
        let dialled = tokio::time::timeout(*patience, dial::exec_server(url)).await;
        let link = dialled.unwrap_or_else(|_| Err(late()))?;
        self.greet(link, resume).await
    }

    async fn greet(
        &self,
        mut link: Link,
        resume_session_id: Option<String>,
    ) -> Result<(Link, InitializeResponse), ExecServerError> {
        let client_name = self.options.client_name.clone();
        let params = InitializeParams { client_name, resume_session_id };
        let patience = self.options.initialize_timeout;
        let greeted = tokio::time::timeout(patience, greet(&mut link, &params)).await;
        let answered = greeted.unwrap_or(Err(ExecServerError::InitializeTimedOut(patience)))?;
        Ok((link, answered))
    }
}

fn url(args: &RemoteExecServerConnectArgs) -> Result<UrlTarget, ExecServerError> {
    // What is wrong with it is told without its query, which may hold a token.
    let shown = args.websocket_url.split('?').next().unwrap_or_default();
    let wrong = |cause: &str| ConnectError::new(shown, ConnectStep::Find, cause);
    match args.websocket_url.parse() {
        Ok(Target::Url(url)) if matches!(url.scheme, Scheme::Ws | Scheme::Wss) => {
            Ok(UrlTarget { token: args.bearer_token.clone().map(BearerToken), ..url })
        }
        Ok(_) => Err(wrong("an exec-server's address begins with ws:// or wss://").into()),
        Err(error) => Err(wrong(&error.problem).into()),
    }
}
