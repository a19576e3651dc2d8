//! The web application: the built bundle inside the program, the headers of every response, and the addresses of the app.
//!
//! The bundle in `dist/` is built from `web/` and committed, so that building the hub needs no Node.

mod bundle;
mod headers;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, Method, StatusCode};

use crate::services::Services;

pub(crate) use bundle::version;

/// Addresses of the app alone; those that end with a slash include everything below.
const ADDRESSES: &[&str] = &["/login", "/new", "/settings", "/settings/", "/share/"];
/// Addresses of the app whose paths the API has too: a browser that navigates asks for HTML, a client of the API does not.
const SHARED_ADDRESSES: &[&str] = &["/hosts", "/hosts/", "/runs/", "/approvals", "/approvals/", "/audit"];

/// Answers requests for the app, and adds the headers of a browser's protection to every response.
pub(crate) async fn serve(State(services): State<Arc<Services>>, request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let found = is_read.then(|| find(&services, request.uri().path(), request.headers(), request.method()));
    let unknown = (is_read && wants_html(request.headers())).then(|| unknown_page(&request)).flatten();
    let mut response = match found.flatten() {
        Some(response) => response,
        None => {
            let mut response = next.run(request).await;
            if let Some(page) = unknown.filter(|_| response.status() == StatusCode::NOT_FOUND) {
                response = page;
            }
            // What the API returns concerns one user at one time.
            response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
            response
        }
    };
    headers::protect(response.headers_mut());
    response
}

fn find(services: &Services, path: &str, headers: &HeaderMap, method: &Method) -> Option<Response> {
    let is_page = path == "/" || is_among(ADDRESSES, path);
    if is_page || (is_among(SHARED_ADDRESSES, path) && wants_html(headers)) {
        return bundle::index(headers, method);
    }
    if path == "/ca.crt" {
        let certificate = services.site.authority.clone()?;
        let kind = HeaderValue::from_static("application/x-x509-ca-cert");
        return Some(([(CONTENT_TYPE, kind)], certificate).into_response());
    }
    bundle::file(path, headers, method)
}

/// The app, which says that there is no such page, for a person who opens an unknown address.
fn unknown_page(request: &Request) -> Option<Response> {
    let mut headers = request.headers().clone();
    // Its status is not that of the page which the browser may have stored.
    headers.remove(IF_NONE_MATCH);
    let mut response = bundle::index(&headers, request.method())?;
    *response.status_mut() = StatusCode::NOT_FOUND;
    Some(response)
}

fn is_among(addresses: &[&str], path: &str) -> bool {
    addresses.iter().any(|address| match address.ends_with('/') {
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
            let is_found = is_among(ADDRESSES, address) != is_among(SHARED_ADDRESSES, address);
            assert!(is_found, "{address}");
        }
        for other in ["/runs", "/logins", "/auth/me", "/users", "/ws/app", "/assets/x", "/new/x"] {
            assert!(!is_among(ADDRESSES, other) && !is_among(SHARED_ADDRESSES, other), "{other}");
        }
    }
}
