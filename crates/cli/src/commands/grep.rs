//! `rex grep`.

use crate::app::App;
use crate::args::Grep;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: Grep) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex grep is not here yet"))
}
