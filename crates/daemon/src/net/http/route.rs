//! Routes: the methods of each path, and the authentication before them.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderValue};
use http::uri::Authority;
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
    let HttpExchange { front_end, connection } = exchange;
    let route = Route::of(front_end, request.uri().path());
    // Before the path is checked: an unauthenticated client must not see which paths exist.
    let caller = match authenticate(exchange, route, &request) {
        Ok(caller) => caller,
        Err(rejection) => return response::and_close(response::rejected(&rejection)),
    };
    if let Some(caller) = &caller
        && let Err(error) = connection.slot.authenticate_as(&caller.name)
    {
        front_end.metrics.refused(metrics::RefusalReason::Connections);
        return response::and_close(response::rejected(&AuthRejection::too_many_connections(caller, error)));
    }
    let Some(route) = route else { return response::bad(StatusCode::NOT_FOUND, "no such path") };
    if let Some(response) = wrong_method(route, request.method()) {
        return response;
    }
    match (route, caller) {
        (Route::Rpc, Some(caller)) => rpc::post(exchange, &caller, request).await,
        (Route::Events, Some(caller)) => events::listen(exchange, caller, &request).await,
        (Route::WebSocket, Some(caller)) => upgrade::upgrade(exchange, caller, request),
        (Route::Metrics, Some(_)) => {
            response::whole(StatusCode::OK, metrics::CONTENT_TYPE, front_end.metrics.render())
        }
        (Route::Health, _) | (_, None) => health(front_end),
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

/// The caller of a request; `None` for the health check, which needs no authentication. Pages of other sites are always
/// rejected.
fn authenticate(
    exchange: &HttpExchange,
    route: Option<Route>,
    request: &Request<Incoming>,
) -> Result<Option<Caller>, AuthRejection> {
    let (headers, authority) = (request.headers(), request.uri().authority().map(Authority::as_str));
    let (peer, authenticator) = (&exchange.connection.peer, &exchange.front_end.authenticator);
    let caller = match route {
        Some(Route::Health) => authenticator.check_origin(headers, authority, peer.address).map(|_| None),
        _ => {
            authenticator.authenticate(headers, authority, peer.address, peer.certificate.as_ref()).map(Some)
        }
    };
    caller.inspect_err(|rejection| record(exchange, (headers, authority), rejection))
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

/// Reports whether the daemon accepts requests.
fn health(front_end: &HttpFrontEnd) -> Response<ResponseBody> {
    let version = env!("CARGO_PKG_VERSION");
    match front_end.stop.is_cancelled() {
        false => response::json(StatusCode::OK, format!(r#"{{"status":"ok","version":"{version}"}}"#)),
        true => response::json(StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"draining"}"#),
    }
}
