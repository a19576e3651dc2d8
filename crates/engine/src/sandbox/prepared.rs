//! A prepared sandbox: the namespaces, Landlock rulesets and seccomp filter of one confinement.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::thread::CapabilitySet;

use super::confinement::{Confinement, DEVICES};
use super::features::Features;
use super::landlock::{FileRights, HandledAccess, Ruleset};
use super::namespace::{MountPlan, Namespaces};
use super::profile::{Network, Profile, ReadAccess};
use super::seccomp::{self, Instruction, InternetAccess, SocketRules};
use super::standin::StandIns;

/// The set-user-ID and set-group-ID bits.
const SET_IDS: u32 = libc::S_ISUID | libc::S_ISGID;
/// Capabilities that root keeps: those on files and users, none on the whole system. Without `FSETID` a write to a file
/// clears its set-ID bits.
const ROOT_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Kernel objects that a child applies. Kept while a child may be starting.
#[derive(Debug)]
pub(crate) struct PreparedSandbox {
    pub(super) namespaces: Option<Namespaces>,
    pub(super) rulesets: Vec<Ruleset>,
    pub(super) filter: Vec<Instruction>,
    pub(super) capabilities: u64,
}

impl PreparedSandbox {
    /// Creates the parts that these features can enforce. The caller has checked for gaps.
    pub(super) fn new(confinement: &Confinement, features: &Features) -> Result<PreparedSandbox, String> {
        let namespaces = match features.namespaces {
            true => Some(MountPlan::of(confinement).create(features).map_err(|error| error.to_string())?),
            false => None,
        };
        let memory = namespaces.as_ref().and_then(|made| made.shared_memory.as_ref());
        let mut rulesets = Vec::new();
        if let Some(version) = features.landlock {
            for layer in confinement.layers() {
                let made = ruleset(layer, version, memory);
                rulesets.push(made.map_err(|error| format!("cannot create a Landlock ruleset: {error}"))?);
            }
        }
        let filter = match features.seccomp {
            true => seccomp::filter(sockets(confinement), refused_mode())
                .ok_or_else(|| "the seccomp filter is too long".to_owned())?,
            false => Vec::new(),
        };
        let is_in_user_namespace = namespaces.as_ref().is_some_and(|made| made.user.is_some());
        Ok(PreparedSandbox { namespaces, rulesets, filter, capabilities: capabilities(is_in_user_namespace) })
    }
}

impl PreparedSandbox {
    /// Mounts read-only copies over stand-ins.
    pub(super) fn cover(&self, stand_ins: &StandIns) -> Result<(), String> {
        match &self.namespaces {
            Some(made) => made.cover(stand_ins).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}

/// Capabilities of the child. In a user namespace it keeps none.
fn capabilities(is_in_user_namespace: bool) -> u64 {
    if is_in_user_namespace || !rustix::process::geteuid().is_root() {
        return 0;
    }
    let has = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted);
    (has & ROOT_CAPABILITIES).bits()
}

/// Bits of the mode that no file can get: with them, other users could run a file that the command has left. Ordinary
/// users may set the group bit, which directories of shared workspaces need.
fn refused_mode() -> u32 {
    if rustix::process::geteuid().is_root() { SET_IDS } else { libc::S_ISUID }
}

fn sockets(confinement: &Confinement) -> SocketRules {
    let every =
        SocketRules { all: true, internet: InternetAccess::Yes, routes: true, unix: true, listens: true };
    confinement.layers().iter().fold(every, |allowed, layer| {
        let (internet, routes, listens) = match &layer.network {
            Network::On => return allowed,
            Network::Off => (InternetAccess::No, false, false),
            Network::Loopback => (InternetAccess::Yes, true, true),
            Network::Ports { bind, .. } => (InternetAccess::Tcp, false, !bind.is_empty()),
        };
        allowed.both(SocketRules { all: false, internet, routes, unix: layer.unix_sockets, listens })
    })
}

fn ruleset(layer: &Profile, version: u32, memory: Option<&OwnedFd>) -> io::Result<Ruleset> {
    let ports = matches!(layer.network, Network::Ports { .. });
    let rules =
        Ruleset::new(HandledAccess { version, ports, abstract_sockets: layer.network != Network::On })?;
    match &layer.read {
        ReadAccess::Only(paths) => {
            paths.iter().try_for_each(|path| allow_unlinked(&rules, path, FileRights::READ))?
        }
        ReadAccess::Everything => {
            allow(&rules, Path::new("/"), FileRights::LIST)?;
            // All but the devices: root could read disks.
            for entry in Path::new("/").read_dir()? {
                let path = entry?.path();
                if path != Path::new("/dev") {
                    allow(&rules, &path, FileRights::READ)?;
                }
            }
        }
    }
    DEVICES.iter().try_for_each(|device| allow(&rules, Path::new(device), FileRights::DEVICE))?;
    layer.write.iter().try_for_each(|path| allow_unlinked(&rules, path, FileRights::WRITE))?;
    if let Some(memory) = memory {
        rules.allow(memory.as_fd(), FileRights::WRITE)?;
    }
    if let Network::Ports { connect, bind } = &layer.network {
        connect.iter().try_for_each(|port| rules.allow_port(*port, true))?;
        bind.iter().try_for_each(|port| rules.allow_port(*port, false))?;
    }
    Ok(rules)
}

/// Allows a path. A path that cannot be opened is skipped and tried again at the next start.
fn allow(rules: &Ruleset, path: &Path, rights: FileRights) -> io::Result<()> {
    match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(opened) => rules.allow(opened.as_fd(), rights),
        Err(_missing) => Ok(()),
    }
}

/// Allows a path without symbolic links: a command could create one to escape from the sandbox.
fn allow_unlinked(rules: &Ruleset, path: &Path, rights: FileRights) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(opened) => rules.allow(opened.as_fd(), rights),
        Err(_missing) => Ok(()),
    }
}

impl Namespaces {
    /// The descriptors in the order in which they are entered; -1 for namespaces that are not used.
    pub(super) fn raw(&self) -> [i32; 4] {
        let raw = |fd: Option<&OwnedFd>| fd.map_or(-1, AsRawFd::as_raw_fd);
        let (mounts, ipc) = (self.mounts.as_raw_fd(), self.ipc.as_raw_fd());
        [raw(self.user.as_ref()), mounts, raw(self.network.as_ref()), ipc]
    }
}
