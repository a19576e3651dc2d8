//! Places: where the registry and what rex remembers lie, from the environment it was started with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where things lie. Made once from the environment, by hand in tests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// The home directory.
    pub home: Option<PathBuf>,
    /// The registry of targets.
    pub registry: Option<PathBuf>,
    /// The folder of what rex remembers.
    pub state: Option<PathBuf>,
    /// The folder of what rex has for other machines.
    pub data: Option<PathBuf>,
}

impl Places {
    /// The places of this process.
    pub fn from_environment() -> Places {
        Places::from_variables(|name| std::env::var_os(name))
    }

    /// The places that these variables name. Empty and (where the convention says so) relative values do not count.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Places {
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let folder =
            |name: &str, below: &str| absolute(name).or_else(|| home.as_ref().map(|home| home.join(below)));
        let named = path("REXD_TARGETS_FILE").map(|file| in_home(&file, home.as_deref()));
        let config = folder("XDG_CONFIG_HOME", ".config");
        Places {
            registry: named.or_else(|| config.map(|config| config.join("rexd/targets.json"))),
            state: folder("XDG_STATE_HOME", ".local/state").map(|state| state.join("rex")),
            data: folder("XDG_DATA_HOME", ".local/share").map(|data| data.join("rex")),
            home,
        }
    }
}

/// A path with `~` or `~/` at its beginning as the home directory.
pub(crate) fn in_home(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)]) -> Places {
        Places::from_variables(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_registry_lies_where_the_plugins_look() {
        for (variables, file) in [
            (&[("HOME", "/h")][..], "/h/.config/rexd/targets.json"),
            (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")], "/c/rexd/targets.json"),
            (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "odd")], "/h/.config/rexd/targets.json"),
            (&[("HOME", "/h"), ("REXD_TARGETS_FILE", "")], "/h/.config/rexd/targets.json"),
            (&[("HOME", "/h"), ("REXD_TARGETS_FILE", "~/t.json")], "/h/t.json"),
            (&[("REXD_TARGETS_FILE", "t.json")], "t.json"),
        ] {
            assert_eq!(places(variables).registry.as_deref(), Some(Path::new(file)), "{variables:?}");
        }
        assert_eq!(places(&[]), Places::default());
    }
}
