//! `rex completions`.

use crate::args::Completions;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Completions) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex completions is not here yet"))
}
