//! Who may open a WebSocket: on loopback everybody of this machine, elsewhere whoever shows the token.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::header::{self, HeaderMap};
use http::{Request, StatusCode};

use crate::net::auth::{Caller, Digest, Host, Secret};

/// What a client has to show.
#[derive(Debug, Clone)]
pub enum WsAuth {
    /// Nothing: the listener is on loopback.
    None,
    /// A token with this digest, as `Authorization: Bearer`.
    Token(Digest),
}

/// Flags that make no sense, or a file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadWsAuth {
    /// An unknown way.
    #[error("--ws-auth {0:?} is not known; there is capability-token")]
    Unknown(String),
    /// No token, or two.
    #[error("--ws-auth capability-token needs either --ws-token-file FILE or --ws-token-sha256 HEX")]
    OneToken,
    /// A token without the flag that wants it.
    #[error("--ws-token-file and --ws-token-sha256 need --ws-auth capability-token")]
    WithoutAuth,
    /// No digest.
    #[error("--ws-token-sha256 takes 64 hexadecimal digits")]
    BadDigest,
    /// No file, or nothing in it.
    #[error("the token in {file} cannot be used: {reason}")]
    BadFile {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// Everybody could come in.
    #[error(
        "{0} can be reached from elsewhere: add --ws-auth capability-token and a token, or listen on 127.0.0.1"
    )]
    Exposed(SocketAddr),
}

impl WsAuth {
    /// What the flags ask for.
    pub fn from_flags(
        way: Option<&str>,
        file: Option<&Path>,
        sha256: Option<&str>,
    ) -> Result<WsAuth, BadWsAuth> {
        match (way, file, sha256) {
            (None, None, None) => Ok(WsAuth::None),
            (None, _, _) => Err(BadWsAuth::WithoutAuth),
            (Some("capability-token"), Some(file), None) => from_file(file),
            (Some("capability-token"), None, Some(hex)) => {
                Digest::from_hex(hex).map(WsAuth::Token).ok_or(BadWsAuth::BadDigest)
            }
            (Some("capability-token"), _, _) => Err(BadWsAuth::OneToken),
            (Some(other), _, _) => Err(BadWsAuth::Unknown(other.to_owned())),
        }
    }

    /// Whether a listener may be opened here.
    pub fn check(&self, address: SocketAddr) -> Result<(), BadWsAuth> {
        match self {
            WsAuth::None if !address.ip().is_loopback() => Err(BadWsAuth::Exposed(address)),
            _ => Ok(()),
        }
    }

    /// Who asks, or what they are answered.
    pub(super) fn admit<B>(&self, request: &Request<B>) -> Result<Caller, StatusCode> {
        let headers = request.headers();
        // Programs send none; a browser's page must not run commands here.
        if headers.contains_key(header::ORIGIN) {
            return Err(StatusCode::FORBIDDEN);
        }
        match self {
            WsAuth::None if is_local(headers) => Ok(Caller::on_loopback()),
            WsAuth::None => Err(StatusCode::FORBIDDEN),
            WsAuth::Token(expected) => match bearer(headers) {
                Some(token) if token.digest().matches(expected) => Ok(Caller::with_capability()),
                _ => Err(StatusCode::UNAUTHORIZED),
            },
        }
    }
}

fn from_file(file: &Path) -> Result<WsAuth, BadWsAuth> {
    let bad = |reason: String| BadWsAuth::BadFile { file: file.to_owned(), reason };
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    match text.trim() {
        "" => Err(bad("it is empty".to_owned())),
        token => Ok(WsAuth::Token(Secret::new(token).digest())),
    }
}

/// Whether a request means this machine: a name that somebody else's name server sends here does not.
fn is_local(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host.and_then(Host::parse_authority).is_some_and(|host| host.is_loopback())
}

fn bearer(headers: &HeaderMap) -> Option<Secret> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Secret::new(token.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(auth: &WsAuth, headers: &[(&str, &str)]) -> Result<String, StatusCode> {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        auth.admit(&request.body(()).unwrap()).map(|caller| caller.name.to_string())
    }

    #[test]
    fn pages_and_foreign_names_stay_outside() {
        let local = ("host", "127.0.0.1:99");
        assert_eq!(asked(&WsAuth::None, &[local]), Ok("loopback".to_owned()));
        assert_eq!(asked(&WsAuth::None, &[("host", "evil.example:99")]), Err(StatusCode::FORBIDDEN));
        assert_eq!(asked(&WsAuth::None, &[]), Err(StatusCode::FORBIDDEN));
        let origin = ("origin", "http://127.0.0.1:99");
        assert_eq!(asked(&WsAuth::None, &[local, origin]), Err(StatusCode::FORBIDDEN));
    }

    #[test]
    fn a_token_is_wanted_wherever_one_is_set() {
        let digest = Secret::new("let me in").digest();
        let auth = WsAuth::Token(digest);
        assert_eq!(asked(&auth, &[]), Err(StatusCode::UNAUTHORIZED));
        assert_eq!(asked(&auth, &[("authorization", "Bearer no")]), Err(StatusCode::UNAUTHORIZED));
        assert!(asked(&auth, &[("authorization", "bearer let me in")]).is_ok());
        let everywhere = "0.0.0.0:1".parse().unwrap();
        assert!(auth.check(everywhere).is_ok());
        assert!(matches!(WsAuth::None.check(everywhere), Err(BadWsAuth::Exposed(_))));
    }

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        let hex = "00".repeat(32);
        assert!(WsAuth::from_flags(Some("capability-token"), None, Some(&hex)).is_ok());
        for (way, file, sha256) in [
            (Some("capability-token"), None, None),
            (Some("capability-token"), Some(Path::new("f")), Some(hex.as_str())),
            (Some("capability-token"), None, Some("12")),
            (Some("other"), None, Some(hex.as_str())),
            (None, None, Some(hex.as_str())),
        ] {
            assert!(WsAuth::from_flags(way, file, sha256).is_err(), "{way:?} {file:?} {sha256:?}");
        }
    }
}
