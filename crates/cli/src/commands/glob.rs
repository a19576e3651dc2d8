//! `rex glob`.

use crate::app::App;
use crate::args::Glob;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: Glob) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex glob is not here yet"))
}
