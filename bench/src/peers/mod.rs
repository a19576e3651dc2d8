//! Everyone we measure, behind three small traits, so that each row treats all of them alike.

pub(crate) mod codex;
pub(crate) mod daemon;
pub(crate) mod floor;
pub(crate) mod http;
pub(crate) mod json;
pub(crate) mod minimal;
pub(crate) mod peer;
pub(crate) mod rex;
pub(crate) mod rexd;
pub(crate) mod rexd_http;
pub(crate) mod rg;
pub(crate) mod sftp;
pub(crate) mod ssh;
pub(crate) mod sshd;
pub(crate) mod stringd;
pub(crate) mod swerex;
pub(crate) mod throttle;
pub(crate) mod websocket;
pub(crate) mod wire;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

/// Receives the bytes of a stream.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// A peer that runs commands.
pub(crate) trait Commands {
    /// The name in the tables.
    fn name(&self) -> String;

    /// Runs one command to its end, hands its stdout to the sink, and returns its exit code.
    fn run(&mut self, argv: &[&str], out: Sink<'_>) -> Result<i64>;

    /// Runs the command `total` times, never more than `flight` at once; returns how many did not exit with 0.
    fn burst(&mut self, argv: &[&str], total: usize, flight: usize) -> Result<usize>;
}

/// Reads and writes whole files.
pub(crate) trait Files {
    /// The name in the tables.
    fn name(&self) -> String;

    /// Reads the file from its beginning to its end.
    fn read(&mut self, path: &Path, out: Sink<'_>) -> Result<()>;

    /// Replaces the content of the file.
    fn write(&mut self, path: &Path, content: &[u8]) -> Result<()>;
}

/// Types into `cat` on a terminal that echoes.
pub(crate) trait Terminals {
    /// The name in the tables.
    fn name(&self) -> String;

    /// Opens a fresh terminal with `cat` in it; the one before is closed.
    fn open(&mut self) -> Result<()>;

    /// Types one byte and waits until it was echoed; returns how long that took.
    fn key(&mut self, byte: u8) -> Result<Duration>;
}

/// Does not look at the bytes.
pub(crate) fn ignore(_: &[u8]) -> Result<()> {
    Ok(())
}
