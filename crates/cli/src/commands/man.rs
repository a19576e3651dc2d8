//! `rex man`.

use crate::args::Man;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Man) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex man is not here yet"))
}
