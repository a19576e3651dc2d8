//! `rex patch`.

use crate::app::App;
use crate::args::Patch;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: Patch) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex patch is not here yet"))
}
