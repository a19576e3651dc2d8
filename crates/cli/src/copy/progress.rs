//! ProgressLine: one line on the terminal, for copies that take longer than a second.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use link::task::OwnedTask;

use super::stats::{CopyProgress, CopyStats};
use crate::terminal;

/// Shorter copies show no progress.
const SHOW_AFTER: Duration = Duration::from_secs(1);
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Shows the progress until it is finished or dropped.
#[derive(Debug)]
pub(super) struct ProgressLine {
    task: Option<OwnedTask<()>>,
    stats: Arc<CopyStats>,
}

impl ProgressLine {
    /// Starts to show the progress if stderr is a terminal.
    pub(super) fn start(stats: &Arc<CopyStats>, quiet: bool) -> ProgressLine {
        let watched = stats.clone();
        let task = (!quiet && std::io::stderr().is_terminal()).then(|| {
            OwnedTask::spawn(async move {
                tokio::time::sleep(SHOW_AFTER).await;
                loop {
                    watched.show(&fit(&line(watched.progress())));
                    tokio::time::sleep(REDRAW_INTERVAL).await;
                }
            })
        });
        ProgressLine { task, stats: stats.clone() }
    }
}

impl ProgressLine {
    /// Shows the last state, which stays on the screen if there was a line before.
    pub(super) fn finish(mut self) {
        self.task = None;
        self.stats.finish_line(&fit(&line(self.stats.progress())));
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.task = None;
        self.stats.clear();
    }
}

/// Cuts a line at the width of the terminal.
fn fit(line: &str) -> String {
    line.chars().take(usize::from(terminal::size().cols).saturating_sub(1)).collect()
}

fn line(CopyProgress { passed, total, seconds, is_verifying }: CopyProgress) -> String {
    let percent = if total == 0 { 0.0 } else { (passed as f64 * 100.0 / total as f64).floor() };
    let rate = passed as f64 / seconds.max(0.001);
    let left = total.saturating_sub(passed) as f64 / rate.max(1.0);
    let left = if rate < 1.0 { "-".to_owned() } else { format!("{left:.0} s") };
    let end = match (passed == total, is_verifying) {
        (true, true) => "verifying".to_owned(),
        (true, false) => format!("{seconds:.0} s"),
        (false, _) => format!("{left} left"),
    };
    format!("{percent:3.0}%  {} of {}  {}/s  {end}", size(passed), size(total), size(rate as u64))
}

/// A number of bytes with a unit.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_has_percentage_rate_and_time() {
        let at = |passed: u64, total: u64, is_verifying| {
            line(CopyProgress { passed, total, seconds: 2.0, is_verifying })
        };
        let (half, whole) = (50 << 20, 100 << 20);
        assert_eq!(at(half, whole, false), " 50%  50.0 MiB of 100.0 MiB  25.0 MiB/s  2 s left");
        assert_eq!(at(whole - 1, whole, true), " 99%  100.0 MiB of 100.0 MiB  50.0 MiB/s  0 s left");
        assert_eq!(at(whole, whole, true), "100%  100.0 MiB of 100.0 MiB  50.0 MiB/s  verifying");
        assert_eq!(at(whole, whole, false), "100%  100.0 MiB of 100.0 MiB  50.0 MiB/s  2 s");
        assert_eq!(at(0, 1, false), "  0%  0 B of 1 B  0 B/s  - left");
    }
}
