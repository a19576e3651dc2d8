//! The mode of a file in letters, as Go's `fs.FileMode` prints it: the protocol was first served by a Go program.

use rustix::fs::FileType;

/// File type and permission bits in letters: `-rw-r--r--`, `drwxr-xr-x`, `Lrwxrwxrwx`, `dtrwxrwxrwx`.
pub(super) fn mode_string(mode: u32) -> String {
    let kind = match FileType::from_raw_mode(mode) {
        FileType::Directory => "d",
        FileType::Symlink => "L",
        FileType::BlockDevice => "D",
        FileType::CharacterDevice => "Dc",
        FileType::Fifo => "p",
        FileType::Socket => "S",
        _ => "",
    };
    let mut text = String::from(kind);
    for (bit, letter) in [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')] {
        if mode & bit != 0 {
            text.push(letter);
        }
    }
    // Go orders its letters with the `c` of a device behind `u` and `g`; no real file has both.
    if text.is_empty() {
        text.push('-');
    }
    for (index, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if mode & (0o400 >> index) != 0 { letter } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::mode_string;

    #[test]
    fn modes_are_written_as_go_writes_them() {
        for (mode, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o041_777, "dtrwxrwxrwx"),
            (0o120_777, "Lrwxrwxrwx"),
            (0o010_400, "pr--------"),
            (0o104_755, "urwxr-xr-x"),
            (0o020_600, "Dcrw-------"),
        ] {
            assert_eq!(mode_string(mode), text, "{mode:o}");
        }
    }
}
