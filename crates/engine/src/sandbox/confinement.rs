//! Confinement: a stack of profiles that all apply.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::features::Features;
use super::gap::{self, Gap};
use super::profile::{Network, Profile, ReadAccess, ResourceLimits};
use crate::files::{Access, clean};

/// Devices that every process may use.
pub(super) const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];
/// File systems of the kernel: writable only if a profile names them or a path in them, not through `/`.
pub(super) const KERNEL_DIRS: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Shared memory; each confinement has its own.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// Profiles that all apply: an access is allowed only if every profile allows it. Without profiles nothing is confined.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Confinement {
    layers: Vec<Arc<Profile>>,
}

impl Confinement {
    /// Stacks profiles without duplicates.
    pub fn new(layers: impl IntoIterator<Item = Arc<Profile>>) -> Confinement {
        let mut distinct: Vec<Arc<Profile>> = Vec::new();
        for layer in layers {
            if !distinct.contains(&layer) {
                distinct.push(layer);
            }
        }
        Confinement { layers: distinct }
    }

    /// The profiles in the given order.
    pub fn layers(&self) -> &[Arc<Profile>] {
        &self.layers
    }

    /// Whether there are no profiles.
    pub fn is_off(&self) -> bool {
        self.layers.is_empty()
    }

    /// Names of the profiles, joined with `+`.
    pub fn name(&self) -> String {
        self.layers.iter().map(|layer| layer.name.as_str()).collect::<Vec<_>>().join("+")
    }

    /// The lowest limits of all profiles.
    pub fn limits(&self) -> ResourceLimits {
        self.layers.iter().fold(ResourceLimits::default(), |lowest, layer| lowest.lower(layer.limits))
    }

    /// Whether every profile allows a command the access. The caller resolves links in the absolute path.
    pub fn permits(&self, path: &Path, access: Access) -> bool {
        let path = clean(path);
        let is_own_memory = path.starts_with(SHARED_MEMORY);
        self.layers.iter().all(|layer| layer_permits(layer, &path, access, is_own_memory))
    }

    /// Whether every profile allows a file method the access. Unlike commands, which have a private `/dev/shm`, file
    /// methods work on the one of the machine.
    pub fn permits_file_method(&self, path: &Path, access: Access) -> bool {
        let path = clean(path);
        self.layers.iter().all(|layer| layer_permits(layer, &path, access, false))
    }

    /// Whether a profile restricts the network.
    pub fn restricts_network(&self) -> bool {
        self.layers.iter().any(|layer| layer.network != Network::On)
    }

    /// Parts that a kernel with these features cannot enforce.
    pub fn gaps(&self, features: &Features) -> Vec<Gap> {
        gap::find(self, features)
    }
}

fn layer_permits(layer: &Profile, path: &Path, access: Access, is_own_memory: bool) -> bool {
    let is_in = |paths: &[PathBuf]| paths.iter().any(|allowed| path.starts_with(clean(allowed)));
    if layer.hides(path) {
        return false;
    }
    let is_kernel_path = KERNEL_DIRS.iter().any(|directory| path.starts_with(directory));
    let is_writable = || {
        let allows =
            |allowed: &Path| path.starts_with(allowed) && !(is_kernel_path && allowed == Path::new("/"));
        layer.write.iter().any(|allowed| allows(&clean(allowed)))
    };
    let is_device = is_own_memory || DEVICES.iter().any(|device| path.starts_with(device));
    match access {
        Access::Write => is_device || (is_writable() && !is_in(&layer.protect)),
        Access::Read => match &layer.read {
            ReadAccess::Everything => true,
            ReadAccess::Only(paths) => is_device || is_in(paths) || is_in(&layer.write),
        },
    }
}
