//! Samples by round, their medians, and the format of figures.

use std::time::{Duration, Instant};

use anyhow::Result;

/// Samples of one peer by round, in the unit of the row: seconds, bytes per second, or a count.
#[derive(Debug, Default, Clone)]
pub(crate) struct Samples {
    rounds: Vec<Vec<f64>>,
}

impl Samples {
    /// Adds the samples of one round.
    pub(crate) fn push(&mut self, round: Vec<f64>) {
        self.rounds.push(round);
    }

    /// The median of the rounds' medians: one bad round does not move it.
    pub(crate) fn p50(&self) -> f64 {
        quantile(self.rounds.iter().map(|round| quantile(round.clone(), 0.5)).collect(), 0.5)
    }

    /// The 99th percentile over all samples.
    pub(crate) fn p99(&self) -> f64 {
        quantile(self.all(), 0.99)
    }

    /// The smallest sample of all rounds.
    pub(crate) fn min(&self) -> f64 {
        self.all().into_iter().fold(f64::INFINITY, f64::min)
    }

    /// The largest sample of all rounds.
    pub(crate) fn max(&self) -> f64 {
        self.all().into_iter().fold(f64::NEG_INFINITY, f64::max)
    }

    /// The numbers of samples and rounds, as text.
    pub(crate) fn count(&self) -> String {
        format!("{} in {}", self.all().len(), self.rounds.len())
    }

    fn all(&self) -> Vec<f64> {
        self.rounds.concat()
    }
}

/// The given quantile of the values; NaN without values.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index within the values")]
    let index = (last as f64 * share).round() as usize;
    values.get(index).copied().unwrap_or(f64::NAN)
}

/// Measures every peer in every round, so that noise affects all of them. One warm-up round is not counted.
pub(crate) fn interleave<P>(
    peers: &mut [P],
    rounds: usize,
    mut turn: impl FnMut(&mut P) -> Result<Vec<f64>>,
) -> Result<Vec<Samples>> {
    let mut samples = vec![Samples::default(); peers.len()];
    for round in 0..=rounds {
        for (peer, kept) in peers.iter_mut().zip(&mut samples) {
            let values = turn(peer)?;
            if round > 0 {
                kept.push(values);
            }
        }
    }
    Ok(samples)
}

/// Runs the work and returns its time in seconds.
pub(crate) fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let start = Instant::now();
    let value = work()?;
    Ok((start.elapsed().as_secs_f64(), value))
}

/// Formats seconds in s, ms or µs.
pub(crate) fn time(seconds: f64) -> String {
    let micros = seconds * 1e6;
    match micros {
        m if m.is_nan() => "-".to_owned(),
        m if m < 1e4 => format!("{m:.0} us"),
        m if m < 1e6 => format!("{:.1} ms", m / 1e3),
        m => format!("{:.2} s", m / 1e6),
    }
}

/// Formats bytes per second as MB/s.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    format!("{:.0} MB/s", bytes_per_second / 1e6)
}

/// Formats a quotient as "1.23x".
pub(crate) fn times(quotient: f64) -> String {
    format!("{quotient:.2}x")
}

/// Formats bytes as MiB.
pub(crate) fn mib(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

/// Whether a condition becomes true within the time; checked every few milliseconds.
pub(crate) fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> Option<Duration> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if condition() {
            return Some(start.elapsed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_rounds_ignores_one_bad_round() {
        let mut samples = Samples::default();
        samples.push(vec![1.0, 2.0, 3.0]);
        samples.push(vec![2.0, 2.0, 2.0]);
        samples.push(vec![900.0, 900.0, 900.0]);
        assert_eq!(samples.p50(), 2.0);
        assert_eq!(samples.min(), 1.0);
        assert_eq!(samples.max(), 900.0);
    }

    #[test]
    fn figures_are_written_with_a_unit_that_fits() {
        assert_eq!(time(0.000_012), "12 us");
        assert_eq!(time(0.012), "12.0 ms");
        assert_eq!(time(1.5), "1.50 s");
    }
}
