//! Slow HTTP connections: deadlines, and access that is revoked meanwhile. Time is simulated: it advances when all tasks wait.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use daemon::config::{Config, ConfigArgs, Paths};
use daemon::core::session::Retention;
use daemon::faces::rexd::Rexd;
use daemon::net::auth::{Auth, Authenticator, RejectionLog, Secret};
use daemon::net::http::{HEARTBEAT, HttpFrontEnd};
use daemon::observe::metrics::Metrics;
use engine::audit::NoAudit;
use link::listen::{ConnectionLimiter, HttpPeer, HttpServer, PhaseDeadlines, WhenFull};
use link::task::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "a-token-that-is-long-enough-0123456789";
const HEAD: &str = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a-token-that-is-long-enough-0123456789\r\n";

fn server(root: &Path) -> Arc<HttpServer<HttpFrontEnd>> {
    server_at(root, Paths { token: Some(Secret::new(TOKEN)), ..Paths::default() })
}

fn server_at(root: &Path, paths: Paths) -> Arc<HttpServer<HttpFrontEnd>> {
    let paths = Paths { state: Some(root.to_owned()), ..paths };
    let args = ConfigArgs { file: None, roots: vec![root.to_owned()] };
    let config = Config::parse("", Path::new(""), &args, &paths).unwrap();
    let stop = CancellationToken::new();
    let front_end = HttpFrontEnd {
        face: {
            let sinks = (Arc::new(NoAudit) as _, Metrics::off());
            let core = daemon::serve::core(&config, &paths, sinks, stop.clone()).unwrap();
            Arc::new(Rexd::new(Arc::new(core), Some(Retention::default()), None))
        },
        authenticator: Authenticator::new(Auth::new(&config, &paths).unwrap(), &config.server),
        rejections: RejectionLog::new(Arc::new(NoAudit)),
        metrics: Metrics::off(),
        serves_metrics: true,
        http_path: "/rpc".to_owned(),
        ws_path: "/ws".to_owned(),
        heartbeat: HEARTBEAT,
        websocket: link::websocket::Settings::default(),
        limits: link::Limits::default(),
        stop: stop.clone(),
        tasks: Tasks::new(),
    };
    Arc::new(HttpServer {
        tasks: front_end.tasks.clone(),
        service: Arc::new(front_end),
        limiter: ConnectionLimiter::new(10),
        when_full: WhenFull::Reject,
        deadlines: PhaseDeadlines::default(),
        tls: None,
        stop,
    })
}

fn connect(server: &Arc<HttpServer<HttpFrontEnd>>) -> DuplexStream {
    let (ours, theirs) = duplex(1024);
    let slot = server.limiter.try_acquire().unwrap();
    let peer = HttpPeer { address: Some("127.0.0.1:1".parse().unwrap()), certificate: None };
    let server = server.clone();
    tokio::spawn(async move { server.serve(Box::new(ours), Box::new(()), peer, slot).await });
    theirs
}

/// ARCHITECTURE.md, invariant 38.
#[tokio::test(start_paused = true)]
async fn headers_that_trickle_in_are_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let mut stream = connect(&server(directory.path()));
    stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    let mut ticks = tokio::time::interval(std::time::Duration::from_secs(1));
    let mut sent = 0;
    while stream.write_all(b"X: y\r\n").await.is_ok() {
        ticks.tick().await;
        sent += 1;
        assert!(sent < 30, "nobody minds");
    }
}

/// ARCHITECTURE.md, invariant 38.
#[tokio::test(start_paused = true)]
async fn a_body_that_stops_coming_and_an_idle_connection_are_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path());
    let mut stream = connect(&server);
    stream.write_all(format!("{HEAD}Content-Length: 100\r\n\r\n{{").as_bytes()).await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.ok();
    assert!(!rest.contains("200 OK"), "{rest}");

    let mut stream = connect(&server);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"server.ping"}"#;
    let request = format!("{HEAD}Content-Length: {}\r\n\r\n{ping}", ping.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).await.ok();
    assert!(all.contains("200 OK"), "{all}");
}

#[tokio::test(start_paused = true)]
async fn headers_that_are_too_long_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (mut input, mut output) = tokio::io::split(connect(&server(directory.path())));
    tokio::spawn(async move {
        output.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ").await.ok();
        while output.write_all(&[b'x'; 1024]).await.is_ok() {}
    });
    let mut answer = vec![0; 12];
    input.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 431");
}

/// A server whose token lies in the file that is returned.
fn server_with_file(root: &Path) -> (Arc<HttpServer<HttpFrontEnd>>, PathBuf) {
    let file = root.join("the-token");
    std::fs::write(&file, TOKEN).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    (server_at(root, Paths { token_file: Some(file.clone()), ..Paths::default() }), file)
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_revoked_while_the_body_comes_is_worth_nothing_when_it_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let (server, file) = server_with_file(directory.path());
    let mut stream = connect(&server);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"server.ping"}"#;
    let (early, late) = ping.split_at(20);
    let head = format!("{HEAD}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n", ping.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = vec![0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut go_on).await.unwrap();
    stream.write_all(early.as_bytes()).await.unwrap();
    std::fs::remove_file(file).unwrap();
    stream.write_all(late.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_revoked_between_the_gate_and_the_watch_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (server, file) = server_with_file(directory.path());
    let caller = server.service.authenticator.auth.bearer(TOKEN).unwrap();
    std::fs::remove_file(file).unwrap();
    // The change is told here, before anybody watches for this caller.
    assert!(server.service.authenticator.auth.bearer(TOKEN).is_err());
    let noticed = daemon::net::http::revoked(&server.service.authenticator, &caller);
    tokio::time::timeout(std::time::Duration::from_secs(60), noticed).await.unwrap();
}
