//! `rex shell`.

use crate::app::App;
use crate::args::Shell;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: Shell) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex shell is not here yet"))
}
