//! Paths: where configuration and state lie, from the environment the daemon was started with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::net::auth::Secret;

/// The file that is looked for on a machine with an administrator.
const SYSTEM_FILE: &str = "/etc/rexd/config.toml";

/// Where the world keeps things. Made once from the environment, by hand in tests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paths {
    /// A file named by `$REXD_CONFIG`.
    pub named: Option<PathBuf>,
    /// The administrator's file.
    pub system: Option<PathBuf>,
    /// The user's file.
    pub user: Option<PathBuf>,
    /// The directory for logs, keepers, audit and tokens.
    pub state: Option<PathBuf>,
    /// The token of `$REXD_TOKEN`.
    pub token: Option<Secret>,
    /// The token file of `$REXD_TOKEN_FILE`.
    pub token_file: Option<PathBuf>,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// What relative paths of flags are relative to.
    pub current: PathBuf,
}

impl Paths {
    /// The places of this process.
    pub fn from_environment() -> Self {
        let current = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        Self::from_variables(|name| std::env::var_os(name), current)
    }

    /// The places that these variables name. Empty and (where the convention says so) relative values do not count.
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
            token: token(variable("REXD_TOKEN")),
            token_file: path("REXD_TOKEN_FILE").map(|file| current.join(file)),
            home,
            current,
        }
    }

    /// The audit file of those who named none.
    pub fn default_audit(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|state| state.join("audit.log"))
    }

    /// The file to write when there is none yet.
    pub fn file_to_write(&self) -> PathBuf {
        self.user.clone().unwrap_or_else(|| PathBuf::from(SYSTEM_FILE))
    }

    /// `~` and `~/x` as the home directory.
    pub(super) fn expand(&self, path: &str) -> PathBuf {
        match (path.strip_prefix('~'), &self.home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => PathBuf::from(path),
        }
    }

    /// The file to read: one that was named even if it is missing, else the first default one that is there. One
    /// that cannot be looked at counts as there: the operator's file is never skipped for lack of rights.
    pub(super) fn config_file(&self, flag: Option<&Path>) -> Option<PathBuf> {
        let named = flag.map(|file| self.current.join(file)).or_else(|| self.named.clone());
        let mut defaults = self.system.iter().chain(&self.user);
        named.or_else(|| defaults.find(|file| file.try_exists().unwrap_or(true)).cloned())
    }
}

/// An empty variable is as good as none. One that is not UTF-8 is kept as a token that nobody can send, so that it
/// is refused with a reason and not passed over.
fn token(value: Option<OsString>) -> Option<Secret> {
    value.filter(|value| !value.is_empty()).map(|value| Secret::new(value.to_string_lossy()))
}
