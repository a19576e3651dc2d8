//! `rex watch`.

use crate::app::App;
use crate::args::Watch;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: Watch) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex watch is not here yet"))
}
