//! Inputs: everything the rules look at, gathered once, so that the decision itself touches nothing.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use client::target::BearerToken;

use super::places::Places;
use super::project::{self, Project};
use super::registry::Registry;
use super::state;
use crate::failure::Failure;

/// Everything the rules look at. What could not be read counts only when a rule gets to it.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// What `-t` says.
    pub asked: Option<String>,
    /// What `REX_TARGET` says.
    pub environment: Option<String>,
    /// The nearest project file.
    pub project: Result<Option<Project>, Failure>,
    /// The registered targets.
    pub registry: Result<Registry, Failure>,
    /// What `rex target use` said.
    pub used: Result<Option<String>, Failure>,
    /// The runtime's session, by `REX_SESSION`.
    pub session: Option<String>,
    /// What that session asked for last.
    pub carried: Result<Option<String>, Failure>,
    /// The current directory as the kernel names it, and as the shell does if that differs.
    pub directories: Vec<PathBuf>,
    /// What `REX_TOKEN` says.
    pub token: Option<BearerToken>,
    /// Where things lie.
    pub places: Places,
}

impl Default for Inputs {
    /// Nothing says anything.
    fn default() -> Inputs {
        Inputs {
            asked: None,
            environment: None,
            project: Ok(None),
            registry: Ok(Registry::default()),
            used: Ok(None),
            session: None,
            carried: Ok(None),
            directories: Vec::new(),
            token: None,
            places: Places::default(),
        }
    }
}

impl Inputs {
    /// What holds for this process now; `asked` is what `-t` says.
    pub fn gather(asked: Option<&str>) -> Inputs {
        let places = Places::from_environment();
        let directories = directories();
        let session = variable("REX_SESSION");
        let carried = match (&places.state, &session) {
            (Some(folder), Some(session)) => state::carried(folder, session),
            _ => Ok(None),
        };
        Inputs {
            asked: asked.map(str::to_owned),
            environment: variable("REX_TARGET"),
            project: directories.first().map_or(Ok(None), |folder| project::find(folder)),
            registry: registry(&places),
            used: places.state.as_deref().map_or(Ok(None), state::used),
            session,
            carried,
            directories,
            token: variable("REX_TOKEN").map(BearerToken),
            places,
        }
    }
}

/// The registry where it lies.
pub(crate) fn registry(places: &Places) -> Result<Registry, Failure> {
    places.registry.as_deref().map_or_else(|| Ok(Registry::default()), Registry::load)
}

/// A variable that says something. What is not UTF-8 becomes a name that nothing has, so it is not passed over.
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

/// The shell's name for the current directory may be an old one.
fn is_same(shell: &OsStr, real: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
    let shell = Path::new(shell);
    shell.is_absolute() && identity(shell).is_some_and(|shell| identity(real) == Some(shell))
}
