//! Paths: the files and directories of `rex`, from the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The files and directories of `rex`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paths {
    /// The home directory.
    pub home: Option<PathBuf>,
    /// The registry of targets.
    pub registry: Option<PathBuf>,
    /// The sign-ins to hubs.
    pub logins: Option<PathBuf>,
    /// The directory for state, such as the target of `rex target use`.
    pub state: Option<PathBuf>,
    /// The directory for data, such as rexd binaries for other machines.
    pub data: Option<PathBuf>,
}

impl Paths {
    /// The paths for the environment of this process.
    pub fn from_environment() -> Paths {
        Paths::from_variables(|name| std::env::var_os(name))
    }

    /// The paths for these variables. Empty values, and relative XDG directories, are ignored.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Paths {
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let dir =
            |name: &str, below: &str| absolute(name).or_else(|| home.as_ref().map(|home| home.join(below)));
        let named = path("REXD_TARGETS_FILE").map(|file| expand_home(&file, home.as_deref()));
        let config = dir("XDG_CONFIG_HOME", ".config");
        Paths {
            logins: config.as_ref().map(|config| config.join("rexd/hubs.json")),
            registry: named.or_else(|| config.map(|config| config.join("rexd/targets.json"))),
            state: dir("XDG_STATE_HOME", ".local/state").map(|state| state.join("rex")),
            data: dir("XDG_DATA_HOME", ".local/share").map(|data| data.join("rex")),
            home,
        }
    }
}

/// Expands a leading `~` to the home directory.
pub(crate) fn expand_home(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(variables: &[(&str, &str)]) -> Paths {
        Paths::from_variables(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_registry_is_where_the_plugins_look_for_it() {
        for (variables, file) in [
            (&[("HOME", "/h")][..], "/h/.config/rexd/targets.json"),
            (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")], "/c/rexd/targets.json"),
            (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "odd")], "/h/.config/rexd/targets.json"),
            (&[("HOME", "/h"), ("REXD_TARGETS_FILE", "")], "/h/.config/rexd/targets.json"),
            (&[("HOME", "/h"), ("REXD_TARGETS_FILE", "~/t.json")], "/h/t.json"),
            (&[("REXD_TARGETS_FILE", "t.json")], "t.json"),
        ] {
            assert_eq!(paths(variables).registry.as_deref(), Some(Path::new(file)), "{variables:?}");
        }
        assert_eq!(paths(&[]), Paths::default());
    }
}
