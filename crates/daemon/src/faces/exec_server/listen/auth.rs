//! Authentication of WebSocket clients: none on loopback, a token elsewhere.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::{HeaderMap, Request, StatusCode};
use link::listen::{OriginCheck, bearer_token};
use tokio::net::TcpListener;

use crate::net::auth::{Caller, Secret, TokenDigest};

/// The credentials that clients need.
#[derive(Debug, Clone)]
pub enum WsAuth {
    /// None: the listener is on loopback.
    None,
    /// A token with this digest, as `Authorization: Bearer`.
    Token(TokenDigest),
    /// The token in this file, read again for each connection: it can be replaced while the server runs.
    TokenFile(PathBuf),
}

/// Why an address cannot be served with these authentication flags.
#[derive(Debug, thiserror::Error)]
pub enum WsListenError {
    /// An unknown method.
    #[error("unknown --ws-auth {0:?}; expected capability-token")]
    Unknown(String),
    /// No token, or two.
    #[error("--ws-auth capability-token needs either --ws-token-file FILE or --ws-token-sha256 HEX")]
    OneToken,
    /// A token without `--ws-auth`.
    #[error("--ws-token-file and --ws-token-sha256 need --ws-auth capability-token")]
    WithoutAuth,
    /// The digest cannot be parsed.
    #[error("--ws-token-sha256 needs 64 hexadecimal digits")]
    Digest,
    /// The token file cannot be read or is empty.
    #[error("token file {}: {reason}", file.display())]
    File {
        /// The path of the file.
        file: PathBuf,
        /// The reason it cannot be used.
        reason: String,
    },
    /// Other machines could connect without a token.
    #[error(
        "{0} can be reached from other machines: add --ws-auth capability-token and a token, or listen on 127.0.0.1"
    )]
    Exposed(SocketAddr),
    /// The operating system rejects the address.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address to listen on.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
}

impl WsAuth {
    /// Reads what the flags require of clients.
    pub fn from_flags(
        method: Option<&str>,
        file: Option<&Path>,
        sha256: Option<&str>,
    ) -> Result<WsAuth, WsListenError> {
        match (method, file, sha256) {
            (None, None, None) => Ok(WsAuth::None),
            (None, _, _) => Err(WsListenError::WithoutAuth),
            (Some("capability-token"), Some(file), None) => {
                read_token(file).map(|_token| WsAuth::TokenFile(file.to_owned()))
            }
            (Some("capability-token"), None, Some(hex)) => {
                TokenDigest::from_hex(hex).map(WsAuth::Token).ok_or(WsListenError::Digest)
            }
            (Some("capability-token"), _, _) => Err(WsListenError::OneToken),
            (Some(other), _, _) => Err(WsListenError::Unknown(other.to_owned())),
        }
    }

    /// Opens an address, unless other machines can reach it without a token.
    pub async fn bind(&self, address: SocketAddr) -> Result<TcpListener, WsListenError> {
        match self {
            WsAuth::None if !address.ip().is_loopback() => Err(WsListenError::Exposed(address)),
            WsAuth::None | WsAuth::Token(_) | WsAuth::TokenFile(_) => {
                TcpListener::bind(address).await.map_err(|source| WsListenError::Bind { address, source })
            }
        }
    }

    /// The caller of a request, or the status of the response. Programs send no `Origin`; pages of a browser must not run
    /// commands here.
    pub(super) fn authenticate<B>(&self, request: &Request<B>) -> Result<Caller, StatusCode> {
        let headers = request.headers();
        let origins = OriginCheck::no_pages(matches!(self, WsAuth::None));
        origins.check(headers, None, None).map_err(|_foreign| StatusCode::FORBIDDEN)?;
        match self {
            WsAuth::None => Ok(Caller::on_loopback()),
            WsAuth::Token(expected) => check_token(headers, expected),
            WsAuth::TokenFile(file) => match read_token(file) {
                Ok(expected) => check_token(headers, &expected),
                Err(error) => {
                    tracing::error!("every client is rejected: {error}");
                    Err(StatusCode::UNAUTHORIZED)
                }
            },
        }
    }
}

fn check_token(headers: &HeaderMap, expected: &TokenDigest) -> Result<Caller, StatusCode> {
    match bearer_token(headers) {
        Ok(Some(token)) if TokenDigest::of(token).matches(expected) => Ok(Caller::with_capability()),
        Ok(_) | Err(_) => Err(StatusCode::UNAUTHORIZED),
    }
}

fn read_token(file: &Path) -> Result<TokenDigest, WsListenError> {
    let failed = |reason: String| WsListenError::File { file: file.to_owned(), reason };
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    match text.trim() {
        "" => Err(failed("the file is empty".to_owned())),
        token => Ok(Secret::new(token).digest()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(auth: &WsAuth, headers: &[(&str, &str)]) -> Result<String, StatusCode> {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        auth.authenticate(&request.body(()).unwrap()).map(|caller| caller.name.to_string())
    }

    #[test]
    fn pages_and_foreign_names_are_rejected() {
        let local = ("host", "127.0.0.1:99");
        assert_eq!(status(&WsAuth::None, &[local]), Ok("loopback".to_owned()));
        assert_eq!(status(&WsAuth::None, &[("host", "evil.example:99")]), Err(StatusCode::FORBIDDEN));
        assert_eq!(status(&WsAuth::None, &[]), Err(StatusCode::FORBIDDEN));
        let origin = ("origin", "http://127.0.0.1:99");
        assert_eq!(status(&WsAuth::None, &[local, origin]), Err(StatusCode::FORBIDDEN));
    }

    #[tokio::test]
    async fn a_configured_token_is_required() {
        let digest = Secret::new("let me in").digest();
        let auth = WsAuth::Token(digest);
        assert_eq!(status(&auth, &[]), Err(StatusCode::UNAUTHORIZED));
        assert_eq!(status(&auth, &[("authorization", "Bearer no")]), Err(StatusCode::UNAUTHORIZED));
        assert!(status(&auth, &[("authorization", "bearer let me in")]).is_ok());
        let all_interfaces = "0.0.0.0:0".parse().unwrap();
        assert!(auth.bind(all_interfaces).await.is_ok());
        assert!(matches!(WsAuth::None.bind(all_interfaces).await, Err(WsListenError::Exposed(_))));
    }

    #[test]
    fn a_token_file_is_read_again_for_each_connection() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, "first\n").unwrap();
        let auth = WsAuth::from_flags(Some("capability-token"), Some(&file), None).unwrap();
        let check = |token: &str| status(&auth, &[("authorization", &format!("Bearer {token}"))]).is_ok();
        assert!(check("first") && !check("second"));
        std::fs::write(&file, "second\n").unwrap();
        assert!(check("second") && !check("first"));
        std::fs::remove_file(&file).unwrap();
        assert!(!check("second") && !check(""), "no token is accepted without the file");
    }

    #[test]
    fn inconsistent_flags_are_an_error() {
        let hex = "00".repeat(32);
        assert!(WsAuth::from_flags(Some("capability-token"), None, Some(&hex)).is_ok());
        for (method, file, sha256) in [
            (Some("capability-token"), None, None),
            (Some("capability-token"), Some(Path::new("f")), Some(hex.as_str())),
            (Some("capability-token"), None, Some("12")),
            (Some("other"), None, Some(hex.as_str())),
            (None, None, Some(hex.as_str())),
        ] {
            assert!(WsAuth::from_flags(method, file, sha256).is_err(), "{method:?} {file:?} {sha256:?}");
        }
    }
}
