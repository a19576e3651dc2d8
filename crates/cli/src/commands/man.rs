//! `rex man`: writes the manual pages, one for `rex` and one per command.

use clap::CommandFactory as _;

use crate::args::{ManArgs, RexArgs};
use crate::failure::{CommandStatus, Failure};

/// Writes the manual pages.
pub(super) fn run(args: &ManArgs) -> Result<CommandStatus, Failure> {
    std::fs::create_dir_all(&args.directory)?;
    clap_mangen::generate_to(RexArgs::command(), &args.directory)?;
    Ok(CommandStatus::OK)
}
