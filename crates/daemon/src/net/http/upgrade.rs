//! `GET /ws`: a request that becomes a WebSocket connection of REXD.

use http::header::{self, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use link::listen::{UpgradedStream, WebSocketHandshake, has_token};
use link::websocket::{self, Close, Role};

use super::response::{self, ResponseBody};
use super::{HttpExchange, HttpFrontEnd, revoked};
use crate::faces::rexd::{self, Arrival};
use crate::net::auth::Caller;
use crate::net::listen::counted;
use crate::observe::metrics::Transport;

/// The subprotocol, for clients that request one.
const PROTOCOL: &str = "rexd";

pub(super) fn upgrade(
    exchange: &HttpExchange,
    caller: Caller,
    mut request: Request<Incoming>,
) -> Response<ResponseBody> {
    let handshake = match WebSocketHandshake::from_request(&mut request) {
        Ok(handshake) => handshake,
        Err(error) => {
            let mut response = response::bad(error.status(), error.to_string());
            response.headers_mut().extend(error.header());
            return response;
        }
    };
    let (mut response, upgraded) = handshake.accept();
    if has_token(request.headers(), &header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL) {
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    }
    // The exchange keeps the connection's slot until the WebSocket ends.
    let exchange = exchange.clone();
    exchange.front_end.tasks.clone().spawn(async move {
        if let Some(stream) = upgraded.await {
            serve(&exchange.front_end, caller, stream).await;
        }
    });
    response
}

async fn serve(front_end: &HttpFrontEnd, caller: Caller, upgraded: UpgradedStream) {
    let _connection = front_end.metrics.connection(Transport::Ws);
    let (link, closer) = websocket::link(
        counted(upgraded.stream, &front_end.metrics, Transport::Ws),
        upgraded.read_already,
        Role::Server,
        &front_end.websocket,
        &front_end.limits,
    );
    let stop = front_end.stop.child_token();
    let arrival = Arrival::new(caller.clone(), Transport::Ws);
    let end = async {
        let why = tokio::select! {
            () = front_end.stop.cancelled() => Close::new(Close::GOING_AWAY, "the server stops"),
            () = revoked(&front_end.authenticator, &caller) => Close::new(Close::REVOKED, "access was revoked"),
        };
        closer.set_reason(why);
        stop.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = end => {}
        () = rexd::serve(front_end.service.clone(), link, arrival, stop.clone()) => {}
    }
}
