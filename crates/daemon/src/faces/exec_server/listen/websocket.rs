//! exec-server over WebSockets: `/` upgrades, `/readyz` reports readiness, and no other path exists.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use link::listen::{
    ConnectionLimiter, HttpConnection, HttpServer, HttpService, PhaseDeadlines, UpgradedStream,
    WebSocketHandshake, WhenFull,
};
use link::websocket::{self, Close, Role, Settings};
use tokio::net::TcpListener;

use super::super::{Arrival, Service, link_limits, serve};
use super::{WsAuth, WsAuthError};
use crate::net::auth::Caller;
use crate::net::listen::counted;
use crate::observe::metrics::Transport;

/// The time between pings.
const PING_EVERY: Duration = Duration::from_secs(30);
/// A peer that is silent for this long is disconnected.
const DEADLINE: Duration = Duration::from_secs(90);

type ResponseBody = Empty<Bytes>;

/// Opens an address, if its clients need sufficient credentials.
pub async fn bind(address: SocketAddr, auth: &WsAuth) -> Result<TcpListener, WsBindError> {
    auth.check(address)?;
    TcpListener::bind(address).await.map_err(|source| WsBindError::System { address, source })
}

/// Why an address cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum WsBindError {
    /// Other machines could connect without a token.
    #[error(transparent)]
    Auth(#[from] WsAuthError),
    /// The operating system rejects it.
    #[error("cannot listen on {address}")]
    System {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
}

/// The routes of the listener.
#[derive(Debug)]
pub struct WebSocketFrontEnd {
    service: Arc<Service>,
    auth: WsAuth,
}

impl WebSocketFrontEnd {
    /// A server for `service` with at most `max_connections` connections. Its tasks belong to the service.
    pub fn server(service: Arc<Service>, auth: WsAuth, max_connections: usize) -> Arc<HttpServer<Self>> {
        let (stop, tasks) = (service.stop.clone(), service.tasks.clone());
        Arc::new(HttpServer {
            service: Arc::new(WebSocketFrontEnd { service, auth }),
            limiter: ConnectionLimiter::new(max_connections),
            when_full: WhenFull::Reject,
            deadlines: PhaseDeadlines::default(),
            tls: None,
            stop,
            tasks,
        })
    }

    fn upgrade(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        caller: Caller,
        connection: Arc<HttpConnection>,
    ) -> Response<ResponseBody> {
        let handshake = match WebSocketHandshake::from_request(&mut request) {
            Ok(handshake) => handshake,
            Err(_not_a_handshake) => return empty(StatusCode::BAD_REQUEST),
        };
        let (response, upgraded) = handshake.accept();
        self.service.tasks.clone().spawn(async move {
            // Keeps its slot until the WebSocket ends.
            let _connection = connection;
            if let Some(stream) = upgraded.await {
                self.serve(stream, caller).await;
            }
        });
        response
    }

    async fn serve(&self, upgraded: UpgradedStream, caller: Caller) {
        let metrics = &self.service.metrics;
        let _connection = metrics.connection(Transport::Ws);
        let settings = Settings { ping_every: PING_EVERY, deadline: DEADLINE };
        let stream = counted(upgraded.stream, metrics, Transport::Ws);
        let (link, closer) =
            websocket::link(stream, upgraded.read_already, Role::Server, &settings, &link_limits());
        let (stop, stopping) = (self.service.stop.child_token(), self.service.stop.clone());
        let arrival = Arrival { caller, transport: Transport::Ws };
        let set_reason = async {
            stopping.cancelled().await;
            closer.set_reason(Close::new(Close::GOING_AWAY, "the server stops"));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = set_reason => {}
            () = serve(self.service.clone(), link, arrival, stop) => {}
        }
    }
}

impl HttpService for WebSocketFrontEnd {
    type ResponseBody = ResponseBody;

    async fn respond(
        self: Arc<Self>,
        connection: Arc<HttpConnection>,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let caller = match self.auth.authenticate(&request) {
            Ok(caller) => caller,
            Err(status) => return empty(status),
        };
        connection.slot.authenticate();
        match request.uri().path() {
            "/" => self.upgrade(request, caller, connection),
            "/readyz" if request.method() == Method::GET => empty(StatusCode::OK),
            _ => empty(StatusCode::NOT_FOUND),
        }
    }
}

fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    response
}
