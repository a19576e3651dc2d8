//! `rex complete`: prints the candidates for a word, one per line.

use crate::args::CompleteArgs;
use crate::complete;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// Prints the candidates for the last word.
pub(super) fn run(args: &CompleteArgs) -> Result<CommandStatus, Failure> {
    let lines: String = complete::candidates(&args.words).iter().map(|found| format!("{found}\n")).collect();
    output::write_out(lines.as_bytes())?;
    Ok(CommandStatus::OK)
}
