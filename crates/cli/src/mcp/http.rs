//! MCP over streamable HTTP at `/mcp`, for several clients at once, each with its own sessions and processes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use link::listen::{
    BindError, ConnectionLimiter, HttpConnection, HttpServer, HttpService, OriginCheck, PhaseDeadlines,
    Secret, TokenDigest, WhenFull, bearer_token, bind,
};
use link::task::Tasks;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::caller::{CallerToken, McpCallers};
use super::server::McpServer;
use super::{stdio, token};
use crate::failure::Failure;
use crate::output;
use crate::tools::ToolboxOptions;

/// The path of the MCP endpoint.
const PATH: &str = "/mcp";
/// The header that names a session.
const SESSION_HEADER: &str = "mcp-session-id";
/// The limit on connections; a client has two or three.
const MAX_CONNECTIONS: usize = 512;
/// A client that is silent for this long loses its session; models may think for long.
const SESSION_IDLE: Duration = Duration::from_secs(3_600);
/// The limit on a request's body: a file to write arrives in one request.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;
/// The time for all headers of a request.
const HEADER_DEADLINE: Duration = Duration::from_secs(15);
/// The time for open connections to end after a signal.
const DRAIN: Duration = Duration::from_secs(3);

type McpService = StreamableHttpService<McpServer, LocalSessionManager>;
type McpResponse = Response<BoxBody<Bytes, Infallible>>;

/// Serves until a signal arrives. Prints the URL on stdout, and the path of the token file on stderr.
pub async fn serve(address: &str, options: ToolboxOptions) -> Result<(), Failure> {
    let tokens = token::tokens()?;
    let listener = bind(address).await.map_err(|error| {
        let cause = match &error {
            BindError::Malformed { .. } => error.to_string(),
            BindError::Refused { source, .. } => format!("{error}: {source}"),
        };
        Failure::new(cause).hint("use an address such as 127.0.0.1:8765; port 0 selects a free port")
    })?;
    let stop = CancellationToken::new();
    let _signal_tasks = stdio::stop_on_signals(&stop)?;
    let sessions = Arc::new(session_manager());
    let callers = Arc::new(McpCallers::new(options, SESSION_IDLE));
    let mcp = service(&callers, &sessions, &stop);
    let front_end = McpFrontEnd { mcp, sessions, access: HttpAccess::new(&tokens) };
    output::line(format_args!("listening mcp http://{}{PATH}", listener.local_addr()?))?;
    let tasks = Tasks::new();
    let server = HttpServer {
        service: Arc::new(front_end),
        limiter: ConnectionLimiter::new(MAX_CONNECTIONS),
        when_full: WhenFull::Wait,
        deadlines: PhaseDeadlines { headers: HEADER_DEADLINE, ..PhaseDeadlines::default() },
        tls: None,
        stop,
        tasks: tasks.clone(),
    };
    tokio::select! {
        () = Arc::new(server).run(listener) => {}
        () = callers.expire() => {}
    }
    tasks.close();
    // Connections that are still open after this time are cut when the program ends.
    tokio::time::timeout(DRAIN, tasks.wait()).await.ok();
    Ok(())
}

fn session_manager() -> LocalSessionManager {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE);
    sessions
}

fn service(
    callers: &Arc<McpCallers>,
    sessions: &Arc<LocalSessionManager>,
    stop: &CancellationToken,
) -> McpService {
    // `OriginCheck` checks Host and Origin instead; it accepts every address of this machine.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(MAX_REQUEST_BYTES)
        .with_cancellation_token(stop.child_token());
    let (callers, ended) = (callers.clone(), stop.clone());
    let make = move || Ok(McpServer::over_http(callers.clone(), ended.child_token()));
    StreamableHttpService::new(make, sessions.clone(), config)
}

/// The route of MCP, and the checks before it.
struct McpFrontEnd {
    mcp: McpService,
    sessions: Arc<LocalSessionManager>,
    access: HttpAccess,
}

/// The checks before every request.
struct HttpAccess {
    origins: OriginCheck,
    tokens: Vec<TokenDigest>,
}

/// An error response: its status and its text.
type HttpFailure = (StatusCode, String);

impl HttpAccess {
    fn new(tokens: &[Secret]) -> HttpAccess {
        HttpAccess {
            origins: OriginCheck::loopback_pages(),
            tokens: tokens.iter().map(Secret::digest).collect(),
        }
    }

    /// Checks Host and Origin before the token, so that a page of another site cannot test tokens.
    fn authenticate(&self, headers: &HeaderMap) -> Result<CallerToken, HttpFailure> {
        self.origins.check(headers, None, None).map_err(|error| (error.status(), error.to_string()))?;
        let presented = bearer_token(headers).ok().flatten().map(TokenDigest::of);
        let known = presented.filter(|presented| self.tokens.iter().any(|token| token.matches(presented)));
        known.map(CallerToken).ok_or_else(|| {
            let message = "missing or wrong token; send `Authorization: Bearer TOKEN`";
            (StatusCode::UNAUTHORIZED, message.to_owned())
        })
    }
}

impl HttpService for McpFrontEnd {
    type ResponseBody = BoxBody<Bytes, Infallible>;

    async fn respond(
        self: Arc<Self>,
        connection: Arc<HttpConnection>,
        mut request: Request<Incoming>,
    ) -> McpResponse {
        match self.access.authenticate(request.headers()) {
            Ok(token) => request.extensions_mut().insert(token),
            Err(failure) => return failed(failure),
        };
        connection.slot.authenticate();
        match request.uri().path() {
            PATH if request.method() == Method::DELETE => self.end_session(request).await,
            PATH => self.mcp.handle(request).await,
            _ => failed((StatusCode::NOT_FOUND, format!("no such path; MCP is served at {PATH}"))),
        }
    }
}

impl McpFrontEnd {
    /// Ends a session. The SDKs take 200 and 204 for success, and a session that has ended is unknown, which is 404; the
    /// library answers 202 to both.
    async fn end_session(&self, request: Request<Incoming>) -> McpResponse {
        let named = request.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
        if let Some(id) = named
            && matches!(self.sessions.has_session(&id.to_owned().into()).await, Ok(false))
        {
            return failed((StatusCode::NOT_FOUND, "no such session".to_owned()));
        }
        let mut response = self.mcp.handle(request).await;
        if response.status() == StatusCode::ACCEPTED {
            response = Response::new(Empty::new().boxed());
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }
}

fn failed((status, message): HttpFailure) -> McpResponse {
    let mut response = Response::new(Full::new(Bytes::from(message)).boxed());
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        let bearer = http::HeaderValue::from_static("Bearer realm=\"rex\"");
        response.headers_mut().insert(http::header::WWW_AUTHENTICATE, bearer);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let checked = HttpAccess::new(&[Secret::new("other"), Secret::new("secret")]).authenticate(&map);
        checked.map_or_else(|(status, _)| status.as_u16(), |_| 200)
    }

    #[test]
    fn only_the_token_is_accepted() {
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
    fn pages_and_names_of_other_sites_are_rejected_even_with_the_token() {
        let token = ("authorization", "Bearer secret");
        for origin in ["http://evil.example", "null", "https://localhost.evil.example", "http://10.0.0.1"] {
            assert_eq!(status(&[("host", "localhost"), token, ("origin", origin)]), 403, "{origin}");
        }
        assert_eq!(status(&[("host", "localhost"), token, ("origin", "http://localhost:5173")]), 200);
        for host in ["evil.example", "localhost.evil.example:80"] {
            assert_eq!(status(&[("host", host), token]), 403, "{host}");
        }
        for invalid in [&[token][..], &[("host", ""), token]] {
            assert_eq!(status(invalid), 400);
        }
        assert_eq!(status(&[("host", "[::1]:8080"), token]), 200);
    }
}
