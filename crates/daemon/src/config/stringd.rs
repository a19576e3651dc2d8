//! `[stringd]`: the stringd face; flags and variables take precedence.

use std::path::PathBuf;
use std::time::Duration;

use wire::stringd::v0_1::{COMMAND_TIMEOUT_MS, QUEUE_SIZE, QUEUE_WAIT_MS};

use super::section::{ConfigError, Section};
use crate::faces::stringd::{AccessMode, QueueLimits};

/// The settings of the stringd face.
#[derive(Debug, Clone)]
pub struct StringdConfig {
    /// The port on the loopback interface; `rexd serve` then serves the face.
    pub port: Option<u16>,
    /// The directory of its users.
    pub data_dir: Option<PathBuf>,
    /// Which paths commands reach.
    pub access: AccessMode,
    /// The queue of each topic.
    pub queue: QueueLimits,
    /// The longest time that a program of a command runs.
    pub command_timeout: Duration,
}

pub(super) fn read(section: Section<'_, '_>) -> Result<StringdConfig, ConfigError> {
    let port = section.number("port")?;
    let port = port.map(|port| u16::try_from(port).map_err(|_| section.error("port", "must be 0 to 65535")));
    let modes = [("full", AccessMode::Full), ("workspace", AccessMode::Workspace)];
    Ok(StringdConfig {
        port: port.transpose()?,
        data_dir: section.file("data_dir")?,
        access: section.choice("access", &modes)?.unwrap_or_default(),
        queue: QueueLimits {
            size: section.count("queue_size", QUEUE_SIZE)?,
            wait: section.time("queue_wait_ms", Duration::from_millis(QUEUE_WAIT_MS))?,
        },
        command_timeout: section.time("command_timeout_ms", Duration::from_millis(COMMAND_TIMEOUT_MS))?,
    })
}
