//! `rexd serve` over real sockets: HTTP, WebSocket, unix, TLS, socket activation, and signals.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};

use futures_util::{SinkExt as _, StreamExt as _};
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{PATIENCE, ServedDaemon, TOKEN, status};
use testkit::sandbox::Sandbox;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server.ping"}"#;

type WebSocket = WebSocketStream<tokio::net::TcpStream>;

async fn websocket(served: &ServedDaemon, protocols: Option<&str>) -> WebSocket {
    let mut request = format!("ws://{}/ws", served.address()).into_client_request().unwrap();
    match protocols {
        Some(protocols) => request.headers_mut().insert("sec-websocket-protocol", protocols.parse().unwrap()),
        None => request.headers_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap()),
    };
    let stream = tokio::net::TcpStream::connect(served.address()).await.unwrap();
    tokio_tungstenite::client_async(request, stream).await.unwrap().0
}

async fn call(socket: &mut WebSocket, method: &str, params: Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
    socket.send(Message::text(request.to_string())).await.unwrap();
    loop {
        let answer: Value =
            serde_json::from_slice(&socket.next().await.unwrap().unwrap().into_data()).unwrap();
        if answer["id"] == method {
            return answer["result"].clone();
        }
    }
}

/// ARCHITECTURE.md, invariant 33.
#[test]
fn every_route_checks_method_and_credentials() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &["--http", "127.0.0.1:0"], 1);
    assert_eq!(status(&served.ask("GET /healthz", "")), 200);
    let nobody = served.ask("POST /rpc", PING);
    assert_eq!(status(&nobody), 401);
    assert!(nobody.contains("www-authenticate: Bearer"), "{nobody}");
    assert!(nobody.contains("\"error\""), "{nobody}");
    for route in ["POST /rpc", "GET /events?session_id=x", "GET /ws", "GET /metrics", "GET /", "OPTIONS /rpc"]
    {
        assert_eq!(status(&served.ask(route, "")), 401, "{route}");
    }
    let known = served.ask_known("POST /rpc", PING);
    assert_eq!(status(&known), 200);
    assert!(known.contains("\"time\""), "{known}");
    assert_eq!(status(&served.ask_known("POST /rpc", r#"{"jsonrpc":"2.0","method":"server.ping"}"#)), 202);
    assert_eq!(status(&served.ask_known("POST /rpc", "{")), 400);
    assert_eq!(status(&served.ask_known("GET /metrics", "")), 200);
    assert_eq!(status(&served.ask_known("GET /nowhere", "")), 404);
    assert_eq!(status(&served.ask_known("GET /ws", "")), 426);
    assert_eq!(status(&served.ask_known("GET /events", "")), 400);
    assert_eq!(status(&served.ask_known("GET /events?session_id=s_0", "")), 404);
    let wrong = served.ask_known("GET /rpc", "");
    assert_eq!(status(&wrong), 405);
    assert!(wrong.contains("allow: POST, OPTIONS"), "{wrong}");
    let options = served.ask_known("OPTIONS /rpc", "");
    assert_eq!(status(&options), 204);
    assert!(!options.to_lowercase().contains("access-control"), "{options}");
    assert!(served.ask("HEAD /healthz", "").ends_with("\r\n\r\n"), "HEAD has no body");
}

/// ARCHITECTURE.md, invariant 33.
#[test]
fn bodies_may_come_in_chunks_and_connections_are_kept() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &["--http", "127.0.0.1:0"], 1);
    let mut stream = served.connect();
    let head =
        format!("POST /rpc HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n", served.address());
    for _ in 0..3 {
        let (left, right) = PING.split_at(10);
        let chunked = format!(
            "{head}Transfer-Encoding: chunked\r\n\r\na\r\n{left}\r\n{:x}\r\n{right}\r\n0\r\n\r\n",
            right.len()
        );
        stream.write_all(chunked.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let read = stream.read(&mut answer).unwrap();
        assert_eq!(status(&String::from_utf8_lossy(&answer[..read])), 200);
    }
    let large = format!("{head}Content-Length: 99999999999\r\n\r\n");
    stream.write_all(large.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(status(&answer), 413);
    assert!(answer.contains("-32008"), "{answer}");
}

#[test]
fn bodies_are_packed_for_those_who_take_it() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &["--http", "127.0.0.1:0"], 1);
    let mut stream = served.connect();
    let batch = format!("[{}]", [PING; 40].join(","));
    let body = zstd::bulk::compress(batch.as_bytes(), 3).unwrap();
    let head = format!(
        "POST /rpc HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\nContent-Encoding: zstd\r\nAccept-Encoding: gzip, zstd\r\nContent-Length: {}\r\n\r\n",
        served.address(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(String::from_utf8_lossy(&answer[..end]).contains("content-encoding: zstd"));
    let text = zstd::bulk::decompress(&answer[end..], 1_000_000).unwrap();
    assert_eq!(serde_json::from_slice::<Vec<Value>>(&text).unwrap().len(), 40);
}

#[test]
fn events_are_streamed_with_their_numbers() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &["--http", "127.0.0.1:0"], 1);
    let opened = served.ask_known("POST /rpc", r#"{"jsonrpc":"2.0","id":1,"method":"session.open"}"#);
    let body: Value = serde_json::from_str(opened.split_once("\r\n\r\n").unwrap().1).unwrap();
    let id = body["result"]["session_id"].as_str().unwrap();
    let mut stream = served.connect();
    write!(
        stream,
        "GET /events?session_id={id} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n",
        served.address()
    )
    .unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    assert!(lines.find(|line| line == ":").is_some(), "a sign of life comes first");
    let start = json!({ "jsonrpc": "2.0", "id": 2, "method": "exec.start", "params": { "session_id": id, "argv": ["echo", "hi"] } });
    assert_eq!(status(&served.ask_known("POST /rpc", &start.to_string())), 200);
    assert_eq!(lines.find(|line| line.starts_with("id: ")).as_deref(), Some("id: 1"));
    let event = lines.next().unwrap();
    let event: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((&event["method"], &event["params"]["event_id"]), (&json!("exec.stdout"), &json!(1)));
    served.signal(Signal::TERM);
    lines.by_ref().count();
}

#[tokio::test]
async fn a_websocket_carries_messages_both_ways_and_closes_with_a_reason() {
    let sandbox = Sandbox::new();
    let mut served = ServedDaemon::start(&sandbox, &["--http", "127.0.0.1:0"], 1);
    let mut socket = websocket(&served, None).await;
    let session = call(&mut socket, "session.open", json!({})).await;
    let started = call(
        &mut socket,
        "exec.start",
        json!({ "session_id": session["session_id"], "argv": ["sleep", "1000"] }),
    )
    .await;
    assert!(started["process_id"].is_string(), "{started}");
    let protocols = format!("rexd, rexd.bearer.{TOKEN}");
    let mut browser = websocket(&served, Some(&protocols)).await;
    assert!(call(&mut browser, "server.ping", json!({})).await["time"].is_string());
    served.signal(Signal::TERM);
    for mut socket in [socket, browser] {
        let close = loop {
            match socket.next().await.unwrap().unwrap() {
                Message::Close(close) => break close.unwrap(),
                _event => {}
            }
        };
        assert_eq!(u16::from(close.code), 1001);
    }
    assert!(served.wait().success());
}

/// ARCHITECTURE.md, invariant 34.
#[tokio::test]
async fn a_websocket_without_a_token_does_not_come_about() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &["--http", "127.0.0.1:0"], 1);
    let request = format!("ws://{}/ws", served.address()).into_client_request().unwrap();
    let stream = tokio::net::TcpStream::connect(served.address()).await.unwrap();
    let refused = tokio_tungstenite::client_async(request, stream).await.unwrap_err();
    assert!(refused.to_string().contains("401"), "{refused}");
}

fn line(stream: &UnixStream) -> Value {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn a_unix_socket_is_its_owners_replaces_a_stale_one_and_goes_with_the_daemon() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("socket");
    drop(UnixListener::bind(&path).unwrap());
    let flags = ["--unix", path.to_str().unwrap()];
    let mut served = ServedDaemon::start(&sandbox, &flags, 1);
    assert_eq!(served.urls, [format!("unix://{}", path.display())]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    writeln!(stream, "{PING}").unwrap();
    assert!(line(&stream)["result"]["time"].is_string());

    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    let second = command.arg("serve").args(flags).output().unwrap();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("is in use by another process"));

    served.signal(Signal::HUP);
    writeln!(stream, "{PING}").unwrap();
    assert!(line(&stream)["result"]["time"].is_string(), "a hangup does not end it");
    served.signal(Signal::TERM);
    assert!(served.wait().success());
    assert!(!path.exists());
}

#[test]
fn another_file_at_the_path_of_a_socket_is_not_removed() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("file", "precious");
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    let refused = command.args(["serve", "--unix", path.to_str().unwrap()]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("exists and is not a socket"));
    assert_eq!(sandbox.read("file"), "precious");
}

#[test]
fn sockets_of_a_service_manager_are_served() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("passed");
    let mut command = sandbox.command("/usr/bin/systemd-socket-activate");
    // It connects us to what it listens on only when somebody comes.
    command.arg("--listen").arg(&path).arg("--setenv=REXD_TOKEN").arg("--setenv=HOME").arg("--setenv=PATH");
    command.arg(env!("CARGO_BIN_EXE_rexd")).args(["serve", "--root"]).arg(sandbox.root());
    let waiting = std::thread::spawn({
        let path = path.clone();
        move || {
            let began = std::time::Instant::now();
            let mut stream = loop {
                match UnixStream::connect(&path) {
                    Ok(stream) => break stream,
                    Err(_) if began.elapsed() < PATIENCE => std::thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            };
            writeln!(stream, "{PING}").unwrap();
            line(&stream)
        }
    });
    let mut served = ServedDaemon::spawn(command, 1);
    assert_eq!(served.urls, [format!("unix://{}", path.display())]);
    assert!(waiting.join().unwrap()["result"]["time"].is_string());
    served.signal(Signal::TERM);
    assert!(served.wait().success());
}

struct Certificates {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    ca: String,
}

impl Certificates {
    fn new() -> Certificates {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap().pem();
        Certificates { issuer: rcgen::Issuer::new(params, key), ca }
    }

    fn make(&self, name: &str) -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

type TlsClient = tokio_rustls::client::TlsStream<tokio::net::TcpStream>;

/// Connects with TLS, with a certificate of its own if one is given.
async fn connect_tls(
    served: &ServedDaemon,
    trusted: &str,
    own: Option<&(String, String)>,
) -> std::io::Result<TlsClient> {
    use rustls_pki_types::pem::PemObject as _;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let builder =
        rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into());
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    let stream = tokio::net::TcpStream::connect(served.address()).await?;
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    connector.connect(ServerName::try_from("localhost").unwrap(), stream).await
}

/// Speaks TLS; tells the answer to a ping and the certificate that was shown.
async fn ask_tls(
    served: &ServedDaemon,
    trusted: &str,
    own: Option<&(String, String)>,
    token: &str,
) -> std::io::Result<(String, Vec<u8>)> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = connect_tls(served, trusted, own).await?;
    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    let text = format!(
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\nContent-Length: {}\r\n\r\n{PING}",
        PING.len()
    );
    stream.write_all(text.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok((answer, shown))
}

/// A WebSocket with a client certificate, as its bytes.
async fn open_websocket(served: &ServedDaemon, trusted: &str, own: &(String, String)) -> TlsClient {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = connect_tls(served, trusted, Some(own)).await.unwrap();
    let text = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    stream
}

#[tokio::test]
async fn tls_is_served_and_its_files_may_change_while_it_is() {
    let sandbox = Sandbox::new();
    let certificates = Certificates::new();
    let (chain, key) = certificates.make("localhost");
    let (chain_file, key_file) = (sandbox.write("chain.pem", chain), sandbox.write("key.pem", key));
    let (chain_file, key_file) = (chain_file.to_str().unwrap(), key_file.to_str().unwrap());
    let flags = ["--http", "127.0.0.1:0", "--tls-cert", chain_file, "--tls-key", key_file];
    let served = ServedDaemon::start(&sandbox, &flags, 1);
    assert!(served.urls[0].starts_with("https://"), "{:?}", served.urls);
    let plain = served.ask("GET /healthz", "");
    assert_eq!(status(&plain), 400);
    assert!(plain.contains("uses TLS"), "{plain}");

    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let (answer, first) = ask_tls(&served, &certificates.ca, None, &token).await.unwrap();
    assert_eq!(status(&answer), 200);
    assert_eq!(status(&ask_tls(&served, &certificates.ca, None, "").await.unwrap().0), 401);

    sandbox.write("chain.pem", "no certificate");
    served.signal(Signal::HUP);
    let (_, same) = ask_tls(&served, &certificates.ca, None, &token).await.unwrap();
    assert_eq!(same, first, "bad files change nothing");
    let (chain, key) = certificates.make("localhost");
    sandbox.write("chain.pem", chain);
    sandbox.write("key.pem", key);
    served.signal(Signal::HUP);
    let renewed = async {
        while ask_tls(&served, &certificates.ca, None, &token).await.unwrap().1 == first {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, renewed).await.expect("the new certificate is shown");
}

/// ARCHITECTURE.md, invariant 34.
#[tokio::test]
async fn a_client_certificate_of_the_configured_ca_is_accepted_and_no_other() {
    let sandbox = Sandbox::with_config("[[auth.certificates]]\nname = \"laptop\"\n");
    let (ours, others) = (Certificates::new(), Certificates::new());
    let (chain, key) = ours.make("localhost");
    let files = [("chain.pem", chain), ("key.pem", key), ("ca.pem", ours.ca.clone())];
    let [chain, key, ca] = files.map(|(name, text)| sandbox.write(name, text).to_str().unwrap().to_owned());
    let config = sandbox.config();
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.args(["serve", "--config"]).arg(config).args(["--http", "127.0.0.1:0"]);
    command.args(["--tls-cert", &chain, "--tls-key", &key, "--client-ca", &ca]);
    let served = ServedDaemon::spawn(command, 1);
    let trusted = &ours.ca;
    assert_eq!(status(&ask_tls(&served, trusted, Some(&ours.make("laptop")), "").await.unwrap().0), 200);
    assert_eq!(status(&ask_tls(&served, trusted, Some(&ours.make("unlisted")), "").await.unwrap().0), 403);
    assert_eq!(status(&ask_tls(&served, trusted, None, "").await.unwrap().0), 401);
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(status(&ask_tls(&served, trusted, None, &token).await.unwrap().0), 200);
    assert!(ask_tls(&served, trusted, Some(&others.make("laptop")), &token).await.is_err());
}

/// ARCHITECTURE.md, invariant 35.
#[tokio::test]
async fn removing_a_client_ca_ends_the_open_connections_of_its_certificates() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let sandbox = Sandbox::with_config("");
    let (ours, others) = (Certificates::new(), Certificates::new());
    let (chain, key) = ours.make("localhost");
    let both = ours.ca.clone() + &others.ca;
    let files = [("chain.pem", chain), ("key.pem", key), ("ca.pem", both)];
    let [chain, key, ca] = files.map(|(name, text)| sandbox.write(name, text).to_str().unwrap().to_owned());
    sandbox.configure(&format!("[server]\nclient_ca = {ca:?}\n"));
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.args(["serve", "--config"]).arg(sandbox.config()).args(["--http", "127.0.0.1:0"]);
    command.args(["--tls-cert", &chain, "--tls-key", &key]);
    let served = ServedDaemon::spawn(command, 1);
    let mut stays = open_websocket(&served, &ours.ca, &ours.make("ours")).await;
    let mut ends = open_websocket(&served, &ours.ca, &others.make("others")).await;
    let mut rest = Vec::new();
    // Removed from the file: the connection of the other CA stays.
    sandbox.write("ca.pem", ours.ca.clone());
    served.signal(Signal::HUP);
    tokio::time::timeout(PATIENCE, ends.read_to_end(&mut rest)).await.expect("the connection ends").ok();
    assert_eq!(rest.get(..4).map(|frame| (frame[0], &frame[2..])), Some((0x88, &1008_u16.to_be_bytes()[..])));
    let ping = [0x89, 0x80, 0, 0, 0, 0];
    stays.write_all(&ping).await.unwrap();
    let mut pong = [0; 2];
    stays.read_exact(&mut pong).await.unwrap();
    assert_eq!(pong, [0x8a, 0]);
    // Removed from the configuration.
    sandbox.configure("");
    served.signal(Signal::HUP);
    rest.clear();
    tokio::time::timeout(PATIENCE, stays.read_to_end(&mut rest)).await.expect("the connection ends").ok();
    assert_eq!(rest.first(), Some(&0x88), "{rest:?}");
}

/// ARCHITECTURE.md, invariant 37.
#[test]
fn silent_unauthenticated_connections_do_not_exhaust_the_limit() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &["--http", "127.0.0.1:0"], 1);
    let mut crowd = Vec::new();
    for _ in 0..600 {
        let mut stream = served.connect();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nX-Slow: ").ok();
        crowd.push(stream);
    }
    assert_eq!(status(&served.ask_known("POST /rpc", PING)), 200);
    // The oldest were sent away.
    let mut rest = Vec::new();
    crowd[0].read_to_end(&mut rest).ok();
    assert_eq!(rest, b"");
    assert!(testkit::proc::descriptors(served.pid()) < 400);
}

#[test]
fn a_second_signal_ends_it_at_once_and_bad_addresses_are_refused() {
    let sandbox = Sandbox::new();
    for address in ["nowhere", "127.0.0.1:99999", "http://127.0.0.1:1"] {
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
        let refused = command.args(["serve", "--http", address]).output().unwrap();
        assert!(!refused.status.success());
        assert!(String::from_utf8_lossy(&refused.stderr).contains("invalid listen address"), "{refused:?}");
    }
    let mut served = ServedDaemon::start(&sandbox, &["--http", "0"], 1);
    served.signal(Signal::TERM);
    served.signal(Signal::INT);
    assert!(served.wait().success());
}
