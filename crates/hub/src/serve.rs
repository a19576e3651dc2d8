//! Runs the hub of a configuration until a signal stops it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use link::listen::{
    BindError, ConnectionLimiter, HttpConnection, HttpServer, HttpService, PhaseDeadlines, Tls, TlsError,
    WhenFull, bind,
};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Tokens;
use crate::config::{Config, Limits, PublicUrl};
use crate::rendezvous::Rendezvous;
use crate::routes::{self, HubState};
use crate::store::{Sqlite, Store, StoreError};

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
    store: Arc<dyn Store>,
    limits: Arc<Limits>,
}

impl Hub {
    /// Opens the store and the listener.
    pub async fn bind(config: Config) -> Result<Hub, StartError> {
        let tls = config.tls.as_ref().map(|files| Tls::open(files, None)).transpose()?;
        let store = Arc::new(Sqlite::open(&config.data).await?);
        let listener = bind(&config.listen).await?;
        let address = listener.local_addr()?;
        let (public, limits) = (config.public_url, Arc::new(config.limits));
        Ok(Hub { listener, address, tls, public, store, limits })
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
        let Hub { listener, address, tls, public, store, limits } = self;
        let tasks = TaskTracker::new();
        let (tokens, watching) = Tokens::watch(store, stop.clone()).await?;
        tasks.spawn(watching);
        let rendezvous = Rendezvous::new(limits.clone(), tokens, stop.clone(), tasks.clone());
        let own = PublicUrl { secure: tls.is_some(), authority: address.to_string(), prefix: String::new() };
        let state = HubState::new(Arc::new(rendezvous), own, public);
        if let (Some(tls), stop) = (tls.clone(), stop.clone()) {
            tasks.spawn(async move { stop.run_until_cancelled(tls.reload_on_change()).await });
        }
        let server = HttpServer {
            service: Arc::new(HubFrontEnd { router: routes::router(Arc::new(state)) }),
            limiter: ConnectionLimiter::new(limits.connections),
            when_full: WhenFull::Wait,
            deadlines: PhaseDeadlines { headers: limits.handshake, ..PhaseDeadlines::default() },
            tls,
            stop,
            tasks: tasks.clone(),
        };
        Arc::new(server).run(listener).await;
        tasks.close();
        if timeout(limits.drain, tasks.wait()).await.is_err() {
            tracing::warn!(left = tasks.len(), "some connections did not end in time");
        }
        Ok(())
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
