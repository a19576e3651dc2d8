//! The serialized form of sandbox profiles, for the job of a keeper.

use std::path::PathBuf;
use std::sync::Arc;

use engine::sandbox::{Confinement, Network, Profile, ReadAccess, ResourceLimits};
use serde::{Deserialize, Serialize};

use super::job::{RawBytes, raw};

/// One serialized sandbox profile.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProfileSpec {
    name: String,
    /// Readable paths; `None` means all.
    read: Option<Vec<RawBytes>>,
    write: Vec<RawBytes>,
    hide: Vec<RawBytes>,
    protect: Vec<RawBytes>,
    network: NetworkSpec,
    unix_sockets: bool,
    memory_bytes: Option<u64>,
    processes: Option<u64>,
    file_bytes: Option<u64>,
    open_files: Option<u64>,
    cpu_seconds: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NetworkSpec {
    On,
    Off,
    Loopback,
    Ports { connect: Vec<u16>, bind: Vec<u16> },
}

/// The profiles of a confinement; empty without one.
pub(super) fn to_specs(confinement: Option<&Confinement>) -> Vec<ProfileSpec> {
    confinement.map(Confinement::layers).unwrap_or_default().iter().map(|profile| to_spec(profile)).collect()
}

/// The confinement for these profiles; `None` if there are none.
pub(super) fn from_specs(specs: &[ProfileSpec]) -> Option<Arc<Confinement>> {
    let confinement = Confinement::new(specs.iter().map(|spec| Arc::new(from_spec(spec))));
    (!confinement.is_off()).then(|| Arc::new(confinement))
}

fn to_spec(profile: &Profile) -> ProfileSpec {
    let all = |paths: &[PathBuf]| paths.iter().map(|path| raw(path.as_os_str())).collect();
    let limits = profile.limits;
    ProfileSpec {
        name: profile.name.clone(),
        read: match &profile.read {
            ReadAccess::Everything => None,
            ReadAccess::Only(paths) => Some(all(paths)),
        },
        write: all(&profile.write),
        hide: all(&profile.hide),
        protect: all(&profile.protect),
        network: match &profile.network {
            Network::On => NetworkSpec::On,
            Network::Off => NetworkSpec::Off,
            Network::Loopback => NetworkSpec::Loopback,
            Network::Ports { connect, bind } => {
                NetworkSpec::Ports { connect: connect.clone(), bind: bind.clone() }
            }
        },
        unix_sockets: profile.unix_sockets,
        memory_bytes: limits.memory_bytes,
        processes: limits.processes,
        file_bytes: limits.file_bytes,
        open_files: limits.open_files,
        cpu_seconds: limits.cpu_seconds,
    }
}

fn from_spec(spec: &ProfileSpec) -> Profile {
    let all = |paths: &[RawBytes]| paths.iter().map(RawBytes::path).collect();
    Profile {
        name: spec.name.clone(),
        read: match &spec.read {
            None => ReadAccess::Everything,
            Some(paths) => ReadAccess::Only(all(paths)),
        },
        write: all(&spec.write),
        hide: all(&spec.hide),
        protect: all(&spec.protect),
        network: match &spec.network {
            NetworkSpec::On => Network::On,
            NetworkSpec::Off => Network::Off,
            NetworkSpec::Loopback => Network::Loopback,
            NetworkSpec::Ports { connect, bind } => {
                Network::Ports { connect: connect.clone(), bind: bind.clone() }
            }
        },
        unix_sockets: spec.unix_sockets,
        limits: ResourceLimits {
            memory_bytes: spec.memory_bytes,
            processes: spec.processes,
            file_bytes: spec.file_bytes,
            open_files: spec.open_files,
            cpu_seconds: spec.cpu_seconds,
        },
    }
}
