//! ProgressLine: one line on a terminal, for copies that take longer than a moment.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use super::stats::CopyStats;
use crate::terminal;

/// A copy that is done by then shows nothing.
const SHOW_AFTER: Duration = Duration::from_secs(1);
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Shows how far the copy is, until it is dropped.
#[derive(Debug)]
pub(super) struct ProgressLine {
    task: Option<tokio::task::JoinHandle<()>>,
    stats: Arc<CopyStats>,
}

impl ProgressLine {
    /// Starts showing, if somebody looks.
    pub(super) fn start(stats: &Arc<CopyStats>, quiet: bool) -> ProgressLine {
        let watched = stats.clone();
        let task = (!quiet && std::io::stderr().is_terminal()).then(|| {
            tokio::spawn(async move {
                tokio::time::sleep(SHOW_AFTER).await;
                loop {
                    let (passed, total, seconds) = watched.progress();
                    let width = usize::from(terminal::size().cols).saturating_sub(1);
                    watched.show(&line(passed, total, seconds).chars().take(width).collect::<String>());
                    tokio::time::sleep(REDRAW_INTERVAL).await;
                }
            })
        });
        ProgressLine { task, stats: stats.clone() }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        self.stats.clear();
    }
}

fn line(passed: u64, total: u64, seconds: f64) -> String {
    let percent = if total == 0 { 0.0 } else { passed as f64 * 100.0 / total as f64 };
    let rate = passed as f64 / seconds.max(0.001);
    let left = total.saturating_sub(passed) as f64 / rate.max(1.0);
    let left = if rate < 1.0 { "-".to_owned() } else { format!("{left:.0} s") };
    format!("{percent:3.0}%  {} of {}  {}/s  {left} left", size(passed), size(total), size(rate as u64))
}

/// Bytes as people read them.
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
    fn a_line_says_how_far_it_is() {
        assert_eq!(line(0, 0, 1.0), "  0%  0 B of 0 B  0 B/s  - left");
        assert_eq!(line(50 << 20, 100 << 20, 2.0), " 50%  50.0 MiB of 100.0 MiB  25.0 MiB/s  2 s left");
    }
}
