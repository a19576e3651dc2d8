//! `[server]`, `[audit]`, `[files]` and the roots of `[security]`.

use std::path::PathBuf;
use std::time::Duration;

use link::listen::TlsFiles;

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
    pub log_level: LogLevel,
}

/// The level of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// No messages.
    Off,
    /// Failures.
    Error,
    /// Failures and problems.
    Warn,
    /// The default: also normal events.
    Info,
    /// Also internal events.
    Debug,
    /// All messages.
    Trace,
}

impl LogLevel {
    const NAMES: [(&'static str, Self); 7] = [
        ("off", Self::Off),
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("warning", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, level)| *level == self).map_or("info", |(name, _)| name)
    }
}

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
/// The default of `max_connections`.
const MAX_CONNECTIONS: u64 = 2_048;

pub(super) fn server(section: Section<'_, '_>, paths: &Paths) -> Result<ServerConfig, ConfigError> {
    let number = |key, default| section.positive(key).map(|number: Option<u64>| number.unwrap_or(default));
    let milliseconds = |key, default| number(key, default).map(Duration::from_millis);
    let server = ServerConfig {
        stdio: section.boolean("stdio")?.unwrap_or(true),
        http_listen: section.text("http_listen")?.filter(|address| !address.is_empty()),
        http_path: url_path(&section, "http_path", "/rpc")?,
        ws_path: url_path(&section, "ws_path", "/ws")?,
        unix: file(&section, "unix", paths)?,
        public_names: public_names(&section)?,
        public_url: public_url(&section, "public_url")?,
        trusted_proxies: trusted_proxies(&section)?,
        tls: tls(&section, paths)?,
        client_ca: file(&section, "client_ca", paths)?,
        max_connections: usize::try_from(number("max_connections", MAX_CONNECTIONS)?).unwrap_or(usize::MAX),
        ping: milliseconds("ping_ms", 20_000)?,
        session_idle: milliseconds("session_idle_ms", 300_000)?,
        resume_for: milliseconds("resume_ms", 600_000)?,
        resume_bytes: number("resume_bytes", 8 * 1024 * 1024)?,
        drain: milliseconds("drain_ms", 3_000)?,
        log_level: section.choice("log_level", &LogLevel::NAMES)?.unwrap_or(LogLevel::Info),
    };
    if server.http_path == server.ws_path {
        return Err(section.error("ws_path", "must differ from server.http_path"));
    }
    section.finish();
    Ok(server)
}

/// An absolute path; `None` if it is absent or empty.
pub(super) fn file(
    section: &Section<'_, '_>,
    key: &'static str,
    paths: &Paths,
) -> Result<Option<PathBuf>, ConfigError> {
    let Some(text) = section.text(key)?.filter(|text| !text.is_empty()) else { return Ok(None) };
    let path = paths.expand(&text);
    if path.is_absolute() && !text.contains('\0') {
        return Ok(Some(path));
    }
    Err(section.error(key, format_args!("must be absolute, not {text:?}")))
}

fn tls(section: &Section<'_, '_>, paths: &Paths) -> Result<Option<TlsFiles>, ConfigError> {
    match (file(section, "tls_cert", paths)?, file(section, "tls_key", paths)?) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(section.requires("tls_cert", "tls_key")),
        (None, Some(_)) => Err(section.requires("tls_key", "tls_cert")),
    }
}

fn public_names(section: &Section<'_, '_>) -> Result<Vec<String>, ConfigError> {
    let mut names = Vec::new();
    for item in section.items("public_names")? {
        let name = section.as_text("public_names", item)?;
        if Host::parse(&name).is_none() {
            let reason = format!("a public name must be a host such as \"rex.example.org\", not {name:?}");
            return Err(section.document.error(item.span(), reason));
        }
        names.push(name);
    }
    Ok(names)
}

fn public_url(section: &Section<'_, '_>, key: &'static str) -> Result<Option<String>, ConfigError> {
    let Some(url) = section.text(key)?.filter(|url| !url.is_empty()) else { return Ok(None) };
    let origin = url.trim_end_matches('/').to_owned();
    if WebOrigin::parse(&origin).is_some() {
        return Ok(Some(origin));
    }
    Err(section.error(key, format_args!("must be http(s)://HOST[:PORT], not {url:?}")))
}

fn trusted_proxies(section: &Section<'_, '_>) -> Result<Vec<Network>, ConfigError> {
    let mut networks = Vec::new();
    for item in section.items("trusted_proxies")? {
        let text = section.as_text("trusted_proxies", item)?;
        let wrong =
            |error| section.document.error(item.span(), format!("invalid trusted proxy {text:?}: {error}"));
        networks.push(text.parse().map_err(wrong)?);
    }
    Ok(networks)
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

/// `[files] durable`, on by default.
pub(super) fn durable_writes(section: Section<'_, '_>) -> Result<bool, ConfigError> {
    let durable = section.boolean("durable")?.unwrap_or(true);
    section.finish();
    Ok(durable)
}

pub(super) fn audit(section: Section<'_, '_>, paths: &Paths) -> Result<AuditConfig, ConfigError> {
    let enabled = section.boolean("enabled")?.unwrap_or(true);
    let named = file(&section, "path", paths)?;
    section.finish();
    let configured = named.is_some();
    Ok(AuditConfig { enabled, path: named.or_else(|| paths.default_audit()), configured })
}

/// `[[security.allowed_roots]]` with a `path` each, or an array of strings.
pub(super) fn roots(security: &Section<'_, '_>, paths: &Paths) -> Result<Vec<PathBuf>, ConfigError> {
    let items = security.items("allowed_roots")?;
    if items.iter().all(|item| item.get_ref().is_str()) {
        let texts = items.iter().map(|item| Ok((security.as_text("allowed_roots", item)?, item.span())));
        return texts
            .map(|found| found.and_then(|(text, span)| root(security, &text, span, paths)))
            .collect();
    }
    let mut roots = Vec::new();
    for table in security.sections("allowed_roots")? {
        let path = table.text("path")?;
        let path =
            path.ok_or_else(|| security.document.error(table.span(), "an allowed root needs a path"))?;
        roots.push(root(security, &path, table.span_of("path"), paths)?);
        table.finish();
    }
    Ok(roots)
}

fn root(
    security: &Section<'_, '_>,
    text: &str,
    span: std::ops::Range<usize>,
    paths: &Paths,
) -> Result<PathBuf, ConfigError> {
    let path = paths.expand(text);
    if path.is_absolute() && !text.contains('\0') {
        return Ok(path);
    }
    Err(security.document.error(span, format!("a root must be an absolute path, not {text:?}")))
}

/// The roots of `--root`, relative to the current directory.
pub(super) fn flag_roots(roots: &[PathBuf], paths: &Paths) -> Result<Vec<PathBuf>, ConfigError> {
    let absolute = |root: &PathBuf| {
        if root.as_os_str().is_empty() {
            return Err(ConfigError::Root { root: root.clone(), reason: "the path is empty".to_owned() });
        }
        // Removes `.` and a trailing slash; `..` needs the file system.
        Ok(paths.current.join(root).components().collect())
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
