//! Profiles: the access that one layer of a confinement allows.

use std::path::{Path, PathBuf};

use crate::files::clean;

/// Allowed access to files, network and resources. Paths are absolute and include everything below them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Profile {
    /// Name in messages.
    pub name: String,
    /// Paths that may be read and executed.
    pub read: ReadAccess,
    /// Paths that may also be changed. A path that contains a symbolic link is ignored: a command could have created it.
    pub write: Vec<PathBuf>,
    /// Paths that are hidden; takes precedence over all other fields but `expose`.
    pub hide: Vec<PathBuf>,
    /// Paths inside hidden directories that stay visible.
    pub expose: Vec<PathBuf>,
    /// Read-only paths inside writable ones.
    pub protect: Vec<PathBuf>,
    /// Network access.
    pub network: Network,
    /// Whether Unix sockets may be used if the network is restricted.
    pub unix_sockets: bool,
    /// Resource limits of one command.
    pub limits: ResourceLimits,
}

/// Paths that a process may read and execute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadAccess {
    /// All paths that the user may read, except most devices.
    Everything,
    /// These paths and the writable ones. A path that contains a symbolic link is ignored.
    Only(Vec<PathBuf>),
}

/// Network access of a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Network {
    /// The network of the machine.
    On,
    /// No network.
    Off,
    /// A private loopback network, shared with other processes of the same confinement.
    Loopback,
    /// TCP on these ports only.
    Ports {
        /// Ports that it may connect to.
        connect: Vec<u16>,
        /// Ports that it may listen on.
        bind: Vec<u16>,
    },
}

/// Resource limits of one command; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ResourceLimits {
    /// Memory of the process tree in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and threads of the tree at a time.
    pub processes: Option<u64>,
    /// Size of one file in bytes.
    pub file_bytes: Option<u64>,
    /// Open files of one process.
    pub open_files: Option<u64>,
    /// CPU time of one process in seconds.
    pub cpu_seconds: Option<u64>,
}

/// Files of the daemon and its operator that no command may change or see.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProtectedPaths {
    /// Read-only even inside writable paths, such as the configuration file.
    pub protect: Vec<PathBuf>,
    /// Hidden, such as the state directory and token files.
    pub hide: Vec<PathBuf>,
    /// Visible although inside a hidden directory, such as a root in the state directory.
    pub expose: Vec<PathBuf>,
}

impl Profile {
    /// Allows reading all files, no writing and no network.
    pub fn read_only(protected: &ProtectedPaths) -> Profile {
        Profile {
            name: "read-only".to_owned(),
            read: ReadAccess::Everything,
            write: Vec::new(),
            hide: protected.hide.clone(),
            expose: protected.expose.clone(),
            protect: protected.protect.clone(),
            network: Network::Off,
            unix_sockets: false,
            limits: ResourceLimits::default(),
        }
    }

    /// Like [`Profile::read_only`], but also allows writing in `roots` and in the private directory `temp`. The hooks of a Git
    /// repository at a root stay read-only.
    pub fn workspace_write(roots: &[PathBuf], temp: Option<&Path>, protected: &ProtectedPaths) -> Profile {
        let mut profile = Profile { name: "workspace-write".to_owned(), ..Profile::read_only(protected) };
        profile.write = roots.iter().cloned().chain(temp.map(Path::to_owned)).collect();
        profile.protect.extend(roots.iter().map(|root| root.join(".git/hooks")));
        profile
    }

    /// Whether a path is hidden.
    pub fn hides(&self, path: &Path) -> bool {
        let path = clean(path);
        let is_exposed = |hidden: &Path| {
            let is_in = |exposed: &PathBuf| exposed != hidden && exposed.starts_with(hidden);
            self.expose.iter().map(|exposed| clean(exposed)).any(|it| is_in(&it) && path.starts_with(&it))
        };
        self.hide.iter().map(|hidden| clean(hidden)).any(|it| path.starts_with(&it) && !is_exposed(&it))
    }
}

impl ResourceLimits {
    /// The lower of each limit.
    pub fn lower(self, other: ResourceLimits) -> ResourceLimits {
        let lower = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        };
        ResourceLimits {
            memory_bytes: lower(self.memory_bytes, other.memory_bytes),
            processes: lower(self.processes, other.processes),
            file_bytes: lower(self.file_bytes, other.file_bytes),
            open_files: lower(self.open_files, other.open_files),
            cpu_seconds: lower(self.cpu_seconds, other.cpu_seconds),
        }
    }
}
