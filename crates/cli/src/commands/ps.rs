//! `rex ps`.

use crate::app::App;
use crate::args::Ps;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: Ps) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex ps is not here yet"))
}
