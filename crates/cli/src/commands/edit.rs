//! `rex edit`.

use crate::args::Edit;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Edit) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex edit is not here yet"))
}
