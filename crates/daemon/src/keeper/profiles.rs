//! The serialized form of sandbox profiles, for the job of a keeper.

use std::path::PathBuf;
use std::sync::Arc;

use engine::sandbox::{Confinement, Network, Profile, ReadAccess, ResourceLimits};
use serde::{Deserialize, Serialize};

use super::job::raw_paths;

/// One sandbox profile in a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JobProfile(#[serde(with = "ProfileDef")] Profile);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Profile")]
struct ProfileDef {
    name: String,
    #[serde(with = "ReadAccessDef")]
    read: ReadAccess,
    #[serde(with = "raw_paths")]
    write: Vec<PathBuf>,
    #[serde(with = "raw_paths")]
    hide: Vec<PathBuf>,
    #[serde(with = "raw_paths")]
    expose: Vec<PathBuf>,
    #[serde(with = "raw_paths")]
    protect: Vec<PathBuf>,
    #[serde(with = "NetworkDef")]
    network: Network,
    unix_sockets: bool,
    #[serde(with = "ResourceLimitsDef")]
    limits: ResourceLimits,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ReadAccess")]
enum ReadAccessDef {
    Everything,
    Only(#[serde(with = "raw_paths")] Vec<PathBuf>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Network")]
enum NetworkDef {
    On,
    Off,
    Loopback,
    Ports { connect: Vec<u16>, bind: Vec<u16> },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ResourceLimits")]
struct ResourceLimitsDef {
    memory_bytes: Option<u64>,
    processes: Option<u64>,
    file_bytes: Option<u64>,
    open_files: Option<u64>,
    cpu_seconds: Option<u64>,
}

/// The profiles of a confinement; empty without one.
pub(super) fn from_confinement(confinement: Option<&Confinement>) -> Vec<JobProfile> {
    let layers = confinement.map(Confinement::layers).unwrap_or_default();
    layers.iter().map(|profile| JobProfile(Profile::clone(profile))).collect()
}

/// The confinement for these profiles; `None` if there are none.
pub(super) fn to_confinement(profiles: &[JobProfile]) -> Option<Arc<Confinement>> {
    let confinement = Confinement::new(profiles.iter().map(|profile| Arc::new(profile.0.clone())));
    (!confinement.is_off()).then(|| Arc::new(confinement))
}
