//! The disk of the daemon: a small file system that can be filled, or limits on file sizes where mounting is not permitted.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::leftovers::users_of;

const SIZE: &str = "size=48m,mode=755";
/// The name of a keeper's process.
const KEEPER: &str = "rexd-keeper";

/// A directory with limited space.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
    is_mounted: bool,
}

impl Disk {
    /// Mounts a small file system, or uses the directory as it is.
    pub(crate) fn new(path: PathBuf) -> Disk {
        fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", SIZE, "none"]).arg(&path).stderr(Stdio::null());
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        Disk { path, is_mounted }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How it is filled, for the report.
    pub(crate) fn kind(&self) -> &'static str {
        match self.is_mounted {
            true => "a tmpfs of 48 MiB is filled",
            false => "mounting is not permitted: RLIMIT_FSIZE of the keepers",
        }
    }

    /// Leaves no space until [`Disk::free`].
    pub(crate) fn fill(&self) {
        match self.is_mounted {
            true => {
                // It fails if there is no space already.
                if let Ok(mut ballast) = File::create(self.ballast()) {
                    // Until there is no space left, to the last byte: the error is the aim.
                    for size in [1 << 20, 4096, 1] {
                        while ballast.write_all(&vec![0; size]).is_ok() {}
                    }
                }
            }
            false => self.limit_keepers(Some(0)),
        }
    }

    /// Makes space again.
    pub(crate) fn free(&self) {
        match self.is_mounted {
            true => drop(fs::remove_file(self.ballast())),
            false => self.limit_keepers(None),
        }
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }

    /// Limits the size of the files that keepers write.
    fn limit_keepers(&self, current: Option<u64>) {
        for pid in users_of(&self.path).into_iter().filter(|pid| testkit::proc::name(*pid) == KEEPER) {
            // A keeper may end at any time.
            prlimit(Pid::from_raw(pid), Resource::Fsize, Rlimit { current, maximum: None }).ok();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            Command::new("umount").arg("-l").arg(&self.path).status().ok();
        }
    }
}
