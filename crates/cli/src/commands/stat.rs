//! `rex stat`.

use crate::args::Stat;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Stat) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex stat is not here yet"))
}
