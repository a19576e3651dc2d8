//! `rex call`.

use crate::args::Call;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Call) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex call is not here yet"))
}
