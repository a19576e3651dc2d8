//! Lists the names in a directory, or in all directories below it.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType};

use super::guard::EntryFilter;
use super::path::RootedPath;
use super::refused;
use super::scan::ScanBudget;
use super::stat::{FileKind, mtime_ms};
use super::walk::{DirNames, DirReader, MAX_DEPTH, open_child};
use crate::Error;

/// The number of entries between two checks of the deadline.
const CHECK_EVERY: usize = 1024;

/// Which entries a listing contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListOptions {
    /// Whether to list subdirectories; symlinks are listed, not followed.
    pub recursive: bool,
    /// Whether to return only names and kinds, which is much faster, because no file is accessed.
    pub names_only: bool,
    /// Limit on the number of entries.
    pub max_entries: Option<usize>,
}

/// One entry of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its absolute path, as a continuation of the listed path.
    pub path: PathBuf,
    /// Its kind.
    pub kind: FileKind,
    /// Size of a file or symlink; `None` for directories, or if only names were requested.
    pub size: Option<u64>,
    /// Modification time in milliseconds since the epoch; `None` if only names were requested.
    pub mtime_ms: Option<i64>,
}

impl DirEntry {
    /// The last part of the path.
    pub fn name(&self) -> &OsStr {
        let bytes = self.path.as_os_str().as_bytes();
        let start = memchr::memrchr(b'/', bytes).map_or(0, |slash| slash + 1);
        OsStr::from_bytes(&bytes[start..])
    }
}

/// The entries of a directory, possibly truncated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Sorted bytewise by name; the entries of a directory follow it.
    pub entries: Vec<DirEntry>,
    /// Whether there are more entries.
    pub truncated: bool,
}

/// Lists a directory. A subdirectory that cannot be read is listed without its entries; denied names are omitted.
pub fn list(path: &RootedPath, options: ListOptions, scan: &ScanBudget) -> Result<Listing, Error> {
    scan.check("list")?;
    let top = path.open_listing()?;
    let mut reader = DirReader::new();
    let names = reader.names(&top).map_err(refused("list", path.as_path()))?;
    let mut text = path.as_path().as_os_str().as_bytes().to_vec();
    if text.last() != Some(&b'/') {
        text.push(b'/');
    }
    let filter = EntryFilter::new(path.roots(), &top);
    let mut levels = vec![Level { dir: top, filter, names, next: 0, prefix: text.len() }];
    let mut listing = Listing::default();
    while let Some(level) = levels.last_mut() {
        text.truncate(level.prefix);
        let Some((name, kind)) = level.names.get(level.next) else {
            levels.pop();
            continue;
        };
        level.next += 1;
        if !level.filter.allows(OsStr::from_bytes(name)) {
            continue;
        }
        if options.max_entries.is_some_and(|most| listing.entries.len() >= most) {
            listing.truncated = true;
            break;
        }
        if listing.entries.len() % CHECK_EVERY == 0 {
            scan.check("list")?;
        }
        text.extend_from_slice(name);
        let below =
            if options.recursive && kind == FileKind::Dir { open_child(&level.dir, name).ok() } else { None };
        if let Some(entry) = entry(&level.dir, name, kind, &text, options.names_only) {
            listing.entries.push(entry);
        }
        let Some(dir) = below else { continue };
        if levels.len() >= MAX_DEPTH {
            listing.truncated = true;
        } else if let Ok(names) = reader.names(&dir) {
            text.push(b'/');
            let filter = EntryFilter::new(path.roots(), &dir);
            levels.push(Level { dir, filter, names, next: 0, prefix: text.len() });
        }
    }
    Ok(listing)
}

struct Level<'a> {
    dir: OwnedFd,
    filter: EntryFilter<'a>,
    names: DirNames,
    next: usize,
    /// The length of the path of this directory with its slash.
    prefix: usize,
}

/// The entry of a name; `None` if it was removed since its directory was read.
fn entry(dir: &OwnedFd, name: &[u8], kind: FileKind, path: &[u8], names_only: bool) -> Option<DirEntry> {
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    if names_only {
        return Some(DirEntry { path, kind, size: None, mtime_ms: None });
    }
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let kind = FileKind::from(FileType::from_raw_mode(stat.st_mode));
    let size = (kind != FileKind::Dir).then(|| u64::try_from(stat.st_size).unwrap_or(0));
    Some(DirEntry { path, kind, size, mtime_ms: Some(mtime_ms(&stat)) })
}
