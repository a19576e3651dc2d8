//! Random numbers from a seed: SplitMix64.

use std::ops::Range;
use std::time::Duration;

/// A sequence of numbers that the seed determines.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number in the range.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.within(0..times) == 0
    }

    /// A time in a range of milliseconds.
    pub(crate) fn time(&mut self, milliseconds: Range<u64>) -> Duration {
        Duration::from_millis(self.within(milliseconds))
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.within(0..of.len() as u64)).unwrap()]
    }

    /// Bytes that cannot be compressed.
    pub(crate) fn bytes(&mut self, length: u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(usize::try_from(length).unwrap());
        bytes
    }

    /// Puts these into another order.
    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let other = usize::try_from(self.within(0..last as u64 + 1)).unwrap();
            all.swap(last, other);
        }
    }
}
