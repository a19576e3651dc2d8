//! From a configuration to a running hub, and to its end.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use link::listen::{Tls, TlsError, Watched, Witness};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Tokens;
use crate::config::{Config, Limits, PublicUrl};
use crate::rendezvous::Rendezvous;
use crate::routes::{self, Site};
use crate::store::{Sqlite, Store, StoreError};

/// All headers of a request together.
const MOST_HEADERS: usize = 16 * 1024;
/// What is read of a request at a time.
const READ_BUFFER: usize = 32 * 1024;
/// How long to wait when accepting fails: descriptors or memory may come free meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// Why the hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is none, or not to be had.
    #[error("cannot listen on {address}: give HOST:PORT of this machine with --listen; port 0 takes any")]
    Listen {
        /// As it was written.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// TLS cannot be served.
    #[error("TLS cannot be served")]
    Tls(#[from] TlsError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A hub that listens, and serves once it is told to.
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
    /// Opens the store and listens.
    pub async fn bind(config: Config) -> Result<Hub, StartError> {
        let tls = config.tls.as_ref().map(|files| Tls::open(files, None)).transpose()?;
        let store = Arc::new(Sqlite::open(&config.data).await?);
        let bound = async {
            let listener = TcpListener::bind(&config.listen).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) =
            bound.await.map_err(|source| StartError::Listen { address: config.listen.clone(), source })?;
        let (public, limits) = (config.public_url, Arc::new(config.limits));
        Ok(Hub { listener, address, tls, public, store, limits })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as a URL.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// Its TLS, to read the files again; they are also looked at now and then.
    pub fn tls(&self) -> Option<Tls> {
        self.tls.clone()
    }

    /// Whether tokens travel readable to others: no TLS, and not only on this machine.
    pub fn is_exposed(&self) -> bool {
        self.tls.is_none() && !self.address.ip().is_loopback()
    }

    /// Serves until it is stopped, and then until what is under way has ended.
    pub async fn serve(self, stop: CancellationToken) -> Result<(), StoreError> {
        let Hub { listener, address, tls, public, store, limits } = self;
        let tasks = TaskTracker::new();
        let (tokens, watching) = Tokens::watch(store, stop.clone()).await?;
        tasks.spawn(watching);
        let rendezvous = Rendezvous::new(limits.clone(), tokens, stop.clone(), tasks.clone());
        let own = PublicUrl { secure: tls.is_some(), authority: address.to_string(), prefix: String::new() };
        let site = Site { rendezvous: Arc::new(rendezvous), own, public };
        if let Some(tls) = tls.clone() {
            let stop = stop.clone();
            tasks.spawn(async move { stop.run_until_cancelled(tls.look_after()).await });
        }
        let door = Arc::new(Door { router: routes::router(Arc::new(site)), tls, limits, stop });
        door.accept(&listener, &tasks).await;
        tasks.close();
        if timeout(door.limits.drain, tasks.wait()).await.is_err() {
            tracing::warn!(left = tasks.len(), "some connections did not end in time");
        }
        Ok(())
    }
}

/// A place among the connections: given back when the stream is dropped, also when that has become a WebSocket.
#[derive(Debug)]
struct Place {
    _held: OwnedSemaphorePermit,
}

impl Witness for Place {}

/// What connections come in by.
#[derive(Debug)]
struct Door {
    router: Router,
    tls: Option<Tls>,
    limits: Arc<Limits>,
    stop: CancellationToken,
}

impl Door {
    async fn accept(self: &Arc<Self>, listener: &TcpListener, tasks: &TaskTracker) {
        let places = Arc::new(Semaphore::new(self.limits.connections));
        let mut has_told = false;
        let accepting = async {
            loop {
                // It is never closed.
                let Ok(place) = places.clone().acquire_owned().await else { return };
                match listener.accept().await {
                    Ok((stream, _peer)) => {
                        let door = self.clone();
                        tasks.spawn(async move { door.serve(stream, place).await });
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut has_told, true) {
                            tracing::error!(%error, "cannot accept connections for the moment");
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        };
        self.stop.run_until_cancelled(accepting).await;
    }

    async fn serve(&self, stream: TcpStream, place: OwnedSemaphorePermit) {
        // Only slower without.
        stream.set_nodelay(true).ok();
        match &self.tls {
            None => self.answer(stream, place).await,
            Some(tls) => match timeout(self.limits.handshake, tls.accept(stream)).await {
                Ok(Ok(Some(stream))) => self.answer(stream, place).await,
                Ok(Ok(None)) => tracing::debug!("plain text came to a TLS port"),
                _ => tracing::debug!("a TLS handshake failed"),
            },
        }
    }

    async fn answer<S>(&self, stream: S, place: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.handshake)
            .max_header_size(MOST_HEADERS)
            .max_buf_size(READ_BUFFER);
        let service = TowerToHyperService::new(self.router.clone());
        let stream = TokioIo::new(Watched::new(stream, Place { _held: place }));
        let mut connection = pin!(builder.serve_connection(stream, service).with_upgrades());
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "an HTTP connection broke");
        }
    }
}
