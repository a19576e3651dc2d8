//! The protocol's own log: one line per event in a file that is renamed once it is large, and on the standard streams.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::users::now;
use crate::core::state::private_dir_builder;

/// Bytes of the file; then it is renamed, and an earlier renamed one is dropped.
const MAX_LOG_BYTES: u64 = 10 * 1024 * 1024;

/// Bytes that a pipe accepts at once.
const PIPE_BUF: usize = 4096;

/// The log of stringd.
#[derive(Debug)]
pub struct StringdLog {
    path: PathBuf,
    file: Mutex<(File, u64)>,
}

impl StringdLog {
    /// Opens `logs/stringd.log` below the data directory. Blocks.
    pub fn open(data_dir: &Path) -> io::Result<StringdLog> {
        let dir = data_dir.join("logs");
        private_dir_builder().recursive(true).create(&dir)?;
        let path = dir.join("stringd.log");
        let file = open(&path)?;
        Ok(StringdLog { path, file: Mutex::new(file) })
    }

    /// Writes a line. A failure is ignored: the log must not end a command.
    pub(super) fn write(&self, event: &str, fields: &[(&str, &str)]) {
        let is_error = event == "internal";
        let level = if is_error { "ERROR " } else { "INFO  " };
        let mut line = format!("[{}] {level}{event}", now());
        for (name, value) in fields {
            match value.contains(char::is_whitespace) {
                true => line += &format!(" {name}={value:?}"),
                false => line += &format!(" {name}={value}"),
            }
        }
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.1 >= MAX_LOG_BYTES
            && std::fs::rename(&self.path, self.path.with_extension("log.1")).is_ok()
            && let Ok(next) = open(&self.path)
        {
            *file = next;
        }
        if file.0.write_all(line.as_bytes()).is_ok() {
            file.1 += line.len() as u64;
        }
        match is_error {
            true => print(io::stderr(), line.as_bytes()),
            false => print(io::stdout(), line.as_bytes()),
        }
    }
}

/// Writes to a standard stream without blocking: a pipe that is not read must not stop the daemon. What it does not
/// accept is dropped; the file has it.
fn print(stream: impl AsFd, line: &[u8]) {
    // A pipe that is ready accepts this many bytes.
    for piece in line.chunks(PIPE_BUF) {
        let is_ready = {
            let mut polled = [PollFd::new(&stream, PollFlags::OUT)];
            matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1))
        };
        if !is_ready || rustix::io::write(&stream, piece).is_err() {
            return;
        }
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}
