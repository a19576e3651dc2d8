//! `rex tools`.

use crate::args::Tools;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Tools) -> Result<Status, Failure> {
    let _ = (target, json, ask);
    Err(Failure::new("rex tools is not here yet"))
}
