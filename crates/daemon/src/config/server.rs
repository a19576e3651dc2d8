//! `[server]`, `[audit]` and the roots of `[security]`.

use std::path::PathBuf;

use super::find::Places;
use super::section::{ConfigError, Section};

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

pub(super) fn server(section: Section<'_, '_>) -> Result<ServerConfig, ConfigError> {
    let server = ServerConfig {
        stdio: section.boolean("stdio")?.unwrap_or(true),
        http_listen: section.text("http_listen")?.filter(|address| !address.is_empty()),
        http_path: url_path(&section, "http_path", "/rpc")?,
        ws_path: url_path(&section, "ws_path", "/ws")?,
        log_level: section.choice("log_level", &LogLevel::NAMES)?.unwrap_or(LogLevel::Info),
    };
    section.finish();
    Ok(server)
}

fn url_path(section: &Section<'_, '_>, key: &'static str, default: &str) -> Result<String, ConfigError> {
    let path = section.text(key)?.filter(|path| !path.is_empty()).unwrap_or_else(|| default.to_owned());
    if path.starts_with('/') {
        return Ok(path);
    }
    let reason = format!("{} must start with a slash, not {path:?}", section.path_of(key));
    Err(section.document.error(section.span_of(key), reason))
}

/// `[files] durable`: on, unless the operator would rather be fast than sure.
pub(super) fn durable_writes(section: Section<'_, '_>) -> Result<bool, ConfigError> {
    let durable = section.boolean("durable")?.unwrap_or(true);
    section.finish();
    Ok(durable)
}

pub(super) fn audit(section: Section<'_, '_>, places: &Places) -> Result<AuditConfig, ConfigError> {
    let enabled = section.boolean("enabled")?.unwrap_or(true);
    let named = section.text("path")?.filter(|path| !path.is_empty()).map(|path| places.expand(&path));
    if let Some(relative) = named.as_ref().filter(|path| !path.is_absolute()) {
        let reason = format!("audit.path must be absolute, not {:?}", relative.display().to_string());
        return Err(section.document.error(section.span_of("path"), reason));
    }
    section.finish();
    let configured = named.is_some();
    Ok(AuditConfig { enabled, path: named.or_else(|| places.default_audit()), configured })
}

/// `[[security.allowed_roots]]` with a `path` each, or plain texts in an array.
pub(super) fn roots(security: &Section<'_, '_>, places: &Places) -> Result<Vec<PathBuf>, ConfigError> {
    let items = security.items("allowed_roots")?;
    if items.iter().all(|item| item.get_ref().is_str()) {
        let texts = items.iter().map(|item| Ok((security.as_text("allowed_roots", item)?, item.span())));
        return texts
            .map(|found| found.and_then(|(text, span)| root(security, &text, span, places)))
            .collect();
    }
    let mut roots = Vec::new();
    for table in security.sections("allowed_roots")? {
        let path = table.text("path")?;
        let path =
            path.ok_or_else(|| security.document.error(table.span(), "an allowed root has no path"))?;
        roots.push(root(security, &path, table.span_of("path"), places)?);
        table.finish();
    }
    Ok(roots)
}

fn root(
    security: &Section<'_, '_>,
    text: &str,
    span: std::ops::Range<usize>,
    places: &Places,
) -> Result<PathBuf, ConfigError> {
    let path = places.expand(text);
    if path.is_absolute() && !text.contains('\0') {
        return Ok(path);
    }
    Err(security.document.error(span, format!("a root must be an absolute path, not {text:?}")))
}

/// Roots of the command line are relative to the current directory.
pub(super) fn flag_roots(roots: &[PathBuf], places: &Places) -> Result<Vec<PathBuf>, ConfigError> {
    let absolute = |root: &PathBuf| {
        if root.as_os_str().is_empty() {
            return Err(ConfigError::Root { root: root.clone(), reason: "it names nothing".to_owned() });
        }
        // `.` and a trailing slash go; `..` stays for whoever resolves it against the file system.
        Ok(places.current.join(root).components().collect())
    };
    roots.iter().map(absolute).collect()
}
