//! Local files. Calls are short; long reads and hashes run on blocking threads. Names come from a target that may be
//! hostile: below the destination, nothing is written through a symbolic link.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::endpoint::{FileAttributes, FileKind, FileMeta, ListedEntry};
use super::error::CopyError;
use super::hash::{HashKind, RunningHash, add_first};
use super::names;

/// The permission bits of a mode.
const PERMISSIONS: u32 = 0o777;
/// The mode of a file whose source reports none.
const DEFAULT_MODE: u32 = 0o644;

/// Bytes given to the kernel at a time. For a longer write it allocates pages of that size, which take several times longer
/// in a virtual machine whose free memory was returned to the host.
pub(super) const WRITE_CHUNK: usize = 64 * 1024;
/// The flags of an opened directory.
const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The metadata of a path, without following symbolic links.
pub(super) fn stat(path: &str) -> Result<Option<FileMeta>, CopyError> {
    describe(path, fs::symlink_metadata(path))
}

/// The metadata of a path, following symbolic links.
pub(super) fn follow(path: &str) -> Result<Option<FileMeta>, CopyError> {
    describe(path, fs::metadata(path))
}

fn describe(path: &str, found: io::Result<Metadata>) -> Result<Option<FileMeta>, CopyError> {
    match found {
        Ok(found) => Ok(Some(meta(&found))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CopyError::local("stat", path)(error)),
    }
}

fn meta(found: &Metadata) -> FileMeta {
    let kind = match found.file_type() {
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_dir() => FileKind::Dir,
        kind if kind.is_symlink() => FileKind::Link,
        _ => FileKind::Other,
    };
    let mtime = found.mtime().checked_mul(1000).map(|whole| whole + found.mtime_nsec() / 1_000_000);
    let attributes = FileAttributes { mode: Some(found.mode() & PERMISSIONS), mtime };
    FileMeta { kind, size: found.len(), attributes }
}

/// Lists a directory. The protocol sends names as text, so a name that is not UTF-8 is an error.
pub(super) fn list(path: &str) -> Result<Vec<Result<ListedEntry, CopyError>>, CopyError> {
    let cannot = || CopyError::local("list", path);
    let mut all = Vec::new();
    for entry in fs::read_dir(if path.is_empty() { "." } else { path }).map_err(cannot())? {
        let entry = entry.map_err(cannot())?;
        let name = match entry.file_name().into_string() {
            Ok(name) => name,
            Err(odd) => {
                let odd = names::join(path, &odd.to_string_lossy());
                let error = CopyError::file(format!("cannot copy {odd}: its name is not UTF-8"));
                all.push(Err(error.hint("rename the file")));
                continue;
            }
        };
        match entry.metadata() {
            Ok(found) => all.push(Ok(ListedEntry { name, meta: meta(&found) })),
            // Removed since the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => all.push(Err(CopyError::local("stat", &names::join(path, &name))(error))),
        }
    }
    Ok(all)
}

/// An open source file with its metadata at the time of opening.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) file: File,
    pub(super) path: String,
    before: Metadata,
}

impl SourceFile {
    pub(super) fn open(path: &str) -> Result<SourceFile, CopyError> {
        let cannot = || CopyError::local("read", path);
        let file = File::open(path).map_err(cannot())?;
        let before = file.metadata().map_err(cannot())?;
        Ok(SourceFile { file, path: path.to_owned(), before })
    }

    pub(super) fn meta(&self) -> FileMeta {
        meta(&self.before)
    }

    /// Fails if the file has changed since it was opened, because the copy may mix two versions.
    pub(super) fn check(&self) -> Result<(), CopyError> {
        let after = self.file.metadata().map_err(CopyError::local("read", &self.path))?;
        let print = |found: &Metadata| (found.len(), found.mtime(), found.mtime_nsec());
        match print(&self.before) == print(&after) {
            true => Ok(()),
            false => Err(changed(&self.path)),
        }
    }
}

/// The error for a source that changed during the copy.
pub(super) fn changed(path: &str) -> CopyError {
    CopyError::file(format!("cannot copy {path}: it changed during the copy"))
        .hint("copy it again when no program writes to it")
}

/// Reads a whole file, which must not change meanwhile.
pub(super) fn read_whole(path: &str) -> Result<(Vec<u8>, FileMeta), CopyError> {
    let source = SourceFile::open(path)?;
    let meta = source.meta();
    let mut bytes = Vec::with_capacity(usize::try_from(meta.size).unwrap_or(0) + 1);
    (&source.file).read_to_end(&mut bytes).map_err(CopyError::local("read", path))?;
    source.check()?;
    match bytes.len() as u64 == meta.size {
        true => Ok((bytes, meta)),
        false => Err(changed(path)),
    }
}

/// Creates a directory and its parents, and returns its path without symbolic links. Paths below the result are
/// written with [`open_dir`], which follows none.
pub(super) fn make_destination(path: &str) -> Result<String, CopyError> {
    let cannot = || CopyError::local("make", path);
    let path = if path.is_empty() { "." } else { path };
    fs::create_dir_all(path).map_err(cannot())?;
    let real = fs::canonicalize(path).map_err(cannot())?;
    real.to_str().map(str::to_owned).ok_or_else(|| {
        CopyError::file(format!("cannot copy to {}: its name is not UTF-8", real.display()))
            .hint("copy to another directory")
    })
}

/// Opens a directory of the destination. A symbolic link in the path is an error: it was created since the path was
/// resolved, or it lies inside the destination, and files written through it would land elsewhere.
fn open_dir(path: &str, create: bool) -> io::Result<OwnedFd> {
    if path.split('/').any(|name| name == "..") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "`..` in the path of a destination"));
    }
    let whole = if path.is_empty() { "." } else { path };
    match openat2(CWD, whole, DIRECTORY, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(dir) => Ok(dir),
        // One name after the other: creates what is missing, names what is wrong, and needs no `openat2`.
        Err(_) => walk_to_dir(path, create),
    }
}

/// Opens one name after the other. `path` has no `..`, which [`open_dir`] refuses: the kernel would follow it.
fn walk_to_dir(path: &str, create: bool) -> io::Result<OwnedFd> {
    let open = |dir: BorrowedFd<'_>, name: &str| openat(dir, name, DIRECTORY, Mode::empty());
    let mut dir = open(CWD, if path.starts_with('/') { "/" } else { "." })?;
    for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
        dir = match open(dir.as_fd(), name) {
            Err(Errno::NOENT) if create => {
                match mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                open(dir.as_fd(), name)?
            }
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let what = format!("`{name}` in its path is a symbolic link or a file");
                return Err(io::Error::new(io::ErrorKind::NotADirectory, what));
            }
            opened => opened?,
        };
    }
    Ok(dir)
}

/// A file of the destination: its open directory and its name there.
struct DestinationFile<'a> {
    dir: OwnedFd,
    name: &'a str,
}

impl DestinationFile<'_> {
    fn at(path: &str, create_parents: bool) -> io::Result<DestinationFile<'_>> {
        let name = names::last(path).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(DestinationFile { dir: open_dir(names::parent(path), create_parents)?, name })
    }
}

/// Writes a whole file atomically; a failure leaves nothing behind.
pub(super) fn put(path: &str, bytes: &[u8], attributes: FileAttributes) -> Result<(), CopyError> {
    let part = names::part(path);
    let put = || {
        let target = DestinationFile::at(path, true)?;
        let part = names::last(&part).ok_or(io::ErrorKind::InvalidInput)?;
        let mut file = create_in(&target.dir, part)?;
        let written = bytes.chunks(WRITE_CHUNK).try_for_each(|chunk| file.write_all(chunk));
        let done = written.and_then(|()| commit_in(&target, &file, part, attributes));
        if done.is_err() {
            // The first error is the one to report.
            unlinkat(&target.dir, part, AtFlags::empty()).ok();
        }
        done
    };
    put().map_err(CopyError::local("write", path))
}

/// The text of a symbolic link, which the protocol sends as text.
pub(super) fn read_link(path: &str) -> Result<String, CopyError> {
    let text = fs::read_link(path).map_err(CopyError::local("read", path))?;
    text.into_os_string().into_string().map_err(|_odd| {
        CopyError::file(format!("cannot copy {path}: the link leads to a name that is not UTF-8"))
            .hint("--follow copies the file it leads to")
    })
}

/// Creates a symbolic link under a temporary name and renames it, so that a file or link that exists is replaced.
pub(super) fn put_link(path: &str, text: &str) -> Result<(), CopyError> {
    let part = names::part(path);
    let put = || -> io::Result<()> {
        let DestinationFile { dir, name } = DestinationFile::at(&part, true)?;
        match unlinkat(&dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        symlinkat(text, &dir, name)?;
        let to = DestinationFile::at(path, false)?;
        renameat(&dir, name, &to.dir, to.name).map_err(io::Error::from)
    };
    put().map_err(CopyError::local("write", path))
}

/// Removes a directory of the destination and its contents. Symbolic links in it are removed, not followed.
pub(super) fn remove_tree(path: &str) -> Result<(), CopyError> {
    let remove = || {
        let DestinationFile { dir, name } = DestinationFile::at(path, false)?;
        fs::remove_dir_all(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
    };
    remove().map_err(CopyError::local("remove", path))
}

/// The flags of a partial file.
const PART: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a partial file, new or to continue. It is private until it has its final mode.
pub(super) fn open_part(part: &str, anew: bool) -> io::Result<File> {
    let DestinationFile { dir, name } = DestinationFile::at(part, true)?;
    match anew {
        true => create_in(&dir, name),
        false => Ok(File::from(openat(&dir, name, PART, Mode::empty())?)),
    }
}

/// Creates a partial file, in the place of one that an earlier copy left.
fn create_in(dir: &OwnedFd, name: &str) -> io::Result<File> {
    let create = || openat(dir, name, PART | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o600));
    let created = match create() {
        Err(Errno::EXIST) => match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => create(),
            Err(error) => Err(error),
        },
        created => created,
    };
    Ok(File::from(created?))
}

/// Sets the attributes of a complete partial file, which is beside its target, and renames it. A symbolic link of that name is
/// replaced, not followed.
pub(super) fn commit(
    file: &File,
    (part, target): (&str, &str),
    attributes: FileAttributes,
) -> Result<(), CopyError> {
    let commit = || {
        let part = names::last(part).ok_or(io::ErrorKind::InvalidInput)?;
        commit_in(&DestinationFile::at(target, false)?, file, part, attributes)
    };
    commit().map_err(CopyError::local("write", target))
}

fn commit_in(
    target: &DestinationFile<'_>,
    file: &File,
    part: &str,
    attributes: FileAttributes,
) -> io::Result<()> {
    let mode = attributes.mode.unwrap_or(DEFAULT_MODE);
    apply(file, FileAttributes { mode: Some(mode), ..attributes })?;
    Ok(renameat(&target.dir, part, &target.dir, target.name)?)
}

/// Creates a directory and its parents below the destination, and sets its mode.
pub(super) fn mkdir(path: &str, mode: Option<u32>) -> Result<(), CopyError> {
    open_dir(path, true).map_err(CopyError::local("make", path))?;
    match mode {
        Some(_) => set_attributes(path, FileAttributes { mode, mtime: None }),
        None => Ok(()),
    }
}

/// Sets the attributes of a file.
pub(super) fn set_attributes(path: &str, attributes: FileAttributes) -> Result<(), CopyError> {
    let set = || {
        let DestinationFile { dir, name } = DestinationFile::at(path, false)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        apply(&File::from(openat(&dir, name, flags, Mode::empty())?), attributes)
    };
    set().map_err(CopyError::local("write", path))
}

fn apply(file: &File, attributes: FileAttributes) -> io::Result<()> {
    if let Some(mode) = attributes.mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    let distance = |ms: i64| Duration::from_millis(ms.unsigned_abs());
    let time = attributes.mtime.and_then(|ms| match ms >= 0 {
        true => SystemTime::UNIX_EPOCH.checked_add(distance(ms)),
        false => SystemTime::UNIX_EPOCH.checked_sub(distance(ms)),
    });
    match time {
        Some(time) => file.set_modified(time),
        None => Ok(()),
    }
}

/// Removes a file if it exists.
pub(super) fn remove(path: &str) -> Result<(), CopyError> {
    let remove = || {
        let DestinationFile { dir, name } = DestinationFile::at(path, false)?;
        unlinkat(&dir, name, AtFlags::empty()).map_err(io::Error::from)
    };
    match remove() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(CopyError::local("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Whether a symbolic link points to one of its parent directories.
pub(super) fn is_cyclic_link(link: &str) -> bool {
    let parent = names::parent(link);
    let parent = Path::new(if parent.is_empty() { "." } else { parent });
    match (fs::canonicalize(link), fs::canonicalize(parent)) {
        (Ok(leads), Ok(lies)) => lies.starts_with(leads),
        _ => false,
    }
}

/// The SHA-256 of a whole file, and its attributes.
pub(super) fn hash(path: &str) -> Result<(String, FileAttributes), CopyError> {
    let source = SourceFile::open(path)?;
    let meta = source.meta();
    let mut hash = RunningHash::new(HashKind::Sha256);
    let is_whole =
        add_first(&source.file, meta.size, &mut [&mut hash]).map_err(CopyError::local("read", path))?;
    match is_whole {
        true => Ok((hash.text(), meta.attributes)),
        false => Err(changed(path)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_anywhere_in_the_path_of_a_destination_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("real/e")).unwrap();
        symlink("real", top.join("link")).unwrap();
        let path = |name: &str| top.join(name).to_str().unwrap().to_owned();
        for name in ["link", "link/e", "link/new"] {
            // The second is the way of a kernel without `openat2`.
            for opened in [open_dir(&path(name), true), walk_to_dir(&path(name), true)] {
                let error = opened.expect_err(name);
                assert!(error.to_string().contains("symbolic link"), "{name}: {error}");
            }
        }
        assert!(!top.join("real/new").exists());
        assert!(open_dir(&path("real/../real"), true).is_err());
        for name in ["real/e", "real/made/below"] {
            assert!(open_dir(&path(name), true).is_ok() && walk_to_dir(&path(name), true).is_ok(), "{name}");
        }
    }
}
