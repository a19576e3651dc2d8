//! `rex up`.

use crate::args::Up;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Up) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex up is not here yet"))
}
