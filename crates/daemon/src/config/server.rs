//! `[server]`, `[audit]`, `[files]` and the roots of `[security]`.

use std::path::PathBuf;
use std::time::Duration;

use link::listen::TlsFiles;
use tracing::level_filters::LevelFilter;

use super::paths::Paths;
use super::section::{ConfigError, Section};
use crate::net::auth::{Host, Network, WebOrigin};

/// Listeners, routes, timeouts and the log level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Whether REXD is served on stdin and stdout.
    pub stdio: bool,
    /// The address for HTTP and WebSocket.
    pub http_listen: Option<String>,
    /// The path for HTTP requests.
    pub http_path: String,
    /// The path for WebSocket connections.
    pub ws_path: String,
    /// The path of the unix socket.
    pub unix: Option<PathBuf>,
    /// Host names of this server, besides those of the loopback interface.
    pub public_names: Vec<String>,
    /// The public URL of this server behind a proxy.
    pub public_url: Option<String>,
    /// The proxies whose `X-Forwarded-*` headers are trusted.
    pub trusted_proxies: Vec<Network>,
    /// The certificate and key of the HTTP listener.
    pub tls: Option<TlsFiles>,
    /// The CA of client certificates.
    pub client_ca: Option<PathBuf>,
    /// The maximal number of connections; further ones are refused.
    pub max_connections: usize,
    /// The bytes of all messages that are being received, except 64 KiB of each connection.
    pub max_buffered_bytes: usize,
    /// The interval of pings on an idle connection.
    pub ping: Duration,
    /// How long an HTTP session without an event stream is kept.
    pub session_idle: Duration,
    /// How long a resumable session without a connection is kept.
    pub resume_for: Duration,
    /// The size of a resumable session's replay buffer.
    pub resume_bytes: u64,
    /// How long the daemon waits for connections to end when it stops.
    pub drain: Duration,
    /// The level of the log on stderr.
    pub log_level: LevelFilter,
}

const LOG_LEVELS: [(&str, LevelFilter); 7] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("warning", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// The settings of the audit file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditConfig {
    /// Whether requests are recorded.
    pub enabled: bool,
    /// The path; `None` if none is configured and there is no home directory for the default.
    pub path: Option<PathBuf>,
    /// Whether the path is configured: the daemon then starts only if it is writable.
    pub configured: bool,
}

/// Paths of the fixed routes.
const FIXED_PATHS: [&str; 3] = ["/events", "/healthz", "/metrics"];

pub(super) fn server(section: Section<'_, '_>) -> Result<ServerConfig, ConfigError> {
    let time = |key, default| section.time(key, Duration::from_millis(default));
    let server = ServerConfig {
        stdio: section.boolean("stdio", true)?,
        http_listen: section.text("http_listen")?.filter(|address| !address.is_empty()),
        http_path: url_path(&section, "http_path", "/rpc")?,
        ws_path: url_path(&section, "ws_path", "/ws")?,
        unix: section.file("unix")?,
        public_names: section.each("public_names", public_name)?,
        public_url: public_url(&section, "public_url")?,
        trusted_proxies: section.each("trusted_proxies", trusted_proxy)?,
        tls: tls(&section)?,
        client_ca: section.file("client_ca")?,
        max_connections: section.count("max_connections", 2_048)?,
        max_buffered_bytes: section.count("max_buffered_bytes", 256 * 1024 * 1024)?,
        ping: time("ping_ms", 20_000)?,
        session_idle: time("session_idle_ms", 300_000)?,
        resume_for: time("resume_ms", 600_000)?,
        resume_bytes: section.positive("resume_bytes", 8 * 1024 * 1024)?,
        drain: time("drain_ms", 3_000)?,
        log_level: section.choice("log_level", &LOG_LEVELS)?.unwrap_or(LevelFilter::INFO),
    };
    match server.http_path == server.ws_path {
        true => Err(section.error("ws_path", "must differ from server.http_path")),
        false => Ok(server),
    }
}

fn tls(section: &Section<'_, '_>) -> Result<Option<TlsFiles>, ConfigError> {
    match (section.file("tls_cert")?, section.file("tls_key")?) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(section.requires("tls_cert", "tls_key")),
        (None, Some(_)) => Err(section.requires("tls_key", "tls_cert")),
    }
}

fn public_name(name: &str) -> Result<String, String> {
    match Host::parse(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(format!("a public name must be a host such as \"rex.example.org\", not {name:?}")),
    }
}

fn public_url(section: &Section<'_, '_>, key: &'static str) -> Result<Option<String>, ConfigError> {
    let Some(url) = section.text(key)?.filter(|url| !url.is_empty()) else { return Ok(None) };
    let origin = url.trim_end_matches('/').to_owned();
    match WebOrigin::parse(&origin) {
        Some(_) => Ok(Some(origin)),
        None => Err(section.error(key, format_args!("must be http(s)://HOST[:PORT], not {url:?}"))),
    }
}

fn trusted_proxy(text: &str) -> Result<Network, String> {
    text.parse().map_err(|error| format!("invalid trusted proxy {text:?}: {error}"))
}

fn url_path(section: &Section<'_, '_>, key: &'static str, default: &str) -> Result<String, ConfigError> {
    let path = section.text(key)?.filter(|path| !path.is_empty()).unwrap_or_else(|| default.to_owned());
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
    let problem = match path.as_str() {
        taken if FIXED_PATHS.contains(&taken) => "must not be the path of another route",
        path if !path.starts_with('/') => "must start with a slash",
        path if !path.bytes().all(is_plain) => "must be percent-encoded and have no query",
        _ => return Ok(path),
    };
    Err(section.error(key, format_args!("{problem}: {path:?}")))
}

pub(super) fn audit(section: Section<'_, '_>) -> Result<AuditConfig, ConfigError> {
    let named = section.file("path")?;
    Ok(AuditConfig {
        enabled: section.boolean("enabled", true)?,
        configured: named.is_some(),
        path: named.or_else(|| section.document.paths.default_audit()),
    })
}

/// `[[security.allowed_roots]]` with a `path` each, or an array of strings.
pub(super) fn roots(security: &Section<'_, '_>) -> Result<Vec<PathBuf>, ConfigError> {
    let root = |text: &str| {
        let path = security.document.paths.expand(text);
        match path.is_absolute() && !text.contains('\0') {
            true => Ok(path),
            false => Err(format!("a root must be an absolute path, not {text:?}")),
        }
    };
    if security.items("allowed_roots")?.iter().all(|item| item.get_ref().is_str()) {
        return security.each("allowed_roots", root);
    }
    let mut roots = Vec::new();
    for table in security.sections("allowed_roots")? {
        let path =
            table.text("path")?.ok_or_else(|| table.error_at("path", "an allowed root needs a path"))?;
        roots.push(root(&path).map_err(|reason| table.error_at("path", reason))?);
    }
    Ok(roots)
}

/// The roots of `--root`, relative to the current directory.
pub(super) fn flag_roots(roots: &[PathBuf], paths: &Paths) -> Result<Vec<PathBuf>, ConfigError> {
    let absolute = |root: &PathBuf| {
        let path = paths.current.join(root);
        let reason = match (root.as_os_str().is_empty(), path.is_absolute()) {
            (true, _) => "the path is empty",
            (false, false) => "the current directory does not exist any more; use an absolute path",
            // Removes `.` and a trailing slash; `..` needs the file system.
            (false, true) => return Ok(path.components().collect()),
        };
        Err(ConfigError::Root { root: root.clone(), reason: reason.to_owned() })
    };
    roots.iter().map(absolute).collect()
}

/// Checks that the directories of `--root` exist. Those of the file can be created later.
pub(super) fn check_flag_roots(roots: &[PathBuf], paths: &Paths) -> Result<(), ConfigError> {
    let check = |root: &PathBuf| {
        let reason = match paths.current.join(root).metadata() {
            Ok(found) if found.is_dir() => return Ok(()),
            Ok(_) => "not a directory".to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "no such directory".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(ConfigError::Root { root: root.clone(), reason })
    };
    roots.iter().try_for_each(check)
}
