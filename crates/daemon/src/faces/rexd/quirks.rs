//! Client quirks: what known clients cannot handle, keyed by the name they give. No other code depends on client names.
//!
//! | client | version it pins | longest line it survives | loses early terminal output | shows approvals |
//! |---|---|---|---|---|
//! | `opencode-rexd-target` (OpenCode plugin) | – | 1 MiB buffer | yes: the buffer is made when the answer arrives | no |
//! | `claudecode-rexd-target` (Claude Code plugin) | – | – | yes, the same way | no |
//! | `opencode-transit` | 0.1.5 | 1 MiB line | yes: events of unknown terminals are dropped | no |
//! | `opencode-rexd` (its older name) | 0.1.5 | 1 MiB line | yes | no |

use std::time::Duration;

/// What the face does differently for one client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Quirks {
    /// The server version it expects instead of ours.
    pub(super) pinned_version: Option<&'static str>,
    /// The longest line it can read.
    pub(super) frame_bytes: Option<usize>,
    /// How long the first output of a terminal is held back after the response was written.
    pub(super) terminal_hold: Option<Duration>,
    /// Whether it cannot show requests for approval; it is then not asked.
    pub(super) cannot_approve: bool,
}

/// Below the 1,048,576 bytes at which they close the connection, with a margin for what they count differently.
const SMALL_FRAME: usize = 950_000;
/// Measured: 5 ms lose the first output once in ten, 20 ms never.
const HOLD: Duration = Duration::from_millis(40);

/// What all plugins have in common: they lose early output and show no approvals.
const PLUGIN: Quirks =
    Quirks { pinned_version: None, frame_bytes: None, terminal_hold: Some(HOLD), cannot_approve: true };

/// The quirks of the client with this name.
pub(super) fn of(name: &str) -> Quirks {
    match name {
        "opencode-rexd-target" => Quirks { frame_bytes: Some(SMALL_FRAME), ..PLUGIN },
        "claudecode-rexd-target" => PLUGIN,
        "opencode-transit" | "opencode-rexd" => {
            Quirks { pinned_version: Some("0.1.5"), frame_bytes: Some(SMALL_FRAME), ..PLUGIN }
        }
        _ => Quirks::default(),
    }
}
