//! exec-server over WebSockets: `/` upgrades, `/readyz` reports readiness, and no other path exists.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use link::listen::{
    ConnectionLimiter, HttpConnection, HttpServer, HttpService, PhaseDeadlines, UpgradedStream,
    WebSocketHandshake, WhenFull,
};
use link::websocket::{self, Close, Role, Settings};

use super::WsAuth;
use crate::core::Core;
use crate::core::request::ConnectionContext;
use crate::core::session::Face as _;
use crate::faces::exec_server::{ExecServer, link_limits, serve};
use crate::net::auth::Caller;
use crate::net::listen::counted;
use crate::observe::metrics::Transport;

type ResponseBody = Empty<Bytes>;

/// The routes of the listener.
#[derive(Debug)]
pub struct WebSocketFrontEnd {
    face: Arc<ExecServer>,
    auth: WsAuth,
}

impl WebSocketFrontEnd {
    /// A server for the face with at most `max_connections` connections. Its tasks belong to the core.
    pub fn server(face: Arc<ExecServer>, auth: WsAuth, max_connections: usize) -> Arc<HttpServer<Self>> {
        let (stop, tasks) = (face.core().stop.clone(), face.core().tasks.clone());
        Arc::new(HttpServer {
            service: Arc::new(WebSocketFrontEnd { face, auth }),
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
        let Ok(handshake) = WebSocketHandshake::from_request(&mut request) else {
            return empty(StatusCode::BAD_REQUEST);
        };
        let (response, upgraded) = handshake.accept();
        self.face.core().tasks.clone().spawn(async move {
            // Keeps its slot until the WebSocket ends.
            let _connection = connection;
            if let Some(stream) = upgraded.await {
                self.serve(stream, caller).await;
            }
        });
        response
    }

    async fn serve(&self, upgraded: UpgradedStream, caller: Caller) {
        let Core { metrics, stop, .. } = &**self.face.core();
        let _connection = metrics.connection(Transport::Ws);
        let stream = counted(upgraded.stream, metrics, Transport::Ws);
        let limits = link_limits(self.face.core());
        let (link, closer) =
            websocket::link(stream, upgraded.read_already, Role::Server, &Settings::relay(), &limits);
        let context = ConnectionContext::new(caller, Transport::Ws);
        let set_reason = async {
            stop.cancelled().await;
            closer.set_reason(Close::new(Close::GOING_AWAY, "the server stops"));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = set_reason => {}
            () = serve(self.face.clone(), link, context) => {}
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
