//! `rexd doctor`: checks this machine and the configuration, and gives advice.

mod kernel;
mod operator;
mod print;
mod sandbox;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::config::{ConfigArgs, Paths};

/// The options of `rexd doctor`.
#[derive(Debug, Clone)]
pub struct Doctor {
    /// The flags that select the configuration.
    pub config: ConfigArgs,
    /// The paths of configuration and state.
    pub paths: Paths,
    /// The search path of programs, as in `$PATH`.
    pub program_path: Option<OsString>,
    /// Whether to print one JSON object instead of text.
    pub json: bool,
    /// Whether the words `ok`, `warn` and `fail` are coloured.
    pub colours: bool,
}

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckStatus {
    Ok,
    /// It works with restrictions, or needs attention.
    Warn,
    /// It does not work.
    Fail,
}

/// One check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) status: CheckStatus,
    /// The observed value.
    pub(crate) found: String,
    /// How to fix it; `None` if the check passed.
    pub(crate) advice: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Ok, found: found.into(), advice: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Warn, found: found.into(), advice: Some(advice.into()) }
    }

    fn fail(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Fail, found: found.into(), advice: Some(advice.into()) }
    }
}

impl Doctor {
    /// Runs and prints all checks. The exit status is 0 if `rexd` is usable.
    pub fn run(&self, out: &mut dyn Write) -> io::Result<u8> {
        let mut checks = vec![Check::ok("version", env!("CARGO_PKG_VERSION"))];
        checks.extend(operator::checks(self));
        checks.extend(kernel::checks(self.paths.state.as_deref()));
        checks.extend(sandbox::checks(self));
        if self.json {
            print::json(&checks, out)?
        } else {
            print::lines(&checks, self.colours, out)?
        }
        Ok(u8::from(checks.iter().any(|check| check.status == CheckStatus::Fail)))
    }
}

/// Whether to use colours on stdout: only on a terminal, and not if `NO_COLOR` is set.
pub fn colours_wanted() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_color && io::stdout().is_terminal()
}

#[cfg(test)]
mod tests;
