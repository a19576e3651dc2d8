//! Configuration: the operator's TOML file and the flags, read into exact types or refused with the place of the
//! mistake.

mod approvals;
mod auth;
mod environment;
mod exec_server;
mod keepers;
mod limits;
mod listeners;
mod paths;
mod policy;
mod print;
mod sandbox;
mod section;
mod server;
mod suggest;
mod telemetry;

pub use approvals::ApprovalsConfig;
pub use auth::{AuthConfig, CertificateConfig, TokenConfig, TokenSource};
pub use exec_server::ExecServerConfig;
pub use keepers::KeepersConfig;
pub use link::listen::TlsFiles;
pub use listeners::Listeners;
pub use paths::Paths;
pub(crate) use print::EXPOSED;
pub use print::check_config;
pub use sandbox::{BUILT_IN, CustomProfile, OFF, SandboxConfig};
pub use section::ConfigError;
pub use server::{AuditConfig, LogLevel, ServerConfig};
pub use suggest::nearest;
pub use telemetry::TelemetryConfig;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use engine::Limits;
use engine::policy::Policy;
use section::{Document, Section};

/// What "no limit" is called towards clients, which want a number: the largest that JSON carries exactly.
pub const NO_LIMIT: u64 = 9_007_199_254_740_991;

/// Where the configuration comes from, as far as flags say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigArgs {
    /// The file to read instead of the default ones.
    pub file: Option<PathBuf>,
    /// Directories to serve instead of the configured ones.
    pub roots: Vec<PathBuf>,
}

/// Everything the operator decides.
#[derive(Debug, Clone)]
pub struct Config {
    /// The directories to serve, as they were written.
    pub roots: Vec<PathBuf>,
    /// Every bound.
    pub limits: Limits,
    /// Rules on commands, and what commands inherit.
    pub policy: Policy,
    /// Who may answer what the policy asks about.
    pub approvals: ApprovalsConfig,
    /// Where the audit goes.
    pub audit: AuditConfig,
    /// What listens where.
    pub server: ServerConfig,
    /// Where Codex finds it.
    pub exec_server: ExecServerConfig,
    /// Whether a write is on the disk before it is answered.
    pub durable_writes: bool,
    /// Where telemetry goes.
    pub telemetry: TelemetryConfig,
    /// What detached processes may keep.
    pub keepers: KeepersConfig,
    /// Who may come in.
    pub auth: AuthConfig,
    /// What confines commands.
    pub sandbox: SandboxConfig,
    /// The file this was read from.
    pub source: Option<PathBuf>,
    /// What is odd but no reason to refuse.
    pub warnings: Vec<String>,
    /// The file to name to somebody who has to write one.
    pub file_to_write: PathBuf,
}

impl Config {
    /// Finds and reads the configuration.
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

    /// Reads a configuration from its text; `file` is where it came from, if anywhere.
    pub fn parse(text: &str, file: &Path, args: &ConfigArgs, paths: &Paths) -> Result<Self, ConfigError> {
        let document = Document { file, text, warnings: RefCell::default() };
        let table = toml::de::DeTable::parse(text)
            .map_err(|error| document.error(error.span().unwrap_or(0..0), error.message()))?;
        let root = Section::root(&document, table.get_ref());
        let base = if args.roots.is_empty() { Limits::seed() } else { Limits::open() };
        let security = root.section("security")?;
        let configured = server::roots(&security, paths)?;
        let policy = policy::read(&root, security.boolean("allow_shell")?.unwrap_or(true), paths)?;
        security.finish();
        let roots =
            if args.roots.is_empty() { configured.clone() } else { server::flag_roots(&args.roots, paths)? };
        let served = auth::ServedRoots { configured: &configured, effective: &roots };
        let auth = auth::read(root.section("auth")?, served, paths)?;
        let mut config = Self {
            roots,
            limits: limits::read(root.section("limits")?, base)?,
            policy,
            approvals: approvals::read(root.section("approvals")?)?,
            audit: server::audit(root.section("audit")?, paths)?,
            server: server::server(root.section("server")?, paths)?,
            exec_server: exec_server::read(root.section("exec_server")?, paths)?,
            durable_writes: server::durable_writes(root.section("files")?)?,
            telemetry: telemetry::telemetry(root.section("telemetry")?)?,
            keepers: keepers::read(root.section("keepers")?)?,
            auth,
            sandbox: sandbox::read(root.section("sandbox")?, paths)?,
            source: None,
            warnings: Vec::new(),
            file_to_write: paths.file_to_write(),
        };
        root.finish();
        if !file.as_os_str().is_empty() {
            config.source = Some(file.to_owned());
        }
        config.warnings = document.warnings.into_inner();
        config.warn_about_roots();
        Ok(config)
    }

    /// What to tell somebody whose path lies in no root because there are none.
    pub fn no_roots_message(&self) -> Option<String> {
        let file = self.source.as_ref().unwrap_or(&self.file_to_write);
        self.roots.is_empty().then(|| {
            format!(
                "no roots are configured, so nothing is served: \
                 write [[security.allowed_roots]] with path = \"/…\" in {}, or start with --root DIR",
                file.display()
            )
        })
    }

    fn warn_about_roots(&mut self) {
        self.warnings.extend(self.no_roots_message());
        if self.roots.iter().any(|root| root == Path::new("/")) {
            self.warnings.push("a root is /: every file this user can reach is served".to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_auth;
#[cfg(test)]
mod tests_policy;
