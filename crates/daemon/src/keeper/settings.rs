//! The settings of keepers.

use std::path::PathBuf;

use engine::process::{Containment, ProcessLimits};
use engine::sandbox::OnGap;
use wire::keeper::Version;

use crate::config::KeepersConfig;

/// This program, even if its file was replaced after the start.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// The environment variable that limits new keepers to an older protocol version: for tests, and before a downgrade of
/// `rexd`.
const PROTOCOL_VARIABLE: &str = "REXD_KEEPER_PROTOCOL";

/// The size of the output in a keeper's memory; older output is on disk.
const TAIL_BYTES: usize = 128 * 1024;

/// The settings of all keepers of a daemon.
#[derive(Debug, Clone)]
pub struct KeeperSettings {
    /// The parent of their directories.
    pub dir: PathBuf,
    /// The `[keepers]` section of the configuration.
    pub config: KeepersConfig,
    /// The bounds of their processes.
    pub bounds: ProcessLimits,
    /// How their process trees are tracked.
    pub containment: Containment,
    /// The newest protocol version of a new keeper.
    pub protocol: Version,
    /// The program to execute as a keeper.
    pub program: PathBuf,
    /// What to do if the kernel cannot enforce a whole sandbox.
    pub on_gap: OnGap,
    /// The audit file for the ends of processes.
    pub audit: Option<PathBuf>,
}

impl KeeperSettings {
    /// Settings with the directory `keepers` in the state directory.
    pub fn new(
        state: &std::path::Path,
        config: KeepersConfig,
        bounds: ProcessLimits,
        containment: Containment,
    ) -> KeeperSettings {
        let bounds = ProcessLimits { log_bytes: TAIL_BYTES, spill_bytes: 0, ..bounds };
        let protocol = match std::env::var_os(PROTOCOL_VARIABLE) {
            Some(number) if number == "1" => Version::V1,
            Some(number) if number == "2" => Version::V2,
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
