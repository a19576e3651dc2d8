//! `rex approvals`.

use crate::app::App;
use crate::args::ApprovalsAsk;
use crate::failure::{Failure, Status};

/// Not here yet.
pub(super) async fn run(app: &App, ask: ApprovalsAsk) -> Result<Status, Failure> {
    let _ = (app, ask);
    Err(Failure::new("rex approvals is not here yet"))
}
