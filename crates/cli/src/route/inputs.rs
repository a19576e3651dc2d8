//! Inputs: everything the routing rules read, collected once, so that the decision itself does no I/O.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use client::target::BearerToken;

use super::paths::Paths;
use super::project::{self, Project};
use super::registry::Registry;
use super::state;
use crate::failure::Failure;

/// Everything the routing rules read. A read error fails the command only when a rule needs that input.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// The value of `-t`.
    pub flag: Option<String>,
    /// The value of `REX_TARGET`.
    pub environment: Option<String>,
    /// The nearest project file.
    pub project: Result<Option<Project>, Failure>,
    /// The registered targets.
    pub registry: Result<Registry, Failure>,
    /// The target set by `rex target use`.
    pub used: Result<Option<String>, Failure>,
    /// The agent session, from `REX_SESSION`.
    pub session: Option<String>,
    /// The target that this session used last.
    pub carried_over: Result<Option<String>, Failure>,
    /// The current directory as the kernel reports it, and `PWD` if it differs.
    pub directories: Vec<PathBuf>,
    /// The value of `REX_TOKEN`.
    pub token: Option<BearerToken>,
    /// The files and directories of `rex`.
    pub paths: Paths,
}

impl Default for Inputs {
    /// Inputs with which only the default rule applies.
    fn default() -> Inputs {
        Inputs {
            flag: None,
            environment: None,
            project: Ok(None),
            registry: Ok(Registry::default()),
            used: Ok(None),
            session: None,
            carried_over: Ok(None),
            directories: Vec::new(),
            token: None,
            paths: Paths::default(),
        }
    }
}

impl Inputs {
    /// Collects the inputs of this process; `flag` is the value of `-t`.
    pub fn gather(flag: Option<&str>) -> Inputs {
        let paths = Paths::from_environment();
        let directories = directories();
        let session = variable("REX_SESSION");
        let carried_over = match (&paths.state, &session) {
            (Some(dir), Some(session)) => state::carried(dir, session),
            _ => Ok(None),
        };
        Inputs {
            flag: flag.map(str::to_owned),
            environment: variable("REX_TARGET"),
            project: directories.first().map_or(Ok(None), |dir| project::find(dir)),
            registry: registry(&paths),
            used: paths.state.as_deref().map_or(Ok(None), state::used),
            session,
            carried_over,
            directories,
            token: variable("REX_TOKEN").map(BearerToken),
            paths,
        }
    }
}

/// Loads the registry of targets.
pub(crate) fn registry(paths: &Paths) -> Result<Registry, Failure> {
    paths.registry.as_deref().map_or_else(|| Ok(Registry::default()), Registry::load)
}

/// A non-empty environment variable. A value that is not UTF-8 is converted lossily, so that it fails as unknown
/// instead of being ignored.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    let text = value.to_string_lossy();
    (!text.is_empty()).then(|| text.trim().to_owned())
}

fn directories() -> Vec<PathBuf> {
    let Ok(real) = std::env::current_dir() else { return Vec::new() };
    let by_shell = std::env::var_os("PWD").filter(|shell| shell != real.as_os_str() && is_same(shell, &real));
    std::iter::once(real).chain(by_shell.map(PathBuf::from)).collect()
}

/// Whether `PWD`, which may be stale, is the current directory.
fn is_same(shell: &OsStr, real: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
    let shell = Path::new(shell);
    shell.is_absolute() && identity(shell).is_some_and(|shell| identity(real) == Some(shell))
}
