//! The hub's own log: one line per event on stderr. Standard output belongs to results.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Sends everything that an operator wants to know to stderr.
pub fn to_stderr() {
    // A second call finds the first one's log in place, which is as good.
    let _set = tracing::subscriber::set_global_default(Stderr);
}

/// Writes lines. It keeps no spans: what an event says is all there is to say.
struct Stderr;

impl Subscriber for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // What libraries have to say is for their authors, unless it is bad.
        let is_ours = metadata.target().starts_with("hub");
        *metadata.level() <= if is_ours { Level::INFO } else { Level::ERROR }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let line = format!("{:.3} {level} {}\n", jiff::Timestamp::now(), line.0.trim());
        // A log that cannot be written must not stop the hub; there is nobody left to tell.
        let _told = std::io::stderr().lock().write_all(line.as_bytes());
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// The message first, then what belongs to it as `name=value`.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _written = match field.name() {
            "message" => {
                let rest = std::mem::take(&mut self.0);
                write!(self.0, "{value:?}{rest}")
            }
            name => write!(self.0, " {name}={value:?}"),
        };
    }

    /// An error with everything that led to it.
    fn record_error(&mut self, field: &Field, error: &(dyn std::error::Error + 'static)) {
        let causes = std::iter::successors(Some(error), |error| error.source());
        let chain: Vec<String> = causes.map(ToString::to_string).collect();
        self.record_debug(field, &chain.join(": "));
    }
}
