//! `rex write`.

use crate::args::Write;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Write) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex write is not here yet"))
}
