//! Gaps: what a kernel cannot hold of a confinement.

use std::fmt;
use std::path::{Path, PathBuf};

use super::confinement::{Confinement, OF_KERNEL};
use super::features::Features;
use super::profile::Network;
use super::standin;
use crate::process::limits::{self, Controllers, LimitGap};

/// Landlock's versions at which something became possible.
const TRUNCATE_SINCE: u32 = 3;
const PORTS_SINCE: u32 = 4;
const DEVICES_SINCE: u32 = 5;
const SCOPES_SINCE: u32 = 6;

/// Something this kernel cannot hold of a confinement. Its text says what, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gap {
    /// There is no Landlock: nothing keeps files and other processes apart.
    Landlock,
    /// System calls cannot be filtered.
    Seccomp,
    /// A file can be emptied by its name, though not written.
    Truncate,
    /// A path cannot be kept read-only inside a writable one.
    Protect(PathBuf),
    /// A path cannot be hidden.
    Hide(PathBuf),
    /// A network of its own cannot be had.
    Loopback,
    /// Ports cannot be told apart.
    Ports,
    /// Mode, owner, times and attributes of files outside can be changed where the user may.
    Metadata,
    /// Other processes of the user can be sent signals.
    Signals,
    /// SocketRules with abstract names can be reached.
    AbstractSockets,
    /// Devices that may be read can also be commanded.
    DeviceCommands,
    /// A resource limit is not held, or held less than it says.
    Limit(LimitGap),
}

impl Gap {
    /// Whether it lets a process do what its profile exists to prevent. The others are notes.
    pub fn is_essential(&self) -> bool {
        match self {
            Gap::Landlock | Gap::Seccomp | Gap::Truncate | Gap::Protect(_) | Gap::Hide(_) => true,
            Gap::Loopback | Gap::Ports => true,
            Gap::Metadata | Gap::Signals | Gap::AbstractSockets | Gap::DeviceCommands => false,
            Gap::Limit(limit) => limit.is_essential(),
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMESPACES: &str = "allow user namespaces for this user (user.max_user_namespaces, \
                                  kernel.unprivileged_userns_clone, AppArmor), or run as root";
        match self {
            Gap::Landlock => f.write_str(
                "this kernel has no Landlock, so files and processes cannot be kept apart: boot Linux 5.13 or later with \
                 landlock in its list of security modules (lsm=)",
            ),
            Gap::Seccomp => f.write_str(
                "system calls cannot be filtered: use a kernel with CONFIG_SECCOMP_FILTER, and a container that allows it",
            ),
            Gap::Truncate => write!(f, "files outside can be emptied: use Linux 6.2 or later, or {NAMESPACES}"),
            Gap::Protect(path) => write!(f, "{} cannot be kept read-only: {NAMESPACES}", path.display()),
            Gap::Hide(path) => write!(f, "{} cannot be hidden: {NAMESPACES}", path.display()),
            Gap::Loopback => write!(f, "a network of its own cannot be had: {NAMESPACES}"),
            Gap::Ports => f.write_str("ports cannot be told apart: use Linux 6.7 or later"),
            Gap::Metadata => write!(
                f,
                "mode, owner, times and attributes of files outside can be changed where the user may: {NAMESPACES}"
            ),
            Gap::Signals => f.write_str("the user's other processes can be sent signals: use Linux 6.12 or later"),
            Gap::AbstractSockets => f.write_str("abstract unix sockets can be reached: use Linux 6.12 or later"),
            Gap::DeviceCommands => f.write_str("readable devices can be commanded: use Linux 6.10 or later"),
            Gap::Limit(limit) => limit.fmt(f),
        }
    }
}

/// What `features` cannot hold of `confinement`, essential gaps first.
pub(super) fn find(confinement: &Confinement, features: &Features) -> Vec<Gap> {
    if confinement.is_off() {
        return Vec::new();
    }
    let version = features.landlock.unwrap_or(0);
    let any = |is: fn(&Network) -> bool| confinement.layers().iter().any(|layer| is(&layer.network));
    let mut gaps = Vec::new();
    let mut add = |is_gap: bool, gap: Gap| gaps.extend(is_gap.then_some(gap));
    for gap in limits::gaps(&confinement.limits(), Controllers::probe()) {
        add(true, Gap::Limit(gap));
    }
    add(version == 0, Gap::Landlock);
    add(!features.seccomp, Gap::Seccomp);
    add(version < TRUNCATE_SINCE && !features.namespaces, Gap::Truncate);
    add(version < PORTS_SINCE && any(|network| matches!(network, Network::Ports { .. })), Gap::Ports);
    if !features.namespaces {
        add(any(|network| *network == Network::Loopback), Gap::Loopback);
        for path in standin::wanted(confinement).into_keys() {
            add(true, Gap::Protect(path));
        }
        for layer in confinement.layers() {
            let is_writable = |path: &&PathBuf| layer.write.iter().any(|write| path.starts_with(write));
            for path in layer.protect.iter().filter(|path| is_writable(path) && !standin::is_missing(path)) {
                add(true, Gap::Protect(path.clone()));
            }
            let is_all_writable = layer.write.iter().any(|path| path == Path::new("/"));
            for path in OF_KERNEL.iter().filter(|_| is_all_writable) {
                add(true, Gap::Protect(path.into()));
            }
            for path in layer.hide.iter().filter(|path| exists(path)) {
                add(true, Gap::Hide(path.clone()));
            }
        }
        add(true, Gap::Metadata);
    }
    add(version < SCOPES_SINCE, Gap::Signals);
    let has_unix = confinement.layers().iter().all(|layer| layer.unix_sockets);
    add(version < SCOPES_SINCE && has_unix && confinement.restricts_network(), Gap::AbstractSockets);
    add(version < DEVICES_SINCE, Gap::DeviceCommands);
    gaps
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
