//! Private temporary directories of confined processes: one per session or detached process, removed with it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

use engine::process::is_reaped;
use engine::sandbox::Confinement;
use engine::session::random_name;

use crate::core::state::{check_private_dir, create_private_dir, own_name, private_dir_builder};

/// Prefix of the names of directories that outlive the daemon.
const DETACHED_PREFIX: &str = "detached.";

/// A temporary directory, created when the first confined process needs it.
#[derive(Debug, Clone)]
pub struct SandboxTempDir {
    path: PathBuf,
}

impl SandboxTempDir {
    /// A directory with a random name that belongs to this daemon.
    pub fn new() -> Result<SandboxTempDir, engine::Error> {
        let name = format!("{}.{}", own_name(), random_name()?);
        Ok(SandboxTempDir { path: dir()?.join(name) })
    }

    /// A directory that outlives this daemon.
    pub fn for_detached() -> Result<SandboxTempDir, engine::Error> {
        Ok(SandboxTempDir { path: dir()?.join(format!("{DETACHED_PREFIX}{}", random_name()?)) })
    }

    /// The path, whether or not the directory exists yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory. The first call also removes directories of daemons that have ended.
    pub fn make(&self) -> io::Result<()> {
        static CLEANUP: Once = Once::new();
        // A cleaner of `/tmp` can have removed it.
        let dir = self.path.parent().unwrap_or(&self.path);
        create_private_dir(dir)?;
        CLEANUP.call_once(|| remove_stale(dir));
        match private_dir_builder().create(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

/// Removes a temporary directory and its contents. What cannot be removed is left to the cleaner of `/tmp`.
pub fn remove_temp_dir(path: &Path) {
    // The path can come from a keeper's job: remove only below a directory of ours. A keeper has no `TMPDIR`, so only
    // the name of the parent is compared.
    if path.parent().is_some_and(|parent| is_named(parent) && check_private_dir(parent).is_ok()) {
        let _removed = std::fs::remove_dir_all(path);
    }
}

/// The temporary directory of a detached process, found among the writable paths of its confinement.
pub fn detached_temp_dir(confinement: &Confinement) -> Option<&Path> {
    let base = base();
    let is_own_parent = |parent: &Path| is_named(parent) && parent.parent() == Some(&base);
    let is_detached = |path: &&Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        path.parent().is_some_and(is_own_parent) && name.is_some_and(|name| name.starts_with(DETACHED_PREFIX))
    };
    let writable = confinement.layers().iter().flat_map(|layer| &layer.write);
    writable.map(PathBuf::as_path).find(is_detached)
}

/// The parent of all temporary directories, below `TMPDIR` or `/tmp`. It is created here, because another user can take its
/// name first; then a random name is used, and later daemons find that directory again.
fn dir() -> Result<PathBuf, engine::Error> {
    let base = base();
    let first = base.join(dir_name());
    if create_private_dir(&first).is_ok() {
        return Ok(first);
    }
    let entries = std::fs::read_dir(&base).into_iter().flatten().flatten().map(|entry| entry.path());
    let own = entries.filter(|path| is_named(path) && check_private_dir(path).is_ok()).min();
    match own {
        Some(own) => Ok(own),
        // If it cannot be created either, the error is that of the first command that needs it.
        None => {
            let other = base.join(format!("{}.{}", dir_name(), random_name()?));
            let _created = private_dir_builder().create(&other);
            Ok(other)
        }
    }
}

/// The directory for temporary files, with symbolic links resolved.
fn base() -> PathBuf {
    let base = std::env::temp_dir();
    base.canonicalize().unwrap_or(base)
}

fn dir_name() -> String {
    format!("rexd-{}", rustix::process::geteuid().as_raw())
}

/// Whether a directory has the name of a parent of temporary directories of this user.
fn is_named(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(&dir_name()));
    name.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn remove_stale(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let mut parts = name.to_str().unwrap_or_default().splitn(3, '.');
        let (pid, started) = (parts.next().map(str::parse), parts.next().map(str::parse));
        if let (Some(Ok(pid)), Some(Ok(started))) = (pid, started)
            && is_reaped(pid, started)
        {
            remove_temp_dir(&entry.path());
        }
    }
}
