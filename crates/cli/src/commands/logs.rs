//! `rex logs`.

use crate::app::App;
use crate::args::Logs;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: Logs) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex logs is not here yet"))
}
