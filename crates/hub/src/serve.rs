//! Runs the hub of a configuration until a signal stops it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use link::ByteBudget;
use link::listen::{
    BindError, ConnectionLimiter, HttpConnection, HttpServer, HttpService, PhaseDeadlines, Tls, TlsError,
    WhenFull, bind,
};
use link::task::OwnedTask;
use link::task::Tasks;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::audit::AuditLog;
use crate::auth::{Secret, Tokens};
use crate::browser::Site;
use crate::config::{Config, Enrolment, Limits, PublicUrl, Storage};
use crate::feed::Feed;
use crate::hosts::Hosts;
use crate::ingest::Ingest;
use crate::nodes;
use crate::notices::{self, Notifier};
use crate::passwords::PasswordChecker;
use crate::rendezvous::Rendezvous;
use crate::routes::{self, HubState};
use crate::services::Services;
use crate::store::{Retention, Store, StoreError};
use crate::upkeep;
use crate::wakeups::{LocalWakeups, NodeWakeups, Wakeups};

/// Why the hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is invalid or not available.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// The operating system does not report the address of the listener.
    #[error("cannot read the address of the listener")]
    Address(#[from] std::io::Error),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] TlsError),
    /// The certificate for browsers cannot be read.
    #[error("cannot read {}", file.display())]
    Authority {
        /// The path of the file.
        file: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A hub that listens; [`Hub::serve`] accepts connections.
#[derive(Debug)]
pub struct Hub {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    public: Option<PublicUrl>,
    authority: Option<Bytes>,
    push_allow_private: bool,
    store: Store,
    enrolment: Enrolment,
    retention: Retention,
    limits: Arc<Limits>,
    wakeups: Arc<dyn Wakeups>,
}

impl Hub {
    /// Opens the store and the listener.
    pub async fn bind(config: Config) -> Result<Hub, StartError> {
        let tls = config.tls.as_ref().map(|files| Tls::open(files, None)).transpose()?;
        let authority = match &config.authority {
            Some(file) => Some(
                std::fs::read(file).map_err(|source| StartError::Authority { file: file.clone(), source })?,
            ),
            None => None,
        };
        let store = open(&config.storage).await?;
        let listener = bind(&config.listen).await?;
        let address = listener.local_addr()?;
        let (public, limits) = (config.public_url, Arc::new(config.limits));
        let default = match address.ip().is_loopback() && public.is_none() {
            true => Enrolment::Tofu,
            false => Enrolment::Code,
        };
        let (enrolment, retention) = (config.enrolment.unwrap_or(default), config.retention);
        Ok(Hub {
            listener,
            address,
            tls,
            public,
            authority: authority.map(Bytes::from),
            push_allow_private: config.push_allow_private,
            store,
            enrolment,
            retention,
            limits,
            wakeups: Arc::new(LocalWakeups::default()),
        })
    }

    /// The same as one of several nodes, which share a PostgreSQL database and these wake-ups.
    #[must_use]
    pub fn with_wakeups(self, wakeups: Arc<dyn Wakeups>) -> Hub {
        Hub { wakeups, ..self }
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the listener as a URL.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// The TLS configuration, to reload its files on a signal; they are also checked for changes.
    pub fn tls(&self) -> Option<Tls> {
        self.tls.clone()
    }

    /// True if tokens are sent unencrypted over a network: no TLS, and not a loopback address.
    pub fn is_exposed(&self) -> bool {
        self.tls.is_none() && !self.address.ip().is_loopback()
    }

    /// Serves until `stop`, and then until the connections have ended or the drain time has passed.
    pub async fn serve(self, stop: CancellationToken) -> Result<(), StoreError> {
        let tasks = Tasks::new();
        let (listener, limits, tls) = (self.listener, self.limits.clone(), self.tls.clone());
        let wakeups = NodeWakeups::new(&Secret::random()?.expose()[..16], self.wakeups);
        let received = wakeups.subscribe();
        let (tokens, watching) = Tokens::watch(self.store.clone(), wakeups.clone(), stop.clone()).await?;
        tasks.spawn(watching);
        let budget = ByteBudget::new(limits.buffered_bytes);
        let rendezvous =
            Rendezvous::new(limits.clone(), budget.clone(), tokens.clone(), stop.clone(), tasks.clone());
        let rendezvous = Arc::new(rendezvous);
        let feed = Feed::default();
        let (ingest, writing) = Ingest::new(self.store.clone(), feed.clone(), wakeups.clone(), limits.gap);
        let (audit_log, auditing) = AuditLog::new(self.store.clone());
        let own =
            PublicUrl { secure: tls.is_some(), authority: self.address.to_string(), prefix: String::new() };
        let site = Site::new(own.clone(), self.public.clone(), self.authority);
        let (notifier, messages) = Notifier::open(&self.store, &site, self.push_allow_private).await?;
        let services = Arc::new(Services {
            store: self.store,
            tokens,
            feed,
            hosts: Hosts::default(),
            ingest,
            rendezvous: rendezvous.clone(),
            passwords: PasswordChecker::default(),
            limits: limits.clone(),
            budget,
            enrolment: self.enrolment,
            site,
            notifier,
            is_behind_proxy: self.public.is_some(),
            audit_log,
            wakeups,
            stop: stop.clone(),
            tasks: tasks.clone(),
        });
        services.store.release_leases_of_others().await?;
        let (writing, auditing) = (OwnedTask::spawn(writing), OwnedTask::spawn(auditing));
        tasks.spawn(upkeep::run(services.clone(), self.retention));
        tasks.spawn(nodes::run(services.clone(), received));
        tasks.spawn(notices::run(services.clone(), messages, services.feed.observe()));
        let state = HubState::new(rendezvous, own, self.public);
        if let (Some(tls), stop) = (tls.clone(), stop.clone()) {
            tasks.spawn(async move { stop.run_until_cancelled(tls.reload_on_change(|| {})).await });
        }
        let router = routes::router(Arc::new(state), services);
        let server = HttpServer {
            service: Arc::new(HubFrontEnd { router }),
            limiter: ConnectionLimiter::new(limits.connections),
            when_full: WhenFull::Wait,
            deadlines: PhaseDeadlines { headers: limits.handshake, ..PhaseDeadlines::default() },
            tls,
            stop,
            tasks: tasks.clone(),
        };
        Arc::new(server).run(listener).await;
        drain(&tasks, limits.drain, async { tokio::join!(writing.join(), auditing.join()) }).await;
        Ok(())
    }
}

/// Waits for the tasks of connections, then for the writers: they end with the last connection, and a transaction under
/// way is completed.
async fn drain<T>(tasks: &Tasks, limit: Duration, writers: impl Future<Output = T>) {
    tasks.close();
    if timeout(limit, tasks.wait()).await.is_err() {
        tracing::warn!(left = tasks.len(), "some connections did not end in time");
    }
    timeout(limit, writers).await.ok();
}

/// Opens the store of a configuration.
pub async fn open(storage: &Storage) -> Result<Store, StoreError> {
    match storage {
        Storage::Directory(directory) => Store::open_sqlite(directory).await,
        Storage::Database(url) => Store::open_postgres(url).await,
    }
}

/// The hub's routes behind the HTTP server.
#[derive(Debug)]
struct HubFrontEnd {
    router: Router,
}

impl HttpService for HubFrontEnd {
    type ResponseBody = Body;

    async fn respond(
        self: Arc<Self>,
        connection: Arc<HttpConnection>,
        mut request: Request<Incoming>,
    ) -> Response<Body> {
        request.extensions_mut().insert(connection);
        let response: Result<_, Infallible> =
            TowerToHyperService::new(self.router.clone()).call(request).await;
        match response {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}
