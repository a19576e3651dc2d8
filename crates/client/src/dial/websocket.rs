//! A running daemon over a WebSocket, encrypted or not.

use bytes::Bytes;
use http::StatusCode;
use http::header::AUTHORIZATION;
use link::Link;
use link::websocket::{Role, Settings, binary, link};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite;
use tungstenite::client::IntoClientRequest;

use super::tls;
use crate::error::{ConnectError, Step};
use crate::target::{Target, Url};

/// What goes over a WebSocket, and how large it may be.
pub(super) enum Content {
    /// Messages.
    Json(link::Limits),
    /// Relay frames.
    Frames(link::Limits),
}

/// Connects and upgrades, at `path` if the URL names none. `hint` is for whoever finds nobody there.
pub(super) async fn dial(
    url: &Url,
    (target, hint): (&Target, &str),
    (path, content): (&str, Content),
) -> Result<Link, ConnectError> {
    let (host, port) = url.address();
    let wrong = |step, cause: &dyn std::fmt::Display| ConnectError::new(target, step, cause);
    let stream = TcpStream::connect((host.as_str(), port))
        .await
        .map_err(|error| wrong(Step::Reach, &error).hint(hint).passing())?;
    // Without it a small request waits for the acknowledgement of the one before.
    stream.set_nodelay(true).map_err(|error| wrong(Step::Reach, &error))?;
    let request = request(url, path).map_err(|error| wrong(Step::Find, &error))?;
    let upgraded = match url.scheme.is_encrypted() {
        true => {
            let stream = tls::wrap(stream, &host, &url.tls).await.map_err(|error| {
                wrong(Step::Login, &error)
                    .hint("name the authority of its certificate as the target's caFile")
            })?;
            upgrade(stream, request, content).await
        }
        false => upgrade(stream, request, content).await,
    };
    upgraded.map_err(|error| refused(error, &wrong))
}

async fn upgrade<S>(
    stream: S,
    request: http::Request<()>,
    content: Content,
) -> Result<Link, Box<tungstenite::Error>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (socket, _answer) = client_async(request, stream).await.map_err(Box::new)?;
    // Nothing arrives before we have said something, so nothing can lie in the library's buffer.
    let (stream, nothing, settings) = (socket.into_inner(), Bytes::new(), Settings::default());
    let (link, _closer) = match content {
        Content::Json(limits) => link(stream, nothing, Role::Client, &settings, &limits),
        Content::Frames(limits) => binary(stream, nothing, Role::Client, &settings, &limits),
    };
    Ok(link)
}

fn request(url: &Url, default_path: &str) -> Result<http::Request<()>, String> {
    let scheme = match url.scheme.is_encrypted() {
        true => "wss",
        false => "ws",
    };
    let path = match url.path.as_str() {
        "" | "/" => default_path,
        path => path,
    };
    // A query may follow the host at once; a request needs a path before it.
    let slash = if path.starts_with('/') { "" } else { "/" };
    let address = format!("{scheme}://{}{slash}{path}", url.authority);
    let mut request = address.into_client_request().map_err(|error| error.to_string())?;
    let headers = request.headers_mut();
    if let Some(token) = &url.token {
        let value = format!("Bearer {}", token.0).parse();
        headers.insert(AUTHORIZATION, value.map_err(|_| "the token has characters no header may have")?);
    }
    for (name, value) in &url.headers {
        let name: http::HeaderName = name.parse().map_err(|_| format!("`{name}` is no header"))?;
        let value = value.parse().map_err(|_| format!("the value of {name} is none a header may have"))?;
        headers.insert(name, value);
    }
    Ok(request)
}

fn refused(
    error: Box<tungstenite::Error>,
    wrong: &dyn Fn(Step, &dyn std::fmt::Display) -> ConnectError,
) -> ConnectError {
    let tungstenite::Error::Http(answer) = *error else {
        return wrong(Step::Greet, &error).passing();
    };
    let body = answer.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let said = body.trim().chars().take(200).collect::<String>();
    let cause = format!("the server answers {} {said}", answer.status());
    match answer.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => wrong(Step::Login, &cause.trim_end())
            .hint("set REX_TOKEN, or tokenFile in the target, to a token of that daemon"),
        StatusCode::NOT_FOUND => {
            wrong(Step::Greet, &cause.trim_end()).hint("is there a rexd at that address?")
        }
        status => {
            let error = wrong(Step::Greet, &cause.trim_end());
            match status.is_server_error() {
                true => error.passing(),
                false => error,
            }
        }
    }
}
