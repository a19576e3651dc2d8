//! Gaps: parts of a confinement that a kernel cannot enforce.

use std::fmt;
use std::path::{Path, PathBuf};

use super::confinement::{Confinement, KERNEL_DIRS};
use super::features::Features;
use super::profile::Network;
use super::standin;
use crate::process::limits::{self, Controllers, LimitGap};

/// Versions of Landlock that introduced a feature.
const TRUNCATE_SINCE: u32 = 3;
const PORTS_SINCE: u32 = 4;
const DEVICES_SINCE: u32 = 5;
const SCOPES_SINCE: u32 = 6;

/// A part of a confinement that this kernel cannot enforce. Its text describes the gap and how to close it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gap {
    /// Landlock is missing: access to files and processes is not restricted.
    Landlock,
    /// System calls cannot be filtered.
    Seccomp,
    /// Files can be truncated by name, but not written.
    Truncate,
    /// A path cannot be kept read-only inside a writable one.
    Protect(PathBuf),
    /// A path cannot be hidden.
    Hide(PathBuf),
    /// A private network cannot be created.
    Loopback,
    /// TCP ports cannot be restricted.
    Ports,
    /// Metadata of files outside can be changed as far as the user may.
    Metadata,
    /// Signals can be sent to other processes of the user.
    Signals,
    /// Abstract Unix sockets can be reached.
    AbstractSockets,
    /// Readable devices accept ioctl calls.
    DeviceCommands,
    /// A resource limit is not enforced, or only in part.
    Limit(LimitGap),
}

impl Gap {
    /// Whether the gap defeats the purpose of the profile. Other gaps are only reported.
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
                "Landlock is not available, so access to files and processes is not restricted: boot Linux 5.13 or later with \
                 landlock in the list of security modules (lsm=)",
            ),
            Gap::Seccomp => f.write_str(
                "system calls cannot be filtered: use a kernel with CONFIG_SECCOMP_FILTER and a container that allows seccomp",
            ),
            Gap::Truncate => write!(f, "files outside the sandbox can be truncated: use Linux 6.2 or later, or {NAMESPACES}"),
            Gap::Protect(path) => write!(f, "{} cannot be kept read-only: {NAMESPACES}", path.display()),
            Gap::Hide(path) => write!(f, "{} cannot be hidden: {NAMESPACES}", path.display()),
            Gap::Loopback => write!(f, "a private network cannot be created: {NAMESPACES}"),
            Gap::Ports => f.write_str("TCP ports cannot be restricted: use Linux 6.7 or later"),
            Gap::Metadata => write!(
                f,
                "mode, owner, times and attributes of files outside the sandbox can be changed: {NAMESPACES}"
            ),
            Gap::Signals => f.write_str("signals can be sent to other processes of the user: use Linux 6.12 or later"),
            Gap::AbstractSockets => f.write_str("abstract Unix sockets can be reached: use Linux 6.12 or later"),
            Gap::DeviceCommands => f.write_str("readable devices accept ioctl calls: use Linux 6.10 or later"),
            Gap::Limit(limit) => limit.fmt(f),
        }
    }
}

/// All gaps of a confinement with these features.
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
        for path in standin::needed_paths(confinement).into_keys() {
            add(true, Gap::Protect(path));
        }
        for layer in confinement.layers() {
            let is_writable = |path: &&PathBuf| layer.write.iter().any(|write| path.starts_with(write));
            for path in layer.protect.iter().filter(|path| is_writable(path) && !standin::is_missing(path)) {
                add(true, Gap::Protect(path.clone()));
            }
            let is_all_writable = layer.write.iter().any(|path| path == Path::new("/"));
            for path in KERNEL_DIRS.iter().filter(|_| is_all_writable) {
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
