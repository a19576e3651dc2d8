//! `rex target`.

use crate::args::TargetAsk;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: TargetAsk) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex target is not here yet"))
}
