//! The daemon's log: one line per event on stderr, because stdout carries the protocol.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes events of this level and above to stderr.
pub fn to_stderr(max_level: LevelFilter) {
    // A second call fails because a subscriber is installed; that one is kept.
    let _set = tracing::subscriber::set_global_default(StderrLog { max_level, lost: AtomicU64::new(0) });
}

/// Writes every line to this file too. When the file is full, it is renamed, and a new one begins.
pub fn also_to_file(path: &Path) -> io::Result<()> {
    let file = LogFile::open(path)?;
    // A second file is not used: a daemon has one log.
    FILE.set(Mutex::new(file)).ok();
    Ok(())
}

/// The log file, if there is one.
static FILE: OnceLock<Mutex<LogFile>> = OnceLock::new();
/// The size of a log file; then it becomes the previous one, and the one before is deleted.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// A log file that only its owner can read.
struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<LogFile> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(LogFile { path: path.to_owned(), bytes: file.metadata()?.len(), file })
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.bytes > MAX_FILE_BYTES {
            let mut previous = self.path.clone().into_os_string();
            previous.push(".1");
            std::fs::rename(&self.path, previous)?;
            *self = LogFile::open(&self.path)?;
        }
        self.bytes += line.len() as u64;
        self.file.write_all(line.as_bytes())
    }
}

/// The maximal length of a line. A pipe that polls as writable accepts this much without blocking.
const MAX_LINE_BYTES: usize = 4_000;

/// A subscriber that writes events and ignores spans.
struct StderrLog {
    max_level: LevelFilter,
    /// Lines dropped since the last one that was written.
    lost: AtomicU64,
}

impl StderrLog {
    /// Writes one line if that does not block; otherwise drops and counts it. A client that can cause log lines must
    /// not be able to stop the daemon while nothing reads stderr. The next line that is written reports the count.
    fn write_line(&self, mut line: String) {
        if let Some(file) = FILE.get() {
            // An unwritable log must not stop the daemon.
            let _written = file.lock().unwrap_or_else(PoisonError::into_inner).write(&format!("{line}\n"));
        }
        let stderr = std::io::stderr();
        if !is_writable(&stderr) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        line.truncate(line.floor_char_boundary(MAX_LINE_BYTES));
        match self.lost.swap(0, Ordering::Relaxed) {
            0 => line.push('\n'),
            lost => line.push_str(&format!(" ({lost} lines dropped before this one)\n")),
        }
        // An unwritable log must not stop the daemon.
        let _written = stderr.lock().write_all(line.as_bytes());
    }
}

/// Whether a line can be written without blocking.
fn is_writable(output: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(output, PollFlags::OUT)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

impl Subscriber for StderrLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.max_level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.max_level)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line { text: String::new() };
        event.record(&mut line);
        let time = jiff::Timestamp::now();
        let level = LevelFilter::from_level(*event.metadata().level());
        self.write_line(format!("{time:.3} {level} {}", line.text.trim()));
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// Formats an event: the message, then the other fields as `name=value`.
struct Line {
    text: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
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
    fn a_full_log_file_becomes_the_previous_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = LogFile::open(&path).unwrap();
        log.write("first\n").unwrap();
        log.bytes = MAX_FILE_BYTES + 1;
        log.write("second\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second\n");
        assert_eq!(std::fs::read_to_string(dir.path().join("log.1")).unwrap(), "first\n");
    }

    #[test]
    fn a_full_pipe_is_not_writable_before_a_line_would_block() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let mut written = 0;
        while is_writable(&writer) {
            // Fails instead of blocking.
            assert_eq!(
                rustix::io::write(&writer, &[b'x'; MAX_LINE_BYTES + 90]).unwrap(),
                MAX_LINE_BYTES + 90
            );
            written += 1;
        }
        assert!(written > 0);
        drop(reader);
        assert!(is_writable(&writer), "a write that fails does not block");
    }
}
