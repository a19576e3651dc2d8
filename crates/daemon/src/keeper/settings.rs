//! What keepers are told by the operator and by whoever starts them.

use std::path::PathBuf;

use engine::process::{Containment, ProcessLimits};
use engine::sandbox::OnGap;
use wire::keeper::Version;

use crate::config::KeepersConfig;

/// This program, even if its file was replaced since it was started.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// Environment variable of a starter whose keepers shall speak an older version: for tests, and for going back to an
/// older `rexd` without losing what runs.
const PROTOCOL_VARIABLE: &str = "REXD_KEEPER_PROTOCOL";

/// Output that a keeper has in memory; older output is on disk.
const TAIL_BYTES: usize = 128 * 1024;

/// Everything there is to decide about keepers.
#[derive(Debug, Clone)]
pub struct KeeperSettings {
    /// Where their directories lie.
    pub dir: PathBuf,
    /// What the operator decides.
    pub config: KeepersConfig,
    /// The bounds of their processes.
    pub bounds: ProcessLimits,
    /// How their trees are held together.
    pub containment: Containment,
    /// The newest protocol a new keeper speaks.
    pub protocol: Version,
    /// What is executed as a keeper.
    pub program: PathBuf,
    /// What happens when the kernel cannot hold all of a confinement.
    pub on_gap: OnGap,
    /// Where the ends of processes are recorded, if anywhere.
    pub audit: Option<PathBuf>,
}

impl KeeperSettings {
    /// Keepers below the state directory of this user.
    pub fn new(
        state: &std::path::Path,
        config: KeepersConfig,
        bounds: ProcessLimits,
        containment: Containment,
    ) -> KeeperSettings {
        let bounds = ProcessLimits { log_bytes: TAIL_BYTES, spill_bytes: 0, ..bounds };
        let protocol = match std::env::var_os(PROTOCOL_VARIABLE) {
            Some(number) if number == "1" => Version::V1,
            _ => Version::NEWEST,
        };
        let program = PathBuf::from(OWN_PROGRAM);
        KeeperSettings {
            dir: state.join("keepers"),
            config,
            bounds,
            containment,
            protocol,
            program,
            on_gap: OnGap::default(),
            audit: None,
        }
    }
}
