//! The daemon's own log: one line per event on stderr. Standard output belongs to the protocol.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::config::LogLevel;

/// Sends everything of this importance and above to stderr.
pub fn to_stderr(level: LogLevel) {
    // A second call finds the first one's log in place, which is as good.
    let _set = tracing::subscriber::set_global_default(Stderr { most: most(level), lost: AtomicU64::new(0) });
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

/// The longest line. A pipe that says it has room takes as much without waiting.
const MOST_LINE: usize = 4_000;

/// Writes lines. It keeps no spans: what an event says is all there is to say.
struct Stderr {
    most: LevelFilter,
    /// Lines that nobody took since the last one that somebody did.
    lost: AtomicU64,
}

impl Stderr {
    /// Writes one line, if whoever reads has room for it. The daemon never waits for a log that nobody reads: those who
    /// can cause a line could stop it. Lines that are not taken are counted, and told with the next one that is.
    fn tell(&self, mut line: String) {
        let stderr = std::io::stderr();
        if !has_room(&stderr) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        line.truncate(line.floor_char_boundary(MOST_LINE));
        match self.lost.swap(0, Ordering::Relaxed) {
            0 => line.push('\n'),
            lost => line.push_str(&format!(" (after {lost} lines that nobody read)\n")),
        }
        // A log that cannot be written must not stop the daemon; there is nobody left to tell.
        let _told = stderr.lock().write_all(line.as_bytes());
    }
}

/// Whether a line can be written without waiting.
fn has_room(output: &impl AsFd) -> bool {
    let mut asked = [PollFd::new(output, PollFlags::OUT)];
    poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
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
        let line = format!("{time:.3} {} {}", word(*event.metadata().level()), line.text.trim());
        self.tell(line);
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
    fn a_pipe_that_nobody_reads_has_no_room_before_a_line_would_wait() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let mut written = 0;
        while has_room(&writer) {
            // Would fail if it had to wait.
            assert_eq!(rustix::io::write(&writer, &[b'x'; MOST_LINE + 90]).unwrap(), MOST_LINE + 90);
            written += 1;
        }
        assert!(written > 0);
        drop(reader);
        assert!(has_room(&writer), "an error need not be waited for");
    }

    #[test]
    fn off_is_off() {
        assert_eq!(most(LogLevel::Off), LevelFilter::OFF);
        assert_eq!(most(LogLevel::Info), LevelFilter::INFO);
    }
}
