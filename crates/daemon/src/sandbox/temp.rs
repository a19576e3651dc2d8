//! Temporary directories of those who are confined: private, one per session or detached process, gone with it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;

use engine::sandbox::Confinement;
use engine::session::random_name;

/// What the names of those begin with that outlive the daemon.
const LASTING: &str = "detached.";

/// A directory that is made when it is needed.
#[derive(Debug, Clone)]
pub struct Temp {
    path: PathBuf,
}

impl Temp {
    /// A directory of this daemon that nobody else can guess.
    pub fn new() -> Result<Temp, engine::Error> {
        let name = format!("{}.{}", owner(), random_name()?);
        Ok(Temp { path: folder().join(name) })
    }

    /// A directory that outlives this daemon.
    pub fn lasting() -> Result<Temp, engine::Error> {
        Ok(Temp { path: folder().join(format!("{LASTING}{}", random_name()?)) })
    }

    /// Where it is, or will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it. The first one removes what daemons that are gone have left.
    pub fn make(&self) -> io::Result<()> {
        static SWEPT: Once = Once::new();
        let folder = folder();
        private().recursive(true).create(&folder)?;
        check_own(&folder)?;
        SWEPT.call_once(|| sweep(&folder));
        match private().create(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

/// Removes a directory with everything in it. What cannot be removed is left to whoever cleans `/tmp`.
pub fn remove(path: &Path) {
    // Only what was made here, whatever somebody wrote into a job. A keeper has no environment that says where.
    let is_folder = |parent: &Path| parent.file_name() == Some(name_of_folder().as_ref());
    if path.parent().is_some_and(|parent| is_folder(parent) && check_own(parent).is_ok()) {
        let _removed = std::fs::remove_dir_all(path);
    }
}

/// The directory in a confinement that was made for one detached process.
pub fn lasting(confinement: &Confinement) -> Option<&Path> {
    let folder = folder();
    let is_lasting = |path: &&Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        path.parent() == Some(&folder) && name.is_some_and(|name| name.starts_with(LASTING))
    };
    let writable = confinement.layers().iter().flat_map(|layer| &layer.write);
    writable.map(PathBuf::as_path).find(is_lasting)
}

/// Where they all lie: one folder per user, below where temporary files go.
fn folder() -> PathBuf {
    let base = std::env::temp_dir();
    let base = base.canonicalize().unwrap_or(base);
    base.join(name_of_folder())
}

fn name_of_folder() -> String {
    format!("rexd-{}", rustix::process::geteuid().as_raw())
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Anybody can make a folder of this name first: it is used only if it is ours alone.
fn check_own(folder: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(folder)?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    if is_own && found.is_dir() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let reason = format!("{} must be a folder of this user with mode 0700", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// This process, so that another one with its number is not taken for it.
fn owner() -> String {
    let pid = std::process::id();
    format!("{pid}.{}", crate::approvals::process_start(pid).unwrap_or(0))
}

fn sweep(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let mut parts = name.to_str().unwrap_or_default().splitn(3, '.');
        let (pid, started) = (parts.next().map(str::parse), parts.next().map(str::parse));
        if let (Some(Ok(pid)), Some(Ok(started))) = (pid, started)
            && crate::approvals::process_start(pid) != Some(started)
        {
            remove(&entry.path());
        }
    }
}
