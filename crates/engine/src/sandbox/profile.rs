//! Profiles: what one layer of a confinement allows.

use std::path::{Path, PathBuf};

/// What may be touched. Paths are absolute; what they contain is meant with them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Profile {
    /// What it is called in messages.
    pub name: String,
    /// What may be read and executed.
    pub read: ReadAccess,
    /// What may also be changed. A path with a link in it is left out: a command could have put it there.
    pub write: Vec<PathBuf>,
    /// What cannot be seen, whatever the rest says.
    pub hide: Vec<PathBuf>,
    /// What stays as it is inside writable paths.
    pub protect: Vec<PathBuf>,
    /// Which network there is.
    pub network: Network,
    /// Whether sockets of this machine may be used where the network is not wholly on.
    pub unix_sockets: bool,
    /// What may be used up.
    pub limits: ResourceLimits,
}

/// What may be read and executed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadAccess {
    /// Whatever the user may read, except devices that are not for everyday use.
    Everything,
    /// These paths, and the writable ones. One with a link in it is left out, as there.
    Only(Vec<PathBuf>),
}

/// Which network a process finds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Network {
    /// The machine's.
    On,
    /// None.
    Off,
    /// One of its own, where it meets only what shares its confinement.
    Loopback,
    /// TCP to and on these ports only.
    Ports {
        /// Ports it may connect to.
        connect: Vec<u16>,
        /// Ports it may listen on.
        bind: Vec<u16>,
    },
}

/// What one command may use up; `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ResourceLimits {
    /// Memory of the whole tree.
    pub memory_bytes: Option<u64>,
    /// Processes and threads of the tree at one time.
    pub processes: Option<u64>,
    /// The size of one file.
    pub file_bytes: Option<u64>,
    /// Files one process may have open.
    pub open_files: Option<u64>,
    /// Processor time of one process.
    pub cpu_seconds: Option<u64>,
}

/// What belongs to the daemon and its operator, and no command may change or see.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProtectedPaths {
    /// Read-only even inside writable paths: the config file.
    pub protect: Vec<PathBuf>,
    /// Invisible: the state folder, token files.
    pub hide: Vec<PathBuf>,
}

impl Profile {
    /// Reads everything, changes nothing, reaches nobody.
    pub fn read_only(own: &ProtectedPaths) -> Profile {
        Profile {
            name: "read-only".to_owned(),
            read: ReadAccess::Everything,
            write: Vec::new(),
            hide: own.hide.clone(),
            protect: own.protect.clone(),
            network: Network::Off,
            unix_sockets: false,
            limits: ResourceLimits::default(),
        }
    }

    /// Like [`Profile::read_only`], but changes files in `roots` and in the private directory `temp`. The hooks of a
    /// repository at a root stay as they are.
    pub fn workspace_write(roots: &[PathBuf], temp: Option<&Path>, own: &ProtectedPaths) -> Profile {
        let mut profile = Profile { name: "workspace-write".to_owned(), ..Profile::read_only(own) };
        profile.write = roots.iter().cloned().chain(temp.map(Path::to_owned)).collect();
        profile.protect.extend(roots.iter().map(|root| root.join(".git/hooks")));
        profile
    }
}

impl ResourceLimits {
    /// The lower of both, bound by bound.
    pub fn lower(self, other: ResourceLimits) -> ResourceLimits {
        let least = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        };
        ResourceLimits {
            memory_bytes: least(self.memory_bytes, other.memory_bytes),
            processes: least(self.processes, other.processes),
            file_bytes: least(self.file_bytes, other.file_bytes),
            open_files: least(self.open_files, other.open_files),
            cpu_seconds: least(self.cpu_seconds, other.cpu_seconds),
        }
    }
}
