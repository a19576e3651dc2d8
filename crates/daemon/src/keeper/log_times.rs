//! Finds the output of a detached process by its time, in the marks of its log.

use std::path::Path;
use std::time::SystemTime;

use super::segments::{self, MARK_SPACING, TIME_STREAM, milliseconds};

/// The position of the first output since `time`, or of output that is at most [`MARK_SPACING`] older; the largest cursor if
/// there is none. 0 if output since then was removed. A segment of an older keeper has no marks and counts as a whole.
pub(super) fn since(log: &Path, time: SystemTime) -> u64 {
    let segments = segments::list(log);
    // A segment is changed for the last time by its last output.
    let Some(index) = segments.iter().position(|segment| segment.changed >= time) else { return u64::MAX };
    let Some(segment) = segments.get(index) else { return u64::MAX };
    let text = std::fs::read(&segment.path).unwrap_or_default();
    let from = milliseconds(time.checked_sub(MARK_SPACING).unwrap_or(SystemTime::UNIX_EPOCH));
    let first = marks(&text).next();
    match marks(&text).find(|(written, _)| *written > from) {
        // Everything that is kept is newer, and older output was removed.
        Some(found) if index == 0 && segment.first > 0 && Some(found) == first => 0,
        Some((_, start)) => start,
        None => segment.first,
    }
}

/// The times in a segment, with the cursors of the output behind them.
fn marks(mut text: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        loop {
            let (start, rest) = text.split_first_chunk::<8>()?;
            let (stream, rest) = rest.split_first()?;
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let (bytes, next) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
            text = next;
            if let (&TIME_STREAM, Ok(time)) = (stream, <[u8; 8]>::try_from(bytes)) {
                return Some((u64::from_le_bytes(time), u64::from_le_bytes(*start)));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use engine::process::Stream;

    use super::super::quota::Quota;
    use super::super::segments::SegmentWriter;
    use super::*;

    #[test]
    fn output_is_found_by_the_time_at_which_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let quota = Quota { keepers: dir.path().join("none"), bytes: u64::MAX };
        let life = File::create(dir.path().join("life")).unwrap();
        let mut writer = SegmentWriter::new(dir.path().to_owned(), life, u64::MAX, quota);
        let first = SystemTime::now();
        writer.append_at(first, 0, Stream::Stdout, b"old");
        writer.append_at(first + Duration::from_millis(300), 3, Stream::Stderr, b"soon");
        writer.append_at(first + Duration::from_secs(60), 7, Stream::Stdout, b"new");
        // Output of the future is in a file of the present.
        let path = &segments::list(dir.path())[0].path;
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(first + Duration::from_secs(60)).unwrap();
        let at = |seconds: u64| since(dir.path(), first + Duration::from_secs(seconds));
        assert_eq!((at(0), at(2), at(59), at(60), at(61)), (0, 7, 7, 7, u64::MAX));
        assert_eq!(since(&dir.path().join("none"), first), u64::MAX);
    }

    #[test]
    fn a_segment_without_marks_counts_as_a_whole_and_removed_output_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let hour = Duration::from_secs(3600);
        std::fs::write(dir.path().join("00000000000000000050.seg"), b"").unwrap();
        assert_eq!(since(dir.path(), SystemTime::now() - hour), 50);
        let quota = Quota { keepers: dir.path().join("none"), bytes: u64::MAX };
        let life = File::create(dir.path().join("life")).unwrap();
        let mut writer = SegmentWriter::new(dir.path().to_owned(), life, u64::MAX, quota);
        writer.append(50, Stream::Stdout, b"kept");
        assert_eq!(since(dir.path(), SystemTime::now() - hour), 0, "the first 50 bytes may be newer");
    }
}
