//! `rex tools`: the tools' schemas, for an agent loop of one's own.

use crate::args::Tools;
use crate::failure::{Failure, Status};
use crate::output;
use crate::tools::formats;

/// Prints the schemas as one JSON array: on one line with `--json`, to be read otherwise.
pub(super) async fn run(_target: Option<&str>, json: bool, ask: Tools) -> Result<Status, Failure> {
    let tools = formats::all(ask.format);
    match json {
        true => output::json_line(&tools)?,
        false => output::line(format_args!("{tools:#}"))?,
    }
    Ok(Status::OK)
}
