//! The hub's log: one line per event on stderr, and the last lines in memory. Standard output belongs to results.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Lines that are kept for administrators; older ones are dropped.
const KEPT_LINES: usize = 2000;
/// The size of those lines; older ones are dropped.
const KEPT_BYTES: usize = 2_000_000;

/// The last lines of the log and their size.
static KEPT: Mutex<(VecDeque<String>, usize)> = Mutex::new((VecDeque::new(), 0));

/// The last lines of the log, and whether there were more; `None` without a log.
pub(crate) fn tail(lines: usize, max_bytes: usize) -> Option<(String, bool)> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut start, mut bytes) = (kept.0.len(), 0);
    while start > 0 && kept.0.len() - start < lines && bytes + kept.0[start - 1].len() <= max_bytes {
        start -= 1;
        bytes += kept.0[start].len();
    }
    (!kept.0.is_empty()).then(|| (kept.0.range(start..).map(String::as_str).collect(), start > 0))
}

/// Writes to stderr, and keeps the line. Each event is one write.
struct KeptStderr;

impl Write for KeptStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1 += bytes.len();
        kept.0.push_back(String::from_utf8_lossy(bytes).into_owned());
        while kept.0.len() > KEPT_LINES || kept.1 > KEPT_BYTES {
            let Some(oldest) = kept.0.pop_front() else { break };
            kept.1 = kept.1.saturating_sub(oldest.len());
        }
        drop(kept);
        io::stderr().write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Writes the hub's events from level INFO, and errors of its libraries, to stderr.
pub fn to_stderr() {
    let layer = tracing_subscriber::fmt::layer()
        .event_format(HubFormat)
        .fmt_fields(DefaultFields::new())
        .with_ansi(false)
        .with_writer(|| KeptStderr)
        .with_filter(filter_fn(is_logged));
    // A second call keeps the first log.
    tracing_subscriber::registry().with(layer).try_init().ok();
}

fn is_logged(metadata: &Metadata<'_>) -> bool {
    let is_own = metadata.target().starts_with("hub") || metadata.target().starts_with("link");
    *metadata.level() <= if is_own { Level::INFO } else { Level::ERROR }
}

/// Formats an event as `TIME LEVEL MESSAGE NAME=VALUE …`.
struct HubFormat;

impl<S, N> FormatEvent<S, N> for HubFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        write!(writer, "{:.3} {level} ", jiff::Timestamp::now())?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
