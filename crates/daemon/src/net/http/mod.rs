//! REXD over HTTP/1.1 and WebSocket: the routes behind [`link::listen::HttpServer`].
//!
//! | route | what |
//! |---|---|
//! | `POST /rpc` | one message or a batch, and its response |
//! | `GET /events?session_id=` | the events of a session, as server-sent events |
//! | `GET /ws` | a WebSocket: messages in both directions |
//! | `GET /healthz` | whether the daemon accepts requests; without authentication |
//! | `GET /metrics` | metrics for Prometheus |
//!
//! Every request passes the [`Authenticator`] first.

mod encoding;
mod events;
mod response;
mod route;
mod rpc;
mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use link::listen::{ConnectionRejection, HttpConnection, HttpService, StreamObserver};
use link::task::Tasks;
use link::websocket;
use tokio_util::sync::CancellationToken;

use crate::faces::rexd::Rexd;
use crate::net::auth::{Authenticator, Caller, RejectionLog};
use crate::net::listen::ByteCounter;
use crate::observe::metrics::{Metrics, RefusalReason, Transport};

use response::ResponseBody;

/// How often a silent event stream sends a comment.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// REXD's HTTP front end: everything that its routes need.
#[derive(Debug)]
pub struct HttpFrontEnd {
    /// The face behind the routes.
    pub face: Arc<Rexd>,
    /// The check of every request.
    pub authenticator: Authenticator,
    /// The log of rejected requests.
    pub rejections: RejectionLog,
    /// The counters.
    pub metrics: Metrics,
    /// True if `/metrics` is served.
    pub serves_metrics: bool,
    /// The path of requests.
    pub http_path: String,
    /// The path of WebSockets.
    pub ws_path: String,
    /// The time between comments on a silent event stream.
    pub heartbeat: Duration,
    /// Pings and deadlines of WebSockets.
    pub websocket: websocket::Settings,
    /// The limits of a WebSocket's link.
    pub limits: link::Limits,
    /// Cancelled when the daemon stops.
    pub stop: CancellationToken,
    /// Owns the WebSocket connections; the daemon waits for them when it stops.
    pub tasks: Tasks,
}

/// One request: its front end and its connection.
#[derive(Debug, Clone)]
struct HttpExchange {
    front_end: Arc<HttpFrontEnd>,
    connection: Arc<HttpConnection>,
}

impl HttpService for HttpFrontEnd {
    type ResponseBody = ResponseBody;

    async fn respond(
        self: Arc<Self>,
        connection: Arc<HttpConnection>,
        request: http::Request<Incoming>,
    ) -> http::Response<ResponseBody> {
        route::respond(&HttpExchange { front_end: self, connection }, request).await
    }

    fn observer(&self) -> Box<dyn StreamObserver> {
        Box::new(ByteCounter::of_connection(&self.metrics, Transport::Http))
    }

    fn rejected(&self, rejection: ConnectionRejection) {
        self.metrics.refused(match rejection {
            ConnectionRejection::TooMany => RefusalReason::Connections,
            ConnectionRejection::Tls => RefusalReason::Tls,
        });
    }
}

/// Waits until the credentials of an authenticated caller are no longer valid.
pub async fn revoked(authenticator: &Authenticator, caller: &Caller) {
    let mut changes = authenticator.auth.changed();
    // Checked before the first wait: a change since the authentication is not notified again.
    while authenticator.auth.is_valid(caller) {
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
