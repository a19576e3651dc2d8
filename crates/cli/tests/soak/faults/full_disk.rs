//! A full disk: no space below the state directory of the daemon and beside the targets of copies.

use super::last;
use crate::Stage;
use crate::random::Random;

/// How long the disk is full, in milliseconds.
const FULL: std::ops::Range<u64> = 200..2000;

pub(super) async fn inject(stage: &Stage, random: &mut Random) {
    let system = stage.system.clone();
    tokio::task::spawn_blocking(move || system.disk.fill()).await.unwrap();
    last(random.time(FULL)).await;
    stage.system.disk.free();
}
