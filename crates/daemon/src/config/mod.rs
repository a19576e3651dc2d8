//! The configuration: a TOML file and flags, parsed into exact types, or refused with line, column and reason.

mod approvals;
mod auth;
mod exec_server;
mod host;
mod keepers;
mod limits;
mod listeners;
mod paths;
mod policy;
mod print;
mod sandbox;
mod section;
mod server;
mod stringd;
mod suggest;
mod telemetry;

pub use approvals::ApprovalsConfig;
pub use auth::{AuthConfig, CertificateConfig, TokenConfig, TokenSource};
pub use exec_server::ExecServerConfig;
pub use host::{HostConfig, ShareScope};
pub use keepers::KeepersConfig;
pub use link::listen::TlsFiles;
pub use listeners::Listeners;
pub use paths::Paths;
pub(crate) use print::EXPOSED;
pub use print::check_config;
pub use sandbox::{BUILT_IN, CustomProfile, OFF, SandboxConfig};
pub use section::ConfigError;
pub use server::{AuditConfig, ServerConfig};
pub use stringd::StringdConfig;
pub use suggest::nearest;
pub use telemetry::TelemetryConfig;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use engine::Limits;
use engine::policy::Policy;
use section::{Document, Section};

/// The number that clients receive for "no limit": the largest integer that JSON represents exactly.
pub const NO_LIMIT: u64 = 9_007_199_254_740_991;

/// The flags that select the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigArgs {
    /// The file to read instead of the default ones.
    pub file: Option<PathBuf>,
    /// Directories to serve instead of the configured ones.
    pub roots: Vec<PathBuf>,
}

/// The effective configuration of a daemon.
#[derive(Debug, Clone)]
pub struct Config {
    /// The served directories, as configured.
    pub roots: Vec<PathBuf>,
    /// The limits of sessions and processes.
    pub limits: Limits,
    /// Rules on commands and files, and the environment of commands.
    pub policy: Policy,
    /// Who can answer approval requests, and how long they stay open.
    pub approvals: ApprovalsConfig,
    /// The audit file.
    pub audit: AuditConfig,
    /// Listeners, TLS, timeouts and the log level.
    pub server: ServerConfig,
    /// The exec-server face.
    pub exec_server: ExecServerConfig,
    /// The host face.
    pub host: HostConfig,
    /// The stringd face.
    pub stringd: StringdConfig,
    /// Whether a write is flushed to disk before its response.
    pub durable_writes: bool,
    /// Metrics and traces.
    pub telemetry: TelemetryConfig,
    /// Limits of detached processes.
    pub keepers: KeepersConfig,
    /// Tokens and client certificates.
    pub auth: AuthConfig,
    /// Sandbox profiles.
    pub sandbox: SandboxConfig,
    /// The file this was read from.
    pub source: Option<PathBuf>,
    /// Problems that do not make the configuration invalid.
    pub warnings: Vec<String>,
    /// The file to create if there is none, for messages.
    pub file_to_write: PathBuf,
}

impl Config {
    /// Finds and parses the configuration file.
    pub fn load(args: &ConfigArgs, paths: &Paths) -> Result<Self, ConfigError> {
        server::check_flag_roots(&args.roots, paths)?;
        match paths.config_file(args.file.as_deref()) {
            Some(file) => {
                let text = std::fs::read_to_string(&file)
                    .map_err(|source| ConfigError::Unreadable { file: file.clone(), source })?;
                Self::parse(&text, &file, args, paths)
            }
            None => Self::parse("", Path::new(""), args, paths),
        }
    }

    /// Parses the text of a configuration; `file` is empty if there is no file.
    pub fn parse(text: &str, file: &Path, args: &ConfigArgs, paths: &Paths) -> Result<Self, ConfigError> {
        let document = Document { file, text, paths, warnings: RefCell::default() };
        let table = toml::de::DeTable::parse(text)
            .map_err(|error| document.error(error.span().unwrap_or(0..0), error.message()))?;
        let root = Section::root(&document, table.get_ref());
        let base = if args.roots.is_empty() { Limits::seed() } else { Limits::open() };
        let security = root.section("security")?;
        let configured = server::roots(&security)?;
        let policy = policy::read(&root, security.boolean("allow_shell", true)?)?;
        drop(security);
        let roots =
            if args.roots.is_empty() { configured.clone() } else { server::flag_roots(&args.roots, paths)? };
        let served = auth::ServedRoots { configured: &configured, effective: &roots };
        let auth = auth::read(root.section("auth")?, served)?;
        let mut config = Self {
            roots,
            limits: limits::read(root.section("limits")?, base)?,
            policy,
            approvals: approvals::read(root.section("approvals")?)?,
            audit: server::audit(root.section("audit")?)?,
            server: server::server(root.section("server")?)?,
            exec_server: exec_server::read(root.section("exec_server")?)?,
            host: host::read(root.section("host")?)?,
            stringd: stringd::read(root.section("stringd")?)?,
            durable_writes: root.section("files")?.boolean("durable", true)?,
            telemetry: telemetry::read(root.section("telemetry")?)?,
            keepers: keepers::read(root.section("keepers")?)?,
            auth,
            sandbox: sandbox::read(root.section("sandbox")?)?,
            source: (!file.as_os_str().is_empty()).then(|| file.to_owned()),
            warnings: Vec::new(),
            file_to_write: paths.file_to_write(),
        };
        // Adds the warnings about unknown sections.
        drop(root);
        config.warnings = document.warnings.into_inner();
        config.warnings.extend(config.root_warnings());
        Ok(config)
    }

    /// The message for a daemon without roots; `None` if there are roots.
    pub fn no_roots_message(&self) -> Option<String> {
        let file = self.source.as_ref().unwrap_or(&self.file_to_write);
        self.roots.is_empty().then(|| {
            format!(
                "no roots are configured, so no directory is served; \
                 add [[security.allowed_roots]] with path = \"/…\" to {}, or pass --root DIR",
                file.display()
            )
        })
    }

    /// Warnings about missing roots and about a root of `/`; they are also in `warnings`.
    pub fn root_warnings(&self) -> Vec<String> {
        let serves_all = self.roots.iter().any(|root| root == Path::new("/"));
        let slash = "a root is /: every file that this user can access is served";
        self.no_roots_message().into_iter().chain(serves_all.then(|| slash.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_auth;
#[cfg(test)]
mod tests_policy;
