//! Machine: what the probe finds on the remote machine before anything is changed.

use crate::failure::Failure;

/// The directory where rexd is searched first.
pub(crate) const SYSTEM: &str = "/usr/local/bin";
/// The search directory of one user, relative to the home directory.
const PERSONAL: &str = ".local/bin";

/// What the probe found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The output of `uname -s`.
    pub(crate) system: String,
    /// The output of `uname -m`.
    pub(crate) processor: String,
    pub(crate) home: String,
    /// The user's XDG config directory.
    pub(crate) config_home: String,
    /// Whether the user can write to the system directory.
    pub(crate) may_write_system: bool,
    /// Whether /etc/rexd/config.toml exists, which takes precedence over the user's config.
    pub(crate) has_system_config: bool,
    /// Whether the system directory contains a rexd.
    pub(crate) has_system_rexd: bool,
}

/// The script that prints the fields of [`Machine`], one per line.
pub(crate) const PROBE: &str = r#"
    echo "rex system $(uname -s)";
    echo "rex processor $(uname -m)";
    echo "rex home $HOME";
    echo "rex config_home ${XDG_CONFIG_HOME:-$HOME/.config}";
    if [ -d /usr/local/bin ] && [ -w /usr/local/bin ]; then echo "rex may_write_system yes"; fi;
    if [ -e /etc/rexd/config.toml ]; then echo "rex has_system_config yes"; fi;
    if [ -e /usr/local/bin/rexd ]; then echo "rex has_system_rexd yes"; fi;
    echo "rex end yes"
"#;

impl Machine {
    /// Parses the output of the probe.
    pub(crate) fn parse(said: &str) -> Result<Machine, Failure> {
        let value = |name: &str| {
            let lines = said.lines().filter_map(|line| line.strip_prefix("rex "));
            lines
                .filter_map(|line| line.split_once(' '))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        let text = |name: &str| value(name).unwrap_or_default().to_owned();
        let machine = Machine {
            system: text("system"),
            processor: text("processor"),
            home: text("home"),
            config_home: text("config_home"),
            may_write_system: value("may_write_system").is_some(),
            has_system_config: value("has_system_config").is_some(),
            has_system_rexd: value("has_system_rexd").is_some(),
        };
        if value("end").is_none() || machine.system.is_empty() || !machine.home.starts_with('/') {
            let what = "cannot probe the machine: the login does not run a POSIX shell";
            return Err(Failure::new(what).hint("check that `ssh HOST uname -sm` prints two words"));
        }
        Ok(machine)
    }

    /// The directory to install to.
    pub(crate) fn install_dir(&self, into: Option<&str>) -> Result<String, Failure> {
        match into {
            Some(dir) => self.absolute(dir, "--into"),
            None if self.may_write_system => Ok(SYSTEM.to_owned()),
            None => Ok(format!("{}/{PERSONAL}", self.home)),
        }
    }

    /// Whether rexd is found in this directory without configuration.
    pub(crate) fn is_searched(&self, dir: &str) -> bool {
        // The system directory is searched first.
        dir == SYSTEM || (dir == format!("{}/{PERSONAL}", self.home) && !self.has_system_rexd)
    }

    /// Makes a path on the machine absolute; `~/` is the user's home.
    pub(crate) fn absolute(&self, path: &str, what: &str) -> Result<String, Failure> {
        let expanded = match path.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with('/') => format!("{}{rest}", self.home),
            _ => path.to_owned(),
        };
        if !expanded.starts_with('/') || expanded.contains(char::is_control) {
            let problem = format!("invalid {what} {path:?}: it must be absolute or start with ~/");
            return Err(Failure::new(problem).hint("for example --root /srv/app"));
        }
        match expanded.trim_end_matches('/') {
            "" => Ok("/".to_owned()),
            trimmed => Ok(trimmed.to_owned()),
        }
    }

    /// The path of the user's config.
    pub(crate) fn config(&self) -> String {
        format!("{}/rexd/config.toml", self.config_home)
    }

    /// System and processor as in names of release files.
    pub(crate) fn suffix(&self) -> String {
        format!("{}-{}", self.system.to_lowercase(), self.processor)
    }
}
