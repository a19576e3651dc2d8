//! `rex ls`.

use crate::app::App;
use crate::args::Ls;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: Ls) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex ls is not here yet"))
}
