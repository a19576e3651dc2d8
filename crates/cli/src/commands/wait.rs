//! `rex wait`.

use crate::app::App;
use crate::args::Wait;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: Wait) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex wait is not here yet"))
}
