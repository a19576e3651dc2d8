//! `rex read`.

use crate::args::Read;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Read) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex read is not here yet"))
}
