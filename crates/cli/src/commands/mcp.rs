//! `rex mcp`.

use crate::args::Mcp;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Mcp) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex mcp is not here yet"))
}
