//! A confinement on its way to a keeper, which holds its process to it as the daemon would.

use std::path::PathBuf;
use std::sync::Arc;

use engine::sandbox::{Confinement, Network, Profile, ReadAccess, ResourceLimits};
use serde::{Deserialize, Serialize};

use super::job::{RawBytes, raw};

/// One profile.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProfileSpec {
    name: String,
    /// Nothing means everything.
    read: Option<Vec<RawBytes>>,
    write: Vec<RawBytes>,
    hide: Vec<RawBytes>,
    protect: Vec<RawBytes>,
    network: NetworkOrder,
    unix_sockets: bool,
    memory_bytes: Option<u64>,
    processes: Option<u64>,
    file_bytes: Option<u64>,
    open_files: Option<u64>,
    cpu_seconds: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NetworkOrder {
    On,
    Off,
    Loopback,
    Ports { connect: Vec<u16>, bind: Vec<u16> },
}

/// The layers of a confinement; none if nothing is confined.
pub(super) fn told(confinement: Option<&Confinement>) -> Vec<ProfileSpec> {
    confinement.map(Confinement::layers).unwrap_or_default().iter().map(|profile| layer(profile)).collect()
}

/// The confinement of these layers.
pub(super) fn heard(layers: &[ProfileSpec]) -> Option<Arc<Confinement>> {
    let confinement = Confinement::new(layers.iter().map(|layer| Arc::new(profile(layer))));
    (!confinement.is_off()).then(|| Arc::new(confinement))
}

fn layer(profile: &Profile) -> ProfileSpec {
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
            Network::On => NetworkOrder::On,
            Network::Off => NetworkOrder::Off,
            Network::Loopback => NetworkOrder::Loopback,
            Network::Ports { connect, bind } => {
                NetworkOrder::Ports { connect: connect.clone(), bind: bind.clone() }
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

fn profile(layer: &ProfileSpec) -> Profile {
    let all = |paths: &[RawBytes]| paths.iter().map(RawBytes::path).collect();
    Profile {
        name: layer.name.clone(),
        read: match &layer.read {
            None => ReadAccess::Everything,
            Some(paths) => ReadAccess::Only(all(paths)),
        },
        write: all(&layer.write),
        hide: all(&layer.hide),
        protect: all(&layer.protect),
        network: match &layer.network {
            NetworkOrder::On => Network::On,
            NetworkOrder::Off => Network::Off,
            NetworkOrder::Loopback => Network::Loopback,
            NetworkOrder::Ports { connect, bind } => {
                Network::Ports { connect: connect.clone(), bind: bind.clone() }
            }
        },
        unix_sockets: layer.unix_sockets,
        limits: ResourceLimits {
            memory_bytes: layer.memory_bytes,
            processes: layer.processes,
            file_bytes: layer.file_bytes,
            open_files: layer.open_files,
            cpu_seconds: layer.cpu_seconds,
        },
    }
}
