//! `[host]`: the hubs that this daemon connects to, and what it shares with them; flags and variables take precedence.

use std::path::PathBuf;

use super::section::{ConfigError, Section};
use crate::faces::host::HubUrl;

/// The settings of the host face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostConfig {
    /// The hubs.
    pub hubs: Vec<HubUrl>,
    /// The id of this host, instead of the one in the state directory.
    pub id: Option<String>,
    /// What hub users see.
    pub share: ShareScope,
    /// Whether REXD is served through the hubs.
    pub rexd: bool,
    /// The socket of the local API, instead of the one in the state directory.
    pub socket: Option<PathBuf>,
    /// The log file, instead of the one in the state directory.
    pub log: Option<PathBuf>,
    /// Bytes of the journal of one run; beyond it the oldest events are dropped.
    pub journal_bytes: u64,
    /// Milliseconds after which the prompt of a program is denied; 0 for never.
    pub prompt_timeout_ms: u64,
}

/// What a host shares with its hubs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareScope {
    /// Runs, and the processes and questions of other faces.
    All,
    /// Only runs.
    Runs,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            hubs: Vec::new(),
            id: None,
            share: ShareScope::All,
            rexd: true,
            socket: None,
            log: None,
            journal_bytes: 16 * 1024 * 1024,
            prompt_timeout_ms: 0,
        }
    }
}

pub(super) fn read(section: Section<'_, '_>) -> Result<HostConfig, ConfigError> {
    let base = HostConfig::default();
    let shares = [("all", ShareScope::All), ("runs", ShareScope::Runs)];
    Ok(HostConfig {
        hubs: section.each("hubs", |url| HubUrl::parse(url).map_err(|error| error.to_string()))?,
        id: section.filled_text("id")?,
        share: section.choice("share", &shares)?.unwrap_or(base.share),
        rexd: section.boolean("rexd", base.rexd)?,
        socket: section.file("socket")?,
        log: section.file("log")?,
        journal_bytes: section.positive("journal_bytes", base.journal_bytes)?,
        prompt_timeout_ms: section.number("prompt_timeout_ms")?.unwrap_or(base.prompt_timeout_ms),
    })
}
