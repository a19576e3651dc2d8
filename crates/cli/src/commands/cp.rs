//! `rex cp`.

use crate::args::Cp;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Cp) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex cp is not here yet"))
}
