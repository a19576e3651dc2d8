//! Routes: which path takes what, and who may ask.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncWrite};

use super::answer::{self, Answer, Body};
use super::connection::Visit;
use super::phases::Phase;
use super::{events, rpc, upgrade};
use crate::net::auth::{Caller, Refusal};
use crate::observe::metrics;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Rpc,
    Events,
    WebSocket,
    Health,
    Metrics,
}

impl Route {
    fn of(visit: &Visit, path: &str) -> Option<Route> {
        let server = &visit.server;
        match path {
            path if path == server.http_path => Some(Route::Rpc),
            path if path == server.ws_path => Some(Route::WebSocket),
            "/events" => Some(Route::Events),
            "/healthz" => Some(Route::Health),
            "/metrics" if server.tells_metrics => Some(Route::Metrics),
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

    fn takes(self, method: &Method) -> bool {
        self.allow().split(", ").any(|name| name == method.as_str())
    }
}

/// Answers one request.
pub(super) async fn answer<S>(visit: &Arc<Visit>, request: Request<Incoming>) -> Answer
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    visit.phases.enter(Phase::Busy);
    let route = Route::of(visit, request.uri().path());
    if let Some(route @ Route::Health) = route {
        return health(visit, route, &request).into();
    }
    // Who may not come in learns nothing of what there is.
    let caller = match admit(visit, &request) {
        Ok(caller) => caller,
        Err(refusal) => return answer::and_close(answer::refused(&refusal)).into(),
    };
    visit.peer.place.known();
    let Some(route) = route else {
        return answer::bad(StatusCode::NOT_FOUND, "there is nothing at this path").into();
    };
    if let Some(refusal) = wrong_method(route, request.method()) {
        return refusal.into();
    }
    match route {
        Route::Rpc => rpc::post(visit, &caller, request).await.into(),
        Route::Events => events::listen(visit, caller, &request).await,
        Route::WebSocket => upgrade::upgrade::<S>(visit, caller, request),
        Route::Metrics => {
            answer::whole(StatusCode::OK, metrics::CONTENT_TYPE, visit.server.metrics.render()).into()
        }
        Route::Health => health(visit, route, &request).into(),
    }
}

fn wrong_method(route: Route, method: &Method) -> Option<Response<Body>> {
    if !route.takes(method) {
        return Some(answer::wrong_method(route.allow()));
    }
    (method == Method::OPTIONS).then(|| {
        // No page of another site is ever told that it may.
        let mut response = answer::empty(StatusCode::NO_CONTENT);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(route.allow()));
        response
    })
}

fn admit(visit: &Visit, request: &Request<Incoming>) -> Result<Caller, Refusal> {
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let certificate = visit.peer.certificate.as_deref();
    let admitted = visit.server.gate.admit(request.headers(), authority, visit.peer.address, certificate);
    admitted.inspect_err(|refusal| note(visit, (request.headers(), authority), refusal))
}

/// Takes note of a refusal, and of where the request came from as far as that can be believed.
pub(super) fn note(visit: &Visit, (headers, authority): (&HeaderMap, Option<&str>), refusal: &Refusal) {
    let peer = visit.peer.address;
    let visitor = visit.server.gate.visit(headers, authority, peer).ok();
    let address = visitor.and_then(|visitor| visitor.address);
    let address = address.or_else(|| peer.map(|peer| Arc::from(peer.ip().to_canonical().to_string())));
    visit.server.refusals.note("http", refusal, address.as_ref());
    visit.server.metrics.refused(match refusal.reason {
        "no_token" => metrics::RefusalReason::Unauthenticated,
        "scope" => metrics::RefusalReason::Scope,
        "malformed_token" => metrics::RefusalReason::Malformed,
        reason if reason.contains("origin") => metrics::RefusalReason::Origin,
        reason if reason.contains("host") => metrics::RefusalReason::Host,
        _ => metrics::RefusalReason::Credentials,
    });
}

/// Whether the daemon takes work. Everybody may ask, but a page of another site may not.
fn health(visit: &Visit, route: Route, request: &Request<Incoming>) -> Response<Body> {
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    if let Err(refusal) = visit.server.gate.visit(request.headers(), authority, visit.peer.address) {
        note(visit, (request.headers(), authority), &refusal);
        return answer::and_close(answer::refused(&refusal));
    }
    if let Some(refusal) = wrong_method(route, request.method()) {
        return refusal;
    }
    let version = env!("CARGO_PKG_VERSION");
    match visit.server.stop.is_cancelled() {
        false => answer::json(StatusCode::OK, format!(r#"{{"status":"ok","version":"{version}"}}"#)),
        true => answer::json(StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"draining"}"#),
    }
}
