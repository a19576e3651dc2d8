//! Temporary directories of those who are confined: private, one per session or detached process, gone with it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

use engine::sandbox::Confinement;
use engine::session::random_name;

use crate::core::state::{check_private_dir, create_private_dir, private_dir_builder, process_start};

/// What the names of those begin with that outlive the daemon.
const LASTING: &str = "detached.";

/// A directory that is made when it is needed.
#[derive(Debug, Clone)]
pub struct SandboxTempDir {
    path: PathBuf,
}

impl SandboxTempDir {
    /// A directory of this daemon that nobody else can guess.
    pub fn new() -> Result<SandboxTempDir, engine::Error> {
        let name = format!("{}.{}", owner(), random_name()?);
        Ok(SandboxTempDir { path: dir().join(name) })
    }

    /// A directory that outlives this daemon.
    pub fn for_detached() -> Result<SandboxTempDir, engine::Error> {
        Ok(SandboxTempDir { path: dir().join(format!("{LASTING}{}", random_name()?)) })
    }

    /// Where it is, or will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it. The first one removes what daemons that are gone have left.
    pub fn make(&self) -> io::Result<()> {
        static SWEPT: Once = Once::new();
        let dir = dir();
        // Anybody can make a directory of this name first.
        create_private_dir(&dir)?;
        SWEPT.call_once(|| sweep(&dir));
        match private_dir_builder().create(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

/// Removes a directory with everything in it. What cannot be removed is left to whoever cleans `/tmp`.
pub fn remove_temp_dir(path: &Path) {
    // Only what was made here, whatever somebody wrote into a job. A keeper has no environment that says where.
    let is_folder = |parent: &Path| parent.file_name() == Some(dir_name().as_ref());
    if path.parent().is_some_and(|parent| is_folder(parent) && check_private_dir(parent).is_ok()) {
        let _removed = std::fs::remove_dir_all(path);
    }
}

/// The directory in a confinement that was made for one detached process.
pub fn detached_temp_dir(confinement: &Confinement) -> Option<&Path> {
    let dir = dir();
    let is_lasting = |path: &&Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        path.parent() == Some(&dir) && name.is_some_and(|name| name.starts_with(LASTING))
    };
    let writable = confinement.layers().iter().flat_map(|layer| &layer.write);
    writable.map(PathBuf::as_path).find(is_lasting)
}

/// Where they all lie: one directory per user, below where temporary files go.
fn dir() -> PathBuf {
    let base = std::env::temp_dir();
    let base = base.canonicalize().unwrap_or(base);
    base.join(dir_name())
}

fn dir_name() -> String {
    format!("rexd-{}", rustix::process::geteuid().as_raw())
}

/// This process, so that another one with its number is not taken for it.
fn owner() -> String {
    let pid = std::process::id();
    format!("{pid}.{}", process_start(pid).unwrap_or(0))
}

fn sweep(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let mut parts = name.to_str().unwrap_or_default().splitn(3, '.');
        let (pid, started) = (parts.next().map(str::parse), parts.next().map(str::parse));
        if let (Some(Ok(pid)), Some(Ok(started))) = (pid, started)
            && process_start(pid) != Some(started)
        {
            remove_temp_dir(&entry.path());
        }
    }
}
