//! `rex man`: the manual pages, one for rex and one for each command, into a directory.

use clap::CommandFactory as _;

use crate::args::{Args, Man};
use crate::failure::{Failure, Status};

/// Writes them.
pub(super) fn run(ask: &Man) -> Result<Status, Failure> {
    std::fs::create_dir_all(&ask.directory)?;
    clap_mangen::generate_to(Args::command(), &ask.directory)?;
    Ok(Status::OK)
}
