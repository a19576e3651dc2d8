//! The paths of configuration and state, from the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::net::auth::Secret;

/// The configuration file of the administrator.
const SYSTEM_FILE: &str = "/etc/rexd/config.toml";

/// The daemon's paths and its token variables. Read once from the environment; built by hand in tests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paths {
    /// The value of `$REXD_CONFIG`.
    pub named: Option<PathBuf>,
    /// The administrator's configuration file.
    pub system: Option<PathBuf>,
    /// The user's configuration file.
    pub user: Option<PathBuf>,
    /// The state directory: logs, keepers, audit and tokens.
    pub state: Option<PathBuf>,
    /// The directory for sockets of this user.
    pub runtime: Option<PathBuf>,
    /// Sockets and secrets that the flags or the service manager name.
    pub listener_files: Vec<PathBuf>,
    /// The value of `$REXD_TOKEN`.
    pub token: Option<Secret>,
    /// The value of `$REXD_TOKEN_FILE`.
    pub token_file: Option<PathBuf>,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// The current directory, to which relative flags refer; empty if it has been removed.
    pub current: PathBuf,
    /// `rexd` itself, to be executed as the guardian; `None` in other programs.
    pub program: Option<PathBuf>,
}

impl Paths {
    /// The paths for the environment of this process.
    pub fn from_environment() -> Self {
        let current = std::env::current_dir().unwrap_or_default();
        Self::from_variables(|name| std::env::var_os(name), current)
    }

    /// The paths for these variables. Empty values are ignored, and relative ones where XDG requires it.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>, current: PathBuf) -> Self {
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let in_home = |below: &str| home.as_ref().map(|home| home.join(below));
        let config = absolute("XDG_CONFIG_HOME").or_else(|| in_home(".config"));
        let state = absolute("XDG_STATE_HOME").or_else(|| in_home(".local/state"));
        Self {
            named: path("REXD_CONFIG").map(|file| current.join(file)),
            system: Some(PathBuf::from(SYSTEM_FILE)),
            user: config.map(|directory| directory.join("rexd/config.toml")),
            state: state.map(|directory| directory.join("rexd")),
            runtime: absolute("XDG_RUNTIME_DIR").map(|directory| directory.join("rexd")),
            listener_files: Vec::new(),
            token: token(variable("REXD_TOKEN")),
            token_file: path("REXD_TOKEN_FILE").map(|file| current.join(file)),
            home,
            current,
            program: None,
        }
    }

    /// The default path of the audit file.
    pub fn default_audit(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|state| state.join("audit.log"))
    }

    /// The configuration file to create if there is none.
    pub fn file_to_write(&self) -> PathBuf {
        self.user.clone().unwrap_or_else(|| PathBuf::from(SYSTEM_FILE))
    }

    /// Replaces `~` at the start with the home directory.
    pub(super) fn expand(&self, path: &str) -> PathBuf {
        match (path.strip_prefix('~'), &self.home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => PathBuf::from(path),
        }
    }

    /// The file to read: the file of the flag or of `$REXD_CONFIG`, even if it is missing, else the first default file
    /// that exists. A file that cannot be accessed counts as existing, so that missing permissions are an error.
    pub(super) fn config_file(&self, flag: Option<&Path>) -> Option<PathBuf> {
        let named = flag.map(|file| self.current.join(file)).or_else(|| self.named.clone());
        let mut defaults = self.system.iter().chain(&self.user);
        named.or_else(|| defaults.find(|file| file.try_exists().unwrap_or(true)).cloned())
    }
}

/// The token in a variable; `None` if it is empty. A value that is not UTF-8 becomes a token that no client can send, so
/// that it is refused later with a reason.
fn token(value: Option<OsString>) -> Option<Secret> {
    value.filter(|value| !value.is_empty()).map(|value| Secret::new(value.to_string_lossy()))
}
