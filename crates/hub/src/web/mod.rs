//! The web application: the built bundle inside the program, the headers of every response, and the addresses of the app.
//!
//! The bundle in `dist/` is built from `web/` and committed, so that building the hub needs no Node.

mod bundle;
mod headers;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};

use crate::services::Services;

pub(crate) use bundle::version;

/// Addresses of the app; those that end with a slash include everything below. The API has routes with some of the same
/// paths: a browser that navigates asks for HTML, a client of the API does not.
const ADDRESSES: &[&str] = &[
    "/login",
    "/hosts",
    "/hosts/",
    "/runs/",
    "/approvals",
    "/approvals/",
    "/new",
    "/audit",
    "/settings",
    "/settings/",
    "/share/",
];

/// Answers requests for the app, and adds the headers of a browser's protection to every response.
pub(crate) async fn serve(State(services): State<Arc<Services>>, request: Request, next: Next) -> Response {
    let found = match *request.method() {
        Method::GET | Method::HEAD => {
            find(&services, request.uri().path(), request.headers(), request.method())
        }
        _ => None,
    };
    let mut response = match found {
        Some(response) => response,
        None => {
            let mut response = next.run(request).await;
            // What the API returns concerns one user at one time.
            response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
            response
        }
    };
    headers::protect(response.headers_mut());
    response
}

fn find(services: &Services, path: &str, headers: &HeaderMap, method: &Method) -> Option<Response> {
    if path == "/" || (is_address(path) && wants_html(headers)) {
        return bundle::index(headers, method);
    }
    if path == "/ca.crt" {
        let certificate = services.site.authority.clone()?;
        let kind = HeaderValue::from_static("application/x-x509-ca-cert");
        return Some(([(CONTENT_TYPE, kind)], certificate).into_response());
    }
    bundle::file(path, headers, method)
}

fn is_address(path: &str) -> bool {
    ADDRESSES.iter().any(|address| match address.ends_with('/') {
        true => path.starts_with(address),
        false => path == *address,
    })
}

fn wants_html(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|kind| kind.trim().to_ascii_lowercase().starts_with("text/html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_app_are_those_of_the_contract() {
        for address in [
            "/login",
            "/hosts",
            "/hosts/a",
            "/runs/r",
            "/runs/r/terminal",
            "/approvals",
            "/new",
            "/audit",
            "/settings",
            "/share/t",
        ] {
            assert!(is_address(address), "{address}");
        }
        for other in ["/runs", "/logins", "/auth/me", "/users", "/ws/app", "/assets/x", "/new/x"] {
            assert!(!is_address(other), "{other}");
        }
    }
}
