//! Routes: the methods of each path, and the authentication before them.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::response::{self, ResponseBody};
use super::{HttpExchange, HttpFrontEnd, events, rpc, upgrade};
use crate::net::auth::{AuthRejection, Caller};
use crate::observe::metrics;

/// What a path serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Rpc,
    Events,
    WebSocket,
    Health,
    Metrics,
}

impl Route {
    fn of(front_end: &HttpFrontEnd, path: &str) -> Option<Route> {
        match path {
            path if path == front_end.http_path => Some(Route::Rpc),
            path if path == front_end.ws_path => Some(Route::WebSocket),
            "/events" => Some(Route::Events),
            "/healthz" => Some(Route::Health),
            "/metrics" if front_end.serves_metrics => Some(Route::Metrics),
            _ => None,
        }
    }

    fn allow(self) -> &'static str {
        match self {
            Route::Rpc => "POST, OPTIONS",
            Route::Events | Route::WebSocket => "GET, OPTIONS",
            Route::Health | Route::Metrics => "GET, HEAD, OPTIONS",
        }
    }

    fn accepts(self, method: &Method) -> bool {
        self.allow().split(", ").any(|name| name == method.as_str())
    }
}

/// Responds to one HTTP request.
pub(super) async fn respond(exchange: &HttpExchange, request: Request<Incoming>) -> Response<ResponseBody> {
    let front_end = &exchange.front_end;
    let route = Route::of(front_end, request.uri().path());
    if let Some(route @ Route::Health) = route {
        return health(exchange, route, &request);
    }
    // Before the path is checked: an unauthenticated client must not see which paths exist.
    let caller = match authenticate(exchange, &request) {
        Ok(caller) => caller,
        Err(rejection) => return response::and_close(response::rejected(&rejection)),
    };
    exchange.connection.slot.authenticate();
    let Some(route) = route else { return response::bad(StatusCode::NOT_FOUND, "no such path") };
    if let Some(response) = wrong_method(route, request.method()) {
        return response;
    }
    match route {
        Route::Rpc => rpc::post(exchange, &caller, request).await,
        Route::Events => events::listen(exchange, caller, &request).await,
        Route::WebSocket => upgrade::upgrade(exchange, caller, request),
        Route::Metrics => response::whole(StatusCode::OK, metrics::CONTENT_TYPE, front_end.metrics.render()),
        Route::Health => health(exchange, route, &request),
    }
}

fn wrong_method(route: Route, method: &Method) -> Option<Response<ResponseBody>> {
    if !route.accepts(method) {
        return Some(response::wrong_method(route.allow()));
    }
    (method == Method::OPTIONS).then(|| {
        // Without CORS headers: pages of other sites get no access.
        let mut response = response::empty(StatusCode::NO_CONTENT);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(route.allow()));
        response
    })
}

fn authenticate(exchange: &HttpExchange, request: &Request<Incoming>) -> Result<Caller, AuthRejection> {
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let peer = &exchange.connection.peer;
    let authenticator = &exchange.front_end.authenticator;
    authenticator
        .authenticate(request.headers(), authority, peer.address, peer.certificate.as_deref())
        .inspect_err(|rejection| record(exchange, (request.headers(), authority), rejection))
}

/// Records a rejection with the client's address, as far as that is trustworthy.
pub(super) fn record(
    exchange: &HttpExchange,
    (headers, authority): (&HeaderMap, Option<&str>),
    rejection: &AuthRejection,
) {
    let HttpExchange { front_end, connection } = exchange;
    let peer = connection.peer.address;
    let address = front_end.authenticator.check_origin(headers, authority, peer).ok().flatten();
    let address = address.or_else(|| peer.map(|peer| Arc::from(peer.ip().to_canonical().to_string())));
    front_end.rejections.record("http", rejection, address.as_ref());
    front_end.metrics.refused(match rejection.reason {
        "no_token" => metrics::RefusalReason::Unauthenticated,
        "scope" => metrics::RefusalReason::Scope,
        "malformed_token" => metrics::RefusalReason::Malformed,
        "foreign_origin" => metrics::RefusalReason::Origin,
        "bad_host" | "foreign_host" => metrics::RefusalReason::Host,
        _ => metrics::RefusalReason::Credentials,
    });
}

/// Reports whether the daemon accepts requests. Needs no authentication, but pages of other sites are rejected.
fn health(exchange: &HttpExchange, route: Route, request: &Request<Incoming>) -> Response<ResponseBody> {
    let HttpExchange { front_end, connection } = exchange;
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let checked = front_end.authenticator.check_origin(request.headers(), authority, connection.peer.address);
    if let Err(rejection) = checked {
        record(exchange, (request.headers(), authority), &rejection);
        return response::and_close(response::rejected(&rejection));
    }
    if let Some(response) = wrong_method(route, request.method()) {
        return response;
    }
    let version = env!("CARGO_PKG_VERSION");
    match front_end.stop.is_cancelled() {
        false => response::json(StatusCode::OK, format!(r#"{{"status":"ok","version":"{version}"}}"#)),
        true => response::json(StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"draining"}"#),
    }
}
