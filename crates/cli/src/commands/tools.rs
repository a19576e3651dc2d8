//! `rex tools`: prints the schemas of the tools.

use crate::args::ToolsArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::tools::formats;

/// Prints the schemas as a JSON array: on one line with `--json`, indented otherwise.
pub(super) async fn run(
    _target: Option<&str>,
    json: bool,
    args: ToolsArgs,
) -> Result<CommandStatus, Failure> {
    let tools = formats::all(args.format);
    match json {
        true => output::json_line(&tools)?,
        false => output::line(format_args!("{tools:#}"))?,
    }
    Ok(CommandStatus::OK)
}
