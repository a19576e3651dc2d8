//! The end of a log file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The last lines of a file.
pub(super) struct LogTail {
    pub(super) text: String,
    /// Whether the file has more bytes than were allowed.
    pub(super) is_cut: bool,
}

/// Reads the last `lines` within the last `bytes`. Blocks.
pub(super) fn tail(path: &Path, lines: u64, bytes: u64) -> io::Result<LogTail> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let start = size.saturating_sub(bytes);
    let mut text = vec![0; usize::try_from(size - start).unwrap_or(0)];
    file.read_exact_at(&mut text, start)?;
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    // The newline at the very end ends the last line.
    let body = text.strip_suffix(b"\n").unwrap_or(&text);
    let breaks: Vec<usize> =
        body.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let from = match breaks.len().checked_sub(lines) {
        Some(skipped) => breaks.get(skipped).copied().unwrap_or(0),
        // A line that the limit has cut is left out, unless it is the only one.
        None if start > 0 => breaks.first().copied().unwrap_or(0),
        None => 0,
    };
    let text = String::from_utf8_lossy(text.get(from..).unwrap_or_default()).into_owned();
    Ok(LogTail { text, is_cut: start > 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_read_within_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let read = |lines, bytes| tail(&path, lines, bytes).map(|tail| (tail.text, tail.is_cut)).unwrap();
        assert_eq!(read(2, 1000), ("two\nthree\n".to_owned(), false));
        assert_eq!(read(9, 1000), ("one\ntwo\nthree\n".to_owned(), false));
        assert_eq!(read(9, 12), ("two\nthree\n".to_owned(), true));
        assert!(tail(&dir.path().join("none"), 1, 1).is_err());
    }
}
