//! Browsers: the cookie of a sign-in, which no script can read, and the check that a page of this hub sent a request.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::{COOKIE, HOST, HeaderName, HeaderValue, ORIGIN, SET_COOKIE};
use http::{HeaderMap, Method, StatusCode};
use link::listen::bearer_token;
use serde_json::json;

use crate::api::PlainError;
use crate::auth::{Principal, Secret, now};
use crate::config::PublicUrl;
use crate::services::Services;
use crate::store::{NewSignIn, SignInId, User};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// How browsers reach the hub.
#[derive(Debug)]
pub(crate) struct Site {
    /// The URL of the listener, or the configured one.
    base: PublicUrl,
    is_configured: bool,
    /// The name of the cookie.
    cookie: String,
    /// The certificate of the hub's own authority, for browsers that are to trust it.
    pub(crate) authority: Option<Bytes>,
}

impl Site {
    pub(crate) fn new(own: PublicUrl, public: Option<PublicUrl>, authority: Option<Bytes>) -> Site {
        let is_configured = public.is_some();
        let base = public.unwrap_or(own);
        // A browser sends cookies to every port of a name: two hubs on one machine need two names. The prefix makes browsers
        // refuse a cookie that was set without TLS or for a whole domain.
        let port = base.authority.rsplit_once(':').map_or("80", |(_, port)| port);
        let cookie = if base.secure { "__Host-rexhub".to_owned() } else { format!("rexhub-{port}") };
        Site { base, is_configured, cookie, authority }
    }

    /// Whether browsers use TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.base.secure
    }

    /// The URL of the hub as the client of a request knows it, without a trailing slash.
    pub(crate) fn url(&self, headers: Option<&HeaderMap>) -> String {
        let host = headers.and_then(|headers| headers.get(HOST)?.to_str().ok());
        let host = host.filter(|_| !self.is_configured);
        let host = host.filter(|host| host.parse::<http::uri::Authority>().is_ok() && !host.contains('@'));
        let scheme = if self.base.secure { "https" } else { "http" };
        format!("{scheme}://{}{}", host.unwrap_or(&self.base.authority), self.base.prefix)
    }

    /// The header that stores a sign-in in a browser for a time in seconds; 0 removes it.
    pub(crate) fn set_cookie(&self, secret: &str, seconds: i64) -> Result<HeaderValue, PlainError> {
        let (name, secure) = (&self.cookie, if self.base.secure { "; Secure" } else { "" });
        let cookie = format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::try_from(cookie).map_err(|_| PlainError::unauthorized("invalid token"))
    }

    /// The secret in the cookie of a request.
    pub(crate) fn cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, secret)| secret)
    }
}

/// The secret of a request and whether it is the cookie's: a token in a header goes first.
pub(crate) fn credentials<'a>(
    services: &Services,
    method: &Method,
    headers: &'a HeaderMap,
) -> Result<Option<(&'a str, bool)>, PlainError> {
    let token = bearer_token(headers).map_err(|_| PlainError::unauthorized("invalid token"))?;
    match (token, services.site.cookie(headers)) {
        (Some(token), _) => Ok(Some((token, false))),
        (None, Some(secret)) => {
            check_origin(method, headers)?;
            Ok(Some((secret, true)))
        }
        (None, None) => Ok(None),
    }
}

/// Rejects requests that a page of another site sends with the cookie. The router has checked that an `Origin`, where there
/// is one, is that of the hub.
fn check_origin(method: &Method, headers: &HeaderMap) -> Result<(), PlainError> {
    let site = headers.get(SEC_FETCH_SITE).map(|site| site.to_str().unwrap_or_default());
    let is_accepted = match *method {
        Method::GET | Method::HEAD => matches!(site, None | Some("same-origin" | "none")),
        _ => site == Some("same-origin") || (site.is_none() && headers.contains_key(ORIGIN)),
    };
    match is_accepted {
        true => Ok(()),
        false => Err(foreign()),
    }
}

/// Requires an `Origin`, which a browser sends with each WebSocket handshake.
pub(crate) fn require_origin(headers: &HeaderMap) -> Result<(), PlainError> {
    if headers.contains_key(ORIGIN) { Ok(()) } else { Err(foreign()) }
}

fn foreign() -> PlainError {
    PlainError::new(StatusCode::FORBIDDEN, "requests from pages of other sites are rejected")
}

/// Signs a user in with a cookie.
pub(crate) async fn begin(services: &Services, user: User) -> Result<Response, PlainError> {
    let secret = Secret::random().map_err(|error| {
        tracing::error!(%error, "no random bytes for a token");
        PlainError::new(StatusCode::SERVICE_UNAVAILABLE, "the hub cannot create a token at the moment")
    })?;
    let (now, expires_in) = (now(), services.limits.refresh);
    let ends = now + expires_in;
    let access = secret.digest();
    services
        .store
        .add_sign_in(NewSignIn { user: user.id, access, access_ends: ends, refresh: None, ends, now })
        .await?;
    let cookie = services.site.set_cookie(secret.expose(), expires_in)?;
    let body = json!({ "user": user.name, "role": user.role, "expires_in": expires_in });
    Ok(([(SET_COOKIE, cookie)], Json(body)).into_response())
}

/// Prolongs the sign-in of a cookie. Returns the header that prolongs the cookie, and when both end.
pub(crate) async fn prolong(
    services: &Services,
    id: SignInId,
    secret: &str,
) -> Result<(HeaderValue, i64), PlainError> {
    let ends = now() + services.limits.refresh;
    services.store.prolong_sign_in(id, ends).await?;
    Ok((services.site.set_cookie(secret, services.limits.refresh)?, ends))
}

/// The header that removes the cookie, if the request has it.
pub(crate) fn removal(services: &Services, headers: &HeaderMap) -> Option<HeaderValue> {
    services.site.cookie(headers).and_then(|_| services.site.set_cookie("", 0).ok())
}

/// The user, client or share of a request.
pub(crate) async fn principal(services: &Services, secret: &str) -> Result<Principal, PlainError> {
    let invalid = || PlainError::unauthorized("invalid token");
    match services.tokens.principal(secret).await? {
        Some(principal) => Ok(principal),
        None => services.tokens.share(secret).await?.ok_or_else(invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_cookie_needs_a_request_of_the_same_origin() {
        let own = (ORIGIN, "http://hub");
        for (method, pairs, is_accepted) in [
            (Method::GET, vec![], true),
            (Method::GET, vec![(SEC_FETCH_SITE, "none")], true),
            (Method::GET, vec![(SEC_FETCH_SITE, "same-origin")], true),
            (Method::GET, vec![(SEC_FETCH_SITE, "cross-site")], false),
            (Method::GET, vec![(SEC_FETCH_SITE, "same-site")], false),
            (Method::POST, vec![], false),
            (Method::POST, vec![own.clone()], true),
            (Method::POST, vec![(SEC_FETCH_SITE, "same-origin")], true),
            (Method::POST, vec![(SEC_FETCH_SITE, "none")], false),
            (Method::DELETE, vec![own, (SEC_FETCH_SITE, "same-site")], false),
        ] {
            assert_eq!(check_origin(&method, &headers(&pairs)).is_ok(), is_accepted, "{method} {pairs:?}");
        }
    }

    #[test]
    fn two_hubs_on_one_machine_have_two_cookies() {
        let site = |url: &str| Site::new(url.parse().unwrap(), None, None);
        let (one, two, tls) = (site("http://127.0.0.1:1"), site("http://127.0.0.1:2"), site("https://hub"));
        let sent = headers(&[(COOKIE, "x=1; rexhub-2=b; rexhub-1=a; __Host-rexhub=c")]);
        assert_eq!(
            (one.cookie(&sent), two.cookie(&sent), tls.cookie(&sent)),
            (Some("a"), Some("b"), Some("c"))
        );
        let (plain, secure) = (one.set_cookie("s", 5).unwrap(), tls.set_cookie("s", 5).unwrap());
        assert_eq!(plain, "rexhub-1=s; Path=/; Max-Age=5; HttpOnly; SameSite=Strict");
        assert_eq!(secure, "__Host-rexhub=s; Path=/; Max-Age=5; HttpOnly; SameSite=Strict; Secure");
    }
}
