//! Who may talk to the server over HTTP: whoever has the token, and no page of a browser from elsewhere.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, StatusCode};

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) message: &'static str,
}

/// Lets in or says why not. Where a request comes from is looked at first, so that a page learns nothing.
pub(super) fn admit(headers: &HeaderMap, token: &str) -> Result<(), Refusal> {
    let refused = |status, message| Err(Refusal { status, message });
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next().map(|host| host.to_str().is_ok_and(is_own_name)), hosts.next()) {
        (Some(true), None) => {}
        (Some(false), None) => {
            return refused(StatusCode::FORBIDDEN, "this Host is not ours: use the address or localhost");
        }
        _ => return refused(StatusCode::BAD_REQUEST, "exactly one Host is needed"),
    }
    if headers.get_all(ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(is_loopback_origin)) {
        return refused(StatusCode::FORBIDDEN, "pages from elsewhere may not talk to this server");
    }
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
    match given.is_some_and(|given| is_same(given.as_bytes(), token.as_bytes())) {
        true => Ok(()),
        false => refused(StatusCode::UNAUTHORIZED, "Authorization: Bearer TOKEN is needed"),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Addresses and localhost. Any other name could be made to lead here by whoever owns it.
fn is_own_name(host: &str) -> bool {
    let name = without_port(host);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn is_loopback_origin(origin: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.map(without_port).is_some_and(|name| {
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

fn without_port(authority: &str) -> &str {
    match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
    }
}

/// Compares in a time that does not depend on where they differ.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differing = given.iter().zip(token).fold(0, |differing, (a, b)| differing | (a ^ b));
    std::hint::black_box(differing) == 0 && given.len() == token.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        admit(&map, "secret").map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_the_token_opens() {
        let host = ("host", "127.0.0.1:80");
        assert_eq!(status(&[host, ("authorization", "Bearer secret")]), 200);
        assert_eq!(status(&[host, ("authorization", "bearer secret")]), 200);
        for wrong in ["Bearer secre", "Bearer secrets", "Bearer ", "secret", "Basic secret", "Bearer SECRET"]
        {
            assert_eq!(status(&[host, ("authorization", wrong)]), 401, "{wrong}");
        }
        assert_eq!(status(&[host]), 401);
    }

    #[test]
    fn pages_and_names_from_elsewhere_are_refused_even_with_the_token() {
        let token = ("authorization", "Bearer secret");
        for origin in [
            "http://evil.example",
            "null",
            "https://localhost.evil.example",
            "http://10.0.0.1",
            "ftp://localhost",
        ] {
            assert_eq!(status(&[("host", "localhost"), token, ("origin", origin)]), 403, "{origin}");
        }
        for origin in ["http://localhost:5173", "http://127.0.0.1", "https://[::1]:8"] {
            assert_eq!(status(&[("host", "localhost"), token, ("origin", origin)]), 200, "{origin}");
        }
        for host in ["evil.example", "localhost.evil.example:80", ""] {
            assert_eq!(status(&[("host", host), token]), 403, "{host}");
        }
        assert_eq!(status(&[token]), 400);
        assert_eq!(status(&[("host", "[::1]:8080"), token]), 200);
    }
}
