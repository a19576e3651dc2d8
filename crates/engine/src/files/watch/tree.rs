//! Finds the directories of a recursive watch, descriptor by descriptor, without following symlinks.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::files::resolve::LISTING;
use crate::files::stat::FileKind;
use crate::files::walk::{DirNames, DirReader, MAX_DEPTH, open_child};

struct Level {
    directory: OwnedFd,
    names: DirNames,
    next: usize,
}

/// Calls `add` with the directory at `below` and every directory beneath it, before its names are read, and `found` with
/// each entry. A directory that disappears or cannot be read is skipped. False if some are too deep.
pub(super) fn walk(
    top: &OwnedFd,
    below: &Path,
    add: impl Fn(&OwnedFd, &Path) -> Result<(), Errno>,
    found: impl Fn(&Path),
) -> Result<bool, Errno> {
    let mut reader = DirReader::new();
    let mut enter = |directory: OwnedFd, below: &Path| {
        add(&directory, below)?;
        Ok::<_, Errno>(Level { names: reader.names(&directory)?, directory, next: 0 })
    };
    let mut below = below.to_owned();
    let start = match open_below(top, &below) {
        Err(errno) if is_skipped(errno) && !below.as_os_str().is_empty() => return Ok(true),
        opened => opened?,
    };
    let mut levels = vec![enter(start, &below)?];
    let mut is_complete = true;
    while let Some(level) = levels.last_mut() {
        let Some((name, kind)) = level.names.get(level.next) else {
            levels.pop();
            below.pop();
            continue;
        };
        level.next += 1;
        below.push(OsStr::from_bytes(name));
        found(&below);
        let deeper = match kind {
            FileKind::Dir => open_child(&level.directory, name).and_then(|child| enter(child, &below)),
            _ => Err(Errno::NOTDIR),
        };
        match deeper {
            Ok(_) if levels.len() >= MAX_DEPTH => is_complete = false,
            Ok(deeper) => {
                levels.push(deeper);
                continue;
            }
            Err(errno) if is_skipped(errno) => {}
            Err(errno) => return Err(errno),
        }
        below.pop();
    }
    Ok(is_complete)
}

/// Opens a directory below another one, for listing; a symlink on the way is not followed.
fn open_below(top: &OwnedFd, below: &Path) -> Result<OwnedFd, Errno> {
    let mut directory = rustix::fs::openat(top, ".", LISTING, Mode::empty())?;
    for name in &PathBuf::from(below) {
        directory = open_child(&directory, name.as_bytes())?;
    }
    Ok(directory)
}

/// It is no directory any more, or not ours to read.
fn is_skipped(errno: Errno) -> bool {
    matches!(errno, Errno::NOTDIR | Errno::LOOP | Errno::NOENT | Errno::ACCESS | Errno::PERM)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use rustix::fs::{CWD, fstat};

    use super::*;

    /// ARCHITECTURE.md, invariant 17.
    #[test]
    fn a_directory_that_is_swapped_for_a_symlink_after_it_was_listed_is_not_watched() {
        let directory = tempfile::tempdir().unwrap();
        let (root, outside) = (directory.path().join("root"), directory.path().join("outside"));
        fs::create_dir_all(root.join("swapped/deeper")).unwrap();
        fs::create_dir_all(root.join("kept")).unwrap();
        fs::create_dir_all(outside.join("deeper")).unwrap();
        let top = rustix::fs::openat(CWD, &root, LISTING, Mode::empty()).unwrap();
        let watched = RefCell::new(Vec::new());
        let add = |object: &OwnedFd, below: &Path| {
            watched.borrow_mut().push((below.to_owned(), fstat(object)?.st_ino));
            Ok(())
        };
        let swap = |below: &Path| {
            if below == Path::new("swapped") {
                fs::rename(root.join("swapped"), root.join("away")).unwrap();
                symlink(&outside, root.join("swapped")).unwrap();
            }
        };
        assert!(walk(&top, Path::new(""), add, swap).unwrap());
        let numbers = [&outside, &outside.join("deeper")].map(|path| fs::metadata(path).unwrap().ino());
        let watched = watched.into_inner();
        assert!(watched.iter().all(|(_, number)| !numbers.contains(number)), "{watched:?}");
        assert_eq!(
            watched.iter().map(|(below, _)| below.as_path()).collect::<Vec<_>>(),
            [Path::new(""), Path::new("kept")]
        );
        // A directory that appears below the symlink is not opened through it either.
        assert!(matches!(open_below(&top, Path::new("swapped/deeper")), Err(Errno::LOOP | Errno::NOTDIR)));
        let nothing = |_: &OwnedFd, below: &Path| panic!("{below:?} is watched");
        assert!(walk(&top, Path::new("swapped/deeper"), nothing, |_| {}).unwrap());
    }
}
