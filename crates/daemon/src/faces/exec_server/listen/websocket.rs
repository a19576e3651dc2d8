//! WebSockets on an address: `/` upgrades, `/readyz` tells that we are ready, and nothing else is there.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use link::websocket::{self, Close, Role, Settings};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use super::{BadWsAuth, WsAuth};
use crate::core::request::ConnectionContext;
use crate::core::session::Face as _;
use crate::faces::exec_server::{ExecServer, link_limits, serve};
use crate::net::auth::Caller;
use crate::net::http::{Body, Crowd, Place, switching};
use crate::net::listen::{accept, counted};
use crate::observe::metrics::Transport;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A ping goes out after so long.
const PING_EVERY: Duration = Duration::from_secs(30);
/// A peer that gives no sign of life for so long is gone.
const DEADLINE: Duration = Duration::from_secs(90);
/// All headers of a request together.
const MOST_HEADERS: usize = 16 * 1024;

/// Opens an address, if whoever comes there has to show enough.
pub async fn bind(address: SocketAddr, auth: &WsAuth) -> Result<TcpListener, BindError> {
    auth.check(address)?;
    TcpListener::bind(address).await.map_err(|source| BindError::Refused { address, source })
}

/// Why an address cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Everybody could come in.
    #[error(transparent)]
    Auth(#[from] BadWsAuth),
    /// The system refuses it.
    #[error("cannot listen on {address}")]
    Refused {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// A listener and what it serves.
#[derive(Debug, Clone)]
pub struct WebSockets {
    service: Arc<ExecServer>,
    auth: WsAuth,
    /// Everybody who is connected: strangers cannot keep out those who are known.
    crowd: Arc<Crowd>,
    tasks: TaskTracker,
}

impl WebSockets {
    /// What is served, to whom, and to how many at a time.
    pub fn new(service: Arc<ExecServer>, auth: WsAuth, most: usize) -> WebSockets {
        let tasks = service.core().tasks.clone();
        WebSockets { service, auth, crowd: Crowd::new(most), tasks }
    }

    /// Serves until the daemon ends.
    pub async fn run(self, listener: TcpListener) {
        let stop = self.service.core().stop.clone();
        loop {
            let (stream, _address) = tokio::select! {
                () = stop.cancelled() => return,
                accepted = accept(|| listener.accept(), || self.crowd.make_room()) => accepted,
            };
            // Without a place it is closed at once.
            let Some(place) = self.crowd.enter() else { continue };
            let this = self.clone();
            self.tasks.spawn(async move { this.connection(stream, Arc::new(place)).await });
        }
    }

    async fn connection(self, stream: TcpStream, place: Arc<Place>) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "small messages may be late");
        }
        let stop = self.service.core().stop.clone();
        let service = service_fn(|request| {
            let response = self.answer(request, &place);
            async move { Ok::<_, Infallible>(response) }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HANDSHAKE).max_buf_size(MOST_HEADERS);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        tokio::select! {
            ended = connection => if let Err(error) = ended {
                tracing::debug!(%error, "a handshake came to nothing");
            },
            () = place.evicted() => {}
            () = stop.cancelled() => {}
        }
    }

    fn answer(&self, request: Request<Incoming>, place: &Arc<Place>) -> Response<Body> {
        let caller = match self.auth.admit(&request) {
            Ok(caller) => caller,
            Err(status) => return empty(status),
        };
        place.known();
        match request.uri().path() {
            "/" => self.upgrade(request, caller, place.clone()),
            "/readyz" if request.method() == Method::GET => empty(StatusCode::OK),
            _ => empty(StatusCode::NOT_FOUND),
        }
    }

    fn upgrade(&self, mut request: Request<Incoming>, caller: Caller, place: Arc<Place>) -> Response<Body> {
        let response = match switching(request.version(), request.headers()) {
            Ok(response) => response,
            Err(_no_handshake) => return empty(StatusCode::BAD_REQUEST),
        };
        let (this, upgraded) = (self.clone(), hyper::upgrade::on(&mut request));
        self.tasks.spawn(async move {
            let _place = place;
            match upgraded.await.map(hyper::upgrade::Upgraded::downcast::<TokioIo<TcpStream>>) {
                Ok(Ok(parts)) => this.serve(parts.io.into_inner(), parts.read_buf, caller).await,
                // It broke in the very moment, or the daemon ends.
                _ => tracing::debug!("a WebSocket did not come about"),
            }
        });
        response
    }

    async fn serve(&self, stream: TcpStream, read_already: Bytes, caller: Caller) {
        let metrics = &self.service.core().metrics;
        let _counted = metrics.connection(Transport::Ws);
        let settings = Settings { ping_every: PING_EVERY, deadline: DEADLINE };
        let stream = counted(stream, metrics, Transport::Ws);
        let (link, closer) = websocket::link(stream, read_already, Role::Server, &settings, &link_limits());
        let (stop, ending) = (self.service.core().stop.child_token(), self.service.core().stop.clone());
        let context = ConnectionContext::new(caller, Transport::Ws);
        let says_why = async {
            ending.cancelled().await;
            closer.because(Close::new(Close::GOING_AWAY, "the server ends"));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = says_why => {}
            () = serve(self.service.clone(), link, context, stop) => {}
        }
    }
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
    *response.status_mut() = status;
    response
}
