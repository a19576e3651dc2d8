//! `rex up`: shows the product on a workspace.

use super::shell;
use crate::app::App;
use crate::args::{Shell, Up};
use crate::failure::{Failure, Status};
use crate::up;

/// Starts a daemon, shows what it can do, offers a shell.
pub(super) async fn run(ask: Up) -> Result<Status, Failure> {
    up::run(ask, async |target: &str| {
        let ask = Shell { cwd: None, env: Vec::new(), command: Vec::new() };
        shell::run(&App::new(Some(target), false)?, ask).await.map(drop)
    })
    .await
}
