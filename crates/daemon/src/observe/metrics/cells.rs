//! The atomic counters and histograms behind the metrics.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::labels::Label;

/// The upper bounds of the buckets in microseconds: 100 µs to 100 s, in steps of 1, 2.5 and 5.
pub(super) const BOUNDS_MICROS: [u64; 19] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
];

/// A counter that can be read at any time.
#[derive(Debug, Default)]
pub(super) struct Cell(AtomicU64);

impl Cell {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Subtracts one; every call follows an `add`.
    pub(super) fn lower(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One counter for each value of a label.
#[derive(Debug)]
pub(super) struct Cells<L> {
    cells: Vec<Cell>,
    label: PhantomData<L>,
}

impl<L: Label> Default for Cells<L> {
    fn default() -> Self {
        Self { cells: L::ALL.iter().map(|_| Cell::default()).collect(), label: PhantomData }
    }
}

impl<L: Label> Cells<L> {
    pub(super) fn add(&self, label: L, more: u64) {
        if let Some(cell) = self.cells.get(label.index()) {
            cell.add(more);
        }
    }

    pub(super) fn lower(&self, label: L) {
        if let Some(cell) = self.cells.get(label.index()) {
            cell.lower();
        }
    }

    /// Every value of the label with its count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (L, u64)> {
        L::ALL.iter().copied().zip(self.cells.iter().map(Cell::get))
    }
}

/// A histogram of durations.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// One for each bound, and one for values above the last.
    buckets: [Cell; BOUNDS_MICROS.len() + 1],
    sum_nanos: Cell,
}

impl Histogram {
    pub(super) fn observe(&self, took: Duration) {
        // Rounded up, so that no bucket counts a value above its bound.
        let micros = took.as_nanos().div_ceil(1_000);
        let index = BOUNDS_MICROS.partition_point(|bound| u128::from(*bound) < micros);
        if let Some(bucket) = self.buckets.get(index) {
            bucket.add(1);
        }
        self.sum_nanos.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The cumulative counts, of which the last is the total, and the sum in seconds.
    pub(super) fn read(&self) -> (Vec<u64>, f64) {
        let add = |total: &mut u64, bucket: &Cell| {
            *total += bucket.get();
            Some(*total)
        };
        let counts = self.buckets.iter().scan(0, add).collect();
        (counts, Duration::from_nanos(self.sum_nanos.get()).as_secs_f64())
    }
}
