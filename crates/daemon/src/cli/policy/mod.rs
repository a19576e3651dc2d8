//! `rexd policy`: tests the policy, explains its decision, and applies it to an audit file.

mod output;
mod replay;
mod test;

pub use replay::Replay;
pub use test::{PolicyTest, TestedOperation};

use std::io::{self, Write};

use crate::config::{Config, ConfigArgs, Paths};

/// A subcommand of `rexd policy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyCommand {
    /// Print the decision.
    Test(PolicyTest),
    /// Print the decision and every rule that was checked.
    Explain(PolicyTest),
    /// Apply the policy to the requests of an audit file.
    Replay(Replay),
}

/// The exit status for an unreadable configuration; no decision uses it.
const BAD_CONFIGURATION: u8 = 78;

impl PolicyCommand {
    /// Prints the result and returns the exit status.
    pub fn run(&self, paths: &Paths, out: &mut dyn Write) -> io::Result<u8> {
        let config = match Config::load(self.config(), paths) {
            Ok(config) => config,
            Err(error) => {
                writeln!(io::stderr(), "error: {error}")?;
                return Ok(BAD_CONFIGURATION);
            }
        };
        match self {
            Self::Test(test) => test.test(&config, paths, out),
            Self::Explain(test) => test.explain(&config, paths, out),
            Self::Replay(replay) => replay.run(&config, out),
        }
    }

    fn config(&self) -> &ConfigArgs {
        match self {
            Self::Test(test) | Self::Explain(test) => &test.config,
            Self::Replay(replay) => &replay.config,
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_docs;
