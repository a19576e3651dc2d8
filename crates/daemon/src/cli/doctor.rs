//! `rexd doctor`: what works on this machine, what does not, and what to do about it.

mod kernel;
mod operator;
mod print;
mod sandbox;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use crate::config::{ConfigArgs, Paths};

/// What to look at and how to say it.
#[derive(Debug, Clone)]
pub struct Doctor {
    /// Which configuration.
    pub config: ConfigArgs,
    /// Where things lie.
    pub paths: Paths,
    /// Where programs are looked up, as in `$PATH`.
    pub program_path: Option<OsString>,
    /// One JSON object instead of lines for people.
    pub json: bool,
    /// Whether the words `ok`, `warn` and `fail` are coloured.
    pub colours: bool,
}

/// How one check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CheckStatus {
    Ok,
    /// It works with less, or needs attention.
    Warn,
    /// It does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) status: CheckStatus,
    /// What was found.
    pub(crate) found: String,
    /// What to do about it; nothing when it is well.
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
    /// Looks at everything, prints it, and returns the status to exit with: 0 when `rexd` is usable here.
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

/// Whether to colour what goes to standard output: only on a terminal, and only if nobody objects with `NO_COLOR`.
pub fn colours_wanted() -> bool {
    let objected = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !objected && io::stdout().is_terminal()
}

#[cfg(test)]
mod tests;
