//! The hub's log: one line per event on stderr. Standard output belongs to results.

use std::fmt;

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Writes the hub's events from level INFO, and errors of its libraries, to stderr.
pub fn to_stderr() {
    let layer = tracing_subscriber::fmt::layer()
        .event_format(HubFormat)
        .fmt_fields(DefaultFields::new())
        .with_ansi(false)
        .with_writer(std::io::stderr)
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
