//! Low limits: the daemon may open almost no more files, so connections and starts fail.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::last;
use crate::Stage;
use crate::random::Random;
use crate::system::Part;

/// Files that the daemon may still open.
const MORE: std::ops::Range<u64> = 0..6;
/// How long, in milliseconds.
const LOW: std::ops::Range<u64> = 200..1500;

pub(super) async fn inject(stage: &Stage, random: &mut Random) {
    let pid = stage.system.pid(Part::Daemon);
    let open = testkit::proc::descriptors(pid) as u64;
    let maximum = getrlimit(Resource::Nofile).maximum;
    let low = Rlimit { current: Some(open + random.within(MORE)), maximum };
    let before = prlimit(Pid::from_raw(pid), Resource::Nofile, low).unwrap();
    last(random.time(LOW)).await;
    prlimit(Pid::from_raw(pid), Resource::Nofile, before).unwrap();
}
