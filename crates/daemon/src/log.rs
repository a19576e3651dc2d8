//! The daemon's own log: one line per event on stderr. Standard output belongs to the protocol.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::config::LogLevel;

/// Sends everything of this importance and above to stderr.
pub fn to_stderr(level: LogLevel) {
    // A second call finds the first one's log in place, which is as good.
    let _set = tracing::subscriber::set_global_default(Stderr { most: most(level) });
}

fn most(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Writes lines. It keeps no spans: what an event says is all there is to say.
struct Stderr {
    most: LevelFilter,
}

impl Subscriber for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.most
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line { text: String::new() };
        event.record(&mut line);
        let time = jiff::Timestamp::now();
        // A log that cannot be written must not stop the daemon; there is nobody left to tell.
        let _told =
            writeln!(std::io::stderr(), "{time:.3} {} {}", word(*event.metadata().level()), line.text.trim());
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

fn word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// The message first, then what belongs to it as `name=value`.
struct Line {
    text: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _written = match field.name() {
            "message" => {
                let rest = std::mem::take(&mut self.text);
                write!(self.text, "{value:?}{rest}")
            }
            name => write!(self.text, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_is_off() {
        assert_eq!(most(LogLevel::Off), LevelFilter::OFF);
        assert_eq!(most(LogLevel::Info), LevelFilter::INFO);
    }
}
