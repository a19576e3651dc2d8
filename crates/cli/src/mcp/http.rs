//! MCP over streamable HTTP at `/mcp`, for many clients at once, each with sessions and processes of its own.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::gate::{self, Refusal};
use super::server::McpServer;
use super::{stdio, token};
use crate::failure::Failure;
use crate::output;
use crate::tools::ToolboxOptions;

/// Where it is served.
const PATH: &str = "/mcp";
/// Connections at once; a client has two or three.
const MOST_CONNECTIONS: usize = 512;
/// How long a client may be silent before what it started ends. An agent may think for long.
const IDLE: Duration = Duration::from_secs(3_600);
/// The longest request that is taken: a file to write comes in one.
const LONGEST_REQUEST: usize = 64 * 1024 * 1024;
/// How long a client may take to say what it wants.
const HEADERS_WITHIN: Duration = Duration::from_secs(15);
/// How long connections have to end.
const DRAIN: Duration = Duration::from_secs(3);

type Service = StreamableHttpService<McpServer, LocalSessionManager>;
type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Serves until a signal comes. Prints where on stdout, and where the token lies on stderr.
pub async fn serve(address: &str, options: ToolboxOptions) -> Result<(), Failure> {
    let token = Arc::new(token::token()?);
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::new(format!("cannot listen on {address}: {error}"))
            .hint("write it as 127.0.0.1:8765; port 0 is any")
    })?;
    let stop = CancellationToken::new();
    stdio::stop_on_signals(&stop)?;
    let service = service(options, &stop);
    output::line(format_args!("listening mcp http://{}{PATH}", listener.local_addr()?))?;
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(seat) = room.clone().acquire_owned().await else { break };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Out of descriptors, most often: the next one may fit.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        let (service, token, stop) = (service.clone(), token.clone(), stop.clone());
        connections.spawn(async move {
            connection(stream, service, token, stop).await;
            drop(seat);
        });
        while connections.try_join_next().is_some() {}
    }
    let drained = async { while connections.join_next().await.is_some() {} };
    // Whoever holds on to a connection is cut.
    tokio::time::timeout(DRAIN, drained).await.ok();
    Ok(())
}

fn service(options: ToolboxOptions, stop: &CancellationToken) -> Service {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(IDLE);
    // Host and Origin are looked at by our own gate, which knows addresses.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(LONGEST_REQUEST)
        .with_cancellation_token(stop.child_token());
    let ended = stop.clone();
    let make = move || Ok(McpServer::new(options.clone(), ended.child_token()));
    StreamableHttpService::new(make, Arc::new(sessions), config)
}

async fn connection(stream: TcpStream, service: Service, token: Arc<String>, stop: CancellationToken) {
    // Answers are small and waited for; that this may fail changes nothing else.
    stream.set_nodelay(true).ok();
    let answer = service_fn(move |request| {
        let (service, token) = (service.clone(), token.clone());
        async move { Ok::<_, Infallible>(answer(&service, &token, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(served);
    tokio::select! {
        // A client that breaks off is no news.
        done = &mut served => drop(done),
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await.ok();
        }
    }
}

async fn answer(service: &Service, token: &str, request: Request<Incoming>) -> Answer {
    if let Err(refusal) = gate::admit(request.headers(), token) {
        return refuse(refusal);
    }
    match request.uri().path() {
        PATH => service.handle(request).await,
        _ => refuse(Refusal { status: StatusCode::NOT_FOUND, message: "MCP is served at /mcp" }),
    }
}

fn refuse(refusal: Refusal) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(refusal.message.as_bytes())).boxed());
    *answer.status_mut() = refusal.status;
    if refusal.status == StatusCode::UNAUTHORIZED {
        let bearer = http::HeaderValue::from_static("Bearer realm=\"rex\"");
        answer.headers_mut().insert(http::header::WWW_AUTHENTICATE, bearer);
    }
    answer
}
