//! The runtime of a daemon.

use std::time::Duration;

use link::task::OwnedTask;

use crate::core::code_pages;

/// After this time the code of the start is unmapped; most of it was needed once. A daemon that ends earlier pays nothing.
const START_TIME: Duration = Duration::from_millis(200);

/// Runs a daemon until it ends.
pub fn run(daemon: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    // A single thread: a command then never waits for another core to wake up.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let _release = OwnedTask::spawn(async {
            tokio::time::sleep(START_TIME).await;
            code_pages::release();
        });
        daemon.await
    });
    // Do not wait for a thread that still reads stdin.
    runtime.shutdown_background();
    result
}
