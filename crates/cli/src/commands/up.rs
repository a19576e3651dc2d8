//! `rex up`: runs the demonstration.

use super::shell;
use crate::app::App;
use crate::args::{ShellArgs, UpArgs};
use crate::failure::{CommandStatus, Failure};
use crate::up;

/// Starts a daemon, runs the demonstration and offers a shell.
pub(super) async fn run(args: UpArgs) -> Result<CommandStatus, Failure> {
    up::run(args, async |target: &str| {
        let args = ShellArgs { cwd: None, env: Vec::new(), command: Vec::new() };
        shell::run(&App::new(Some(target), false)?, args).await
    })
    .await
}
