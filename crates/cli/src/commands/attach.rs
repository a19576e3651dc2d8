//! `rex attach`.

use crate::app::App;
use crate::args::Attach;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: Attach) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex attach is not here yet"))
}
