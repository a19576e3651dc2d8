//! `[server]`, `[audit]` and the roots of `[security]`.

use std::path::PathBuf;
use std::time::Duration;

use link::listen::TlsFiles;

use super::paths::Paths;
use super::section::{ConfigError, Section};
use crate::net::auth::{Host, Network, WebOrigin};

/// What listens where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Serve on standard input and output.
    pub stdio: bool,
    /// Serve over HTTP and WebSocket on this address.
    pub http_listen: Option<String>,
    /// Where requests are posted.
    pub http_path: String,
    /// Where WebSockets connect.
    pub ws_path: String,
    /// Serve on this unix socket.
    pub unix: Option<PathBuf>,
    /// Names by which clients call this server, beside those of the loopback interface.
    pub public_names: Vec<String>,
    /// The address under which a proxy makes this server known.
    pub public_url: Option<String>,
    /// Whose word is taken for where a request comes from.
    pub trusted_proxies: Vec<Network>,
    /// TLS for the HTTP listener.
    pub tls: Option<TlsFiles>,
    /// Who signs the certificates of clients.
    pub client_ca: Option<PathBuf>,
    /// How many connections there may be at once; more are refused.
    pub max_connections: usize,
    /// How often a silent connection is asked whether it is still there.
    pub ping: Duration,
    /// How long an HTTP session lives that nobody listens to.
    pub session_idle: Duration,
    /// How long a resumable session waits for its client.
    pub resume_for: Duration,
    /// How many bytes of events it keeps meanwhile.
    pub resume_bytes: u64,
    /// How long connections have to end after a stop was asked for.
    pub drain: Duration,
    /// How much is logged to standard error.
    pub log_level: LogLevel,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// What is odd.
    Warn,
    /// What happens.
    Info,
    /// What happens inside.
    Debug,
    /// Everything.
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

    /// The name an operator writes.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, level)| *level == self).map_or("info", |(name, _)| name)
    }
}

/// Where the audit goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditConfig {
    /// Whether anything is recorded.
    pub enabled: bool,
    /// The file; none when nobody named one and there is no home directory to put the default in.
    pub path: Option<PathBuf>,
    /// Whether the operator named the file, so that it has to be writable.
    pub configured: bool,
}

/// Paths of routes that cannot be moved.
const TAKEN_PATHS: [&str; 3] = ["/events", "/healthz", "/metrics"];
/// Connections at once, unless configured.
const MAX_CONNECTIONS: u64 = 2_048;

pub(super) fn server(section: Section<'_, '_>, paths: &Paths) -> Result<ServerConfig, ConfigError> {
    let milliseconds = |key, default| number(&section, key, default).map(Duration::from_millis);
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
        max_connections: usize::try_from(number(&section, "max_connections", MAX_CONNECTIONS)?)
            .unwrap_or(usize::MAX),
        ping: milliseconds("ping_ms", 20_000)?,
        session_idle: milliseconds("session_idle_ms", 300_000)?,
        resume_for: milliseconds("resume_ms", 600_000)?,
        resume_bytes: number(&section, "resume_bytes", 8 * 1024 * 1024)?,
        drain: milliseconds("drain_ms", 3_000)?,
        log_level: section.choice("log_level", &LogLevel::NAMES)?.unwrap_or(LogLevel::Info),
    };
    if server.http_path == server.ws_path {
        let reason = "server.ws_path must not be where requests are posted";
        return Err(section.document.error(section.span_of("ws_path"), reason));
    }
    section.finish();
    Ok(server)
}

/// A number of at least one.
fn number(section: &Section<'_, '_>, key: &'static str, default: u64) -> Result<u64, ConfigError> {
    match section.number(key)?.unwrap_or(default) {
        0 => {
            let reason = format!("{} must be at least 1", section.path_of(key));
            Err(section.document.error(section.span_of(key), reason))
        }
        number => Ok(number),
    }
}

/// An absolute path; an empty one is none.
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
    let reason = format!("{} must be absolute, not {text:?}", section.path_of(key));
    Err(section.document.error(section.span_of(key), reason))
}

fn tls(section: &Section<'_, '_>, paths: &Paths) -> Result<Option<TlsFiles>, ConfigError> {
    let missing = |there: &str, other: &str| {
        let reason = format!("{} needs {} beside it", section.path_of(there), section.path_of(other));
        Err(section.document.error(section.span_of(there), reason))
    };
    match (file(section, "tls_cert", paths)?, file(section, "tls_key", paths)?) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (None, None) => Ok(None),
        (Some(_), None) => missing("tls_cert", "tls_key"),
        (None, Some(_)) => missing("tls_key", "tls_cert"),
    }
}

fn public_names(section: &Section<'_, '_>) -> Result<Vec<String>, ConfigError> {
    let mut names = Vec::new();
    for item in section.items("public_names")? {
        let name = section.as_text("public_names", item)?;
        if Host::parse(&name).is_none() {
            let reason = format!("a public name is a host alone, as in \"rex.example.org\", not {name:?}");
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
    let reason = format!("{} must be http(s)://HOST[:PORT], not {url:?}", section.path_of(key));
    Err(section.document.error(section.span_of(key), reason))
}

fn trusted_proxies(section: &Section<'_, '_>) -> Result<Vec<Network>, ConfigError> {
    let mut networks = Vec::new();
    for item in section.items("trusted_proxies")? {
        let text = section.as_text("trusted_proxies", item)?;
        let wrong =
            |error| section.document.error(item.span(), format!("{text:?} is no trusted proxy: {error}"));
        networks.push(text.parse().map_err(wrong)?);
    }
    Ok(networks)
}

fn url_path(section: &Section<'_, '_>, key: &'static str, default: &str) -> Result<String, ConfigError> {
    let path = section.text(key)?.filter(|path| !path.is_empty()).unwrap_or_else(|| default.to_owned());
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
    let reason = match path.as_str() {
        taken if TAKEN_PATHS.contains(&taken) => "must not be the path of another route",
        path if !path.starts_with('/') => "must start with a slash",
        path if !path.bytes().all(is_plain) => {
            "must be a path as it is in a request: percent-encoded, without a query"
        }
        _ => return Ok(path),
    };
    let reason = format!("{} {reason}: {path:?}", section.path_of(key));
    Err(section.document.error(section.span_of(key), reason))
}

/// `[files] durable`: on, unless the operator would rather be fast than sure.
pub(super) fn durable_writes(section: Section<'_, '_>) -> Result<bool, ConfigError> {
    let durable = section.boolean("durable")?.unwrap_or(true);
    section.finish();
    Ok(durable)
}

pub(super) fn audit(section: Section<'_, '_>, paths: &Paths) -> Result<AuditConfig, ConfigError> {
    let enabled = section.boolean("enabled")?.unwrap_or(true);
    let named = section.text("path")?.filter(|path| !path.is_empty()).map(|path| paths.expand(&path));
    if let Some(relative) = named.as_ref().filter(|path| !path.is_absolute()) {
        let reason = format!("audit.path must be absolute, not {:?}", relative.display().to_string());
        return Err(section.document.error(section.span_of("path"), reason));
    }
    section.finish();
    let configured = named.is_some();
    Ok(AuditConfig { enabled, path: named.or_else(|| paths.default_audit()), configured })
}

/// `[[security.allowed_roots]]` with a `path` each, or plain texts in an array.
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
            path.ok_or_else(|| security.document.error(table.span(), "an allowed root has no path"))?;
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

/// Roots of the command line are relative to the current directory.
pub(super) fn flag_roots(roots: &[PathBuf], paths: &Paths) -> Result<Vec<PathBuf>, ConfigError> {
    let absolute = |root: &PathBuf| {
        if root.as_os_str().is_empty() {
            return Err(ConfigError::Root { root: root.clone(), reason: "it names nothing".to_owned() });
        }
        // `.` and a trailing slash go; `..` stays for whoever resolves it against the file system.
        Ok(paths.current.join(root).components().collect())
    };
    roots.iter().map(absolute).collect()
}

/// Whoever types a root means a directory that is there. Those of the file may come later.
pub(super) fn check_flag_roots(roots: &[PathBuf], paths: &Paths) -> Result<(), ConfigError> {
    let check = |root: &PathBuf| {
        let reason = match paths.current.join(root).metadata() {
            Ok(found) if found.is_dir() => return Ok(()),
            Ok(_) => "it is no directory: name the one that holds it".to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                "there is no such directory: make it first, or correct the name".to_owned()
            }
            Err(error) => error.to_string(),
        };
        Err(ConfigError::Root { root: root.clone(), reason })
    };
    roots.iter().try_for_each(check)
}
