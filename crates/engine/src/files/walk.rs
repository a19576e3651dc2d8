//! Walks directories by descriptor, for listing, globbing, removing and copying.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::resolve::{LISTING, is_of_process};
use super::stat::FileKind;

/// Limit on the depth: each level has an open directory. Deeper entries are not visited.
pub(super) const MAX_DEPTH: usize = 256;
const BUFFER: usize = 128 * 1024;

/// The names of one directory, in one allocation.
#[derive(Debug, Default)]
pub(super) struct DirNames {
    text: Vec<u8>,
    entries: Vec<Name>,
}

#[derive(Debug, Clone, Copy)]
struct Name {
    start: u32,
    end: u32,
    kind: FileKind,
}

impl DirNames {
    /// Each name with its kind, in the order of the directory.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], FileKind)> {
        self.entries.iter().map(|name| (self.bytes(*name), name.kind))
    }

    /// The name at a position.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], FileKind)> {
        self.entries.get(index).map(|name| (self.bytes(*name), name.kind))
    }

    fn bytes(&self, name: Name) -> &[u8] {
        &self.text[name.start as usize..name.end as usize]
    }

    fn sort(&mut self) {
        let text = &self.text;
        let bytes = |name: &Name| &text[name.start as usize..name.end as usize];
        self.entries.sort_unstable_by(|a, b| bytes(a).cmp(bytes(b)));
    }
}

/// Reads directories; keeps one buffer for all of them.
pub(super) struct DirReader {
    buffer: Vec<MaybeUninit<u8>>,
}

impl DirReader {
    pub(super) fn new() -> Self {
        Self { buffer: vec![MaybeUninit::uninit(); BUFFER] }
    }

    /// All names of a directory, sorted bytewise, without `.` and `..`.
    pub(super) fn names(&mut self, dir: impl AsFd) -> Result<DirNames, Errno> {
        let mut names = DirNames::default();
        let mut entries = RawDir::new(dir.as_fd(), &mut self.buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                // The directory was removed while it was read.
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(errno),
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(dir.as_fd(), name),
                known => known.into(),
            };
            let start = names.text.len() as u32;
            names.text.extend_from_slice(name);
            names.entries.push(Name { start, end: names.text.len() as u32, kind });
        }
        names.sort();
        Ok(names)
    }
}

/// Opens a directory by its name in another, for listing; a symlink is not followed.
pub(super) fn open_child(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let child = rustix::fs::openat(dir, name, LISTING | OFlags::NOFOLLOW, Mode::empty())?;
    if is_of_process(&child)? { Err(Errno::ACCESS) } else { Ok(child) }
}

/// The kind of a name, for file systems whose directory entries do not contain it.
fn kind_of(dir: BorrowedFd<'_>, name: &[u8]) -> FileKind {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode).into(),
        Err(_) => FileKind::Other,
    }
}
