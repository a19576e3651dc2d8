//! `rexd policy`: what the configured policy says about an operation, why, and what it would have said before.

mod output;
mod replay;
mod test;

pub use replay::Replay;
pub use test::{PolicyTest, TestedOperation};

use std::io::{self, Write};

use crate::config::{Config, ConfigArgs, Paths};

/// Which of the subcommands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyCommand {
    /// Say the verdict.
    Test(PolicyTest),
    /// Say the whole way to it.
    Explain(PolicyTest),
    /// Decide an audit file anew.
    Replay(Replay),
}

/// The status when the configuration cannot be read: no verdict has it.
const BAD_CONFIGURATION: u8 = 78;

impl PolicyCommand {
    /// Prints the answer and returns the status to exit with.
    pub fn run(&self, paths: &Paths, out: &mut dyn Write) -> io::Result<u8> {
        let config = match Config::load(self.config(), paths) {
            Ok(config) => config,
            Err(error) => {
                writeln!(io::stderr(), "error: {error}")?;
                return Ok(BAD_CONFIGURATION);
            }
        };
        match self {
            Self::Test(question) => question.test(&config, paths, out),
            Self::Explain(question) => question.explain(&config, paths, out),
            Self::Replay(replay) => replay.run(&config, out),
        }
    }

    fn config(&self) -> &ConfigArgs {
        match self {
            Self::Test(question) | Self::Explain(question) => &question.config,
            Self::Replay(replay) => &replay.config,
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_docs;
