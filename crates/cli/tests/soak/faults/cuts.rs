//! Cuts: all connections of a proxy end, at once or after so many more bytes in a direction.

use testkit::proxy::{CutKind, Direction, Proxy};

use crate::random::Random;

/// The longest way to a planned cut, in bytes.
const MOST_BYTES: u64 = 300_000;

pub(crate) fn inject(proxy: &Proxy, random: &mut Random) {
    let how = random.pick(&[CutKind::Closed, CutKind::Reset]);
    match random.pick(&[None, Some(Direction::Daemon), Some(Direction::Client)]) {
        None => proxy.cut(how),
        Some(toward) => {
            let bytes = usize::try_from(random.within(1..MOST_BYTES)).unwrap();
            proxy.cut_after(toward, bytes, how);
        }
    }
}
