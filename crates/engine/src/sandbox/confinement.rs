//! Confinement: profiles on top of each other, all of which hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::features::Features;
use super::gap::{self, Gap};
use super::profile::{Network, Profile, ReadAccess, ResourceLimits};
use crate::files::{Access, clean};

/// Devices that every program may use.
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
/// What belongs to the kernel: writable only by a path that names it or lies in it, not by the root above all.
pub(super) const OF_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Shared memory, private to each confinement.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// Profiles that hold together: what one forbids, no other allows. Without any, nothing is confined.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Confinement {
    layers: Vec<Arc<Profile>>,
}

impl Confinement {
    /// Stacks profiles; equal ones count once.
    pub fn new(layers: impl IntoIterator<Item = Arc<Profile>>) -> Confinement {
        let mut distinct: Vec<Arc<Profile>> = Vec::new();
        for layer in layers {
            if !distinct.contains(&layer) {
                distinct.push(layer);
            }
        }
        Confinement { layers: distinct }
    }

    /// The profiles, in the order in which they were given.
    pub fn layers(&self) -> &[Arc<Profile>] {
        &self.layers
    }

    /// Whether nothing is confined.
    pub fn is_off(&self) -> bool {
        self.layers.is_empty()
    }

    /// The names of the profiles, for messages.
    pub fn name(&self) -> String {
        self.layers.iter().map(|layer| layer.name.as_str()).collect::<Vec<_>>().join("+")
    }

    /// The lowest bound of all layers.
    pub fn limits(&self) -> ResourceLimits {
        self.layers.iter().fold(ResourceLimits::default(), |lowest, layer| lowest.lower(layer.limits))
    }

    /// Whether every layer allows it, by the text of an absolute path: links are the caller's to resolve.
    pub fn permits(&self, path: &Path, access: Access) -> bool {
        let path = clean(path);
        self.layers.iter().all(|layer| layer_permits(layer, &path, access))
    }

    /// Whether some layer restricts the network.
    pub fn restricts_network(&self) -> bool {
        self.layers.iter().any(|layer| layer.network != Network::On)
    }

    /// What this kernel cannot hold of it.
    pub fn gaps(&self, features: &Features) -> Vec<Gap> {
        gap::find(self, features)
    }
}

fn layer_permits(layer: &Profile, path: &Path, access: Access) -> bool {
    let is_in = |paths: &[PathBuf]| paths.iter().any(|allowed| path.starts_with(clean(allowed)));
    if is_in(&layer.hide) {
        return false;
    }
    let is_of_kernel = OF_KERNEL.iter().any(|kept| path.starts_with(kept));
    let is_writable = || {
        let gives =
            |allowed: &Path| path.starts_with(allowed) && !(is_of_kernel && allowed == Path::new("/"));
        layer.write.iter().any(|allowed| gives(&clean(allowed)))
    };
    let is_device = DEVICES.iter().chain([&SHARED_MEMORY]).any(|device| path.starts_with(device));
    match access {
        Access::Write => is_device || (is_writable() && !is_in(&layer.protect)),
        Access::Read => match &layer.read {
            ReadAccess::Everything => true,
            ReadAccess::Only(paths) => is_device || is_in(paths) || is_in(&layer.write),
        },
    }
}
