//! `rex kill`.

use crate::app::App;
use crate::args::Kill;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: Kill) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex kill is not here yet"))
}
