//! The atomic counters and histograms behind the metrics.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::labels::Label;

/// The upper bounds of the buckets in seconds.
pub(super) const BOUNDS: [f64; 19] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    25.0, 50.0, 100.0,
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
    pub(super) fn of(&self, label: L) -> &Cell {
        &self.cells[label.index()]
    }

    /// Counts one more until the guard is dropped.
    pub(super) fn raise(self: &Arc<Self>, label: L) -> GaugeGuard<L> {
        self.of(label).add(1);
        GaugeGuard { cells: self.clone(), label }
    }

    /// Every value of the label with its count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (L, u64)> {
        L::ALL.iter().copied().zip(self.cells.iter().map(Cell::get))
    }
}

/// One unit of a gauge, which is lowered when this is dropped.
#[derive(Debug)]
#[must_use = "the gauge is lowered when this is dropped"]
pub struct GaugeGuard<L: Label> {
    cells: Arc<Cells<L>>,
    label: L,
}

impl<L: Label> Drop for GaugeGuard<L> {
    fn drop(&mut self) {
        self.cells.of(self.label).lower();
    }
}

/// A histogram of durations.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// One for each bound, and one for values above the last.
    buckets: [Cell; BOUNDS.len() + 1],
    sum_nanos: Cell,
}

impl Histogram {
    pub(super) fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.buckets[BOUNDS.partition_point(|bound| *bound < seconds)].add(1);
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
