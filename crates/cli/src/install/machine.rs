//! Machine: what is found on the other side before anything is changed there.

use crate::failure::Failure;

/// Where rexd is looked for without being told.
pub(crate) const SYSTEM: &str = "/usr/local/bin";
/// The same for one user.
const PERSONAL: &str = ".local/bin";

/// What is on the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    /// As `uname -s` says it.
    pub(crate) system: String,
    /// As `uname -m` says it.
    pub(crate) processor: String,
    pub(crate) home: String,
    /// Where that user's configurations lie.
    pub(crate) config_home: String,
    /// Whether that user may write to the system's folder for programs.
    pub(crate) may_write_system: bool,
    /// Whether the administrator has written a config, which counts more than the user's.
    pub(crate) has_system_config: bool,
    /// Whether a rexd lies in the system's folder.
    pub(crate) has_system_rexd: bool,
}

/// Tells what [`Machine`] holds, one line each.
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
    /// Reads what the probe said.
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
            let what = "the machine does not say what it is: its login does not lead to an ordinary shell";
            return Err(Failure::new(what).hint("does `ssh HOST uname -sm` print two words?"));
        }
        Ok(machine)
    }

    /// Where the program goes.
    pub(crate) fn folder(&self, into: Option<&str>) -> Result<String, Failure> {
        match into {
            Some(folder) => self.absolute(folder, "--into"),
            None if self.may_write_system => Ok(SYSTEM.to_owned()),
            None => Ok(format!("{}/{PERSONAL}", self.home)),
        }
    }

    /// Whether rexd is found in that folder without being told.
    pub(crate) fn is_looked_into(&self, folder: &str) -> bool {
        // Where both have one, the system's comes first.
        folder == SYSTEM || (folder == format!("{}/{PERSONAL}", self.home) && !self.has_system_rexd)
    }

    /// A path there as an absolute one; `~/` is that user's home.
    pub(crate) fn absolute(&self, path: &str, what: &str) -> Result<String, Failure> {
        let expanded = match path.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with('/') => format!("{}{rest}", self.home),
            _ => path.to_owned(),
        };
        if !expanded.starts_with('/') || expanded.contains(char::is_control) {
            let problem = format!("{what} {path:?} must be an absolute path there, or begin with ~/");
            return Err(Failure::new(problem).hint("as in --root /srv/app"));
        }
        match expanded.trim_end_matches('/') {
            "" => Ok("/".to_owned()),
            trimmed => Ok(trimmed.to_owned()),
        }
    }

    /// The config of that user.
    pub(crate) fn config(&self) -> String {
        format!("{}/rexd/config.toml", self.config_home)
    }

    /// System and processor as file names have them.
    pub(crate) fn suffix(&self) -> String {
        format!("{}-{}", self.system.to_lowercase(), self.processor)
    }
}
