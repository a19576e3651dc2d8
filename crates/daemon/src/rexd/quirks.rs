//! Client quirks: what known clients cannot take, keyed by the name they give. The only place that knows them.
//!
//! | client | version it pins | longest line it survives | loses early terminal output |
//! |---|---|---|---|
//! | `opencode-rexd-target` (OpenCode plugin) | – | 1 MiB buffer | yes: the buffer is made when the answer arrives |
//! | `claudecode-rexd-target` (Claude Code plugin) | – | – | yes, the same way |
//! | `opencode-transit` | 0.1.5 | 1 MiB line | yes: events of unknown terminals are dropped |
//! | `opencode-rexd` (its older name) | 0.1.5 | 1 MiB line | yes |

use std::time::Duration;

/// What is done differently for one client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Quirks {
    /// The version it wants to hear instead of ours.
    pub(super) pinned_version: Option<&'static str>,
    /// The longest line it can take.
    pub(super) frame_bytes: Option<usize>,
    /// How long the first output of a terminal is held back after the answer was written.
    pub(super) terminal_hold: Option<Duration>,
}

/// Below the 1,048,576 bytes at which they close the connection, with room for what they count differently.
const SMALL_FRAME: usize = 950_000;
/// Measured: 5 ms lose the first output once in ten, 20 ms never.
const HOLD: Duration = Duration::from_millis(40);

/// The quirks of the client that calls itself `name`.
pub(super) fn of(name: &str) -> Quirks {
    match name {
        "opencode-rexd-target" => {
            Quirks { pinned_version: None, frame_bytes: Some(SMALL_FRAME), terminal_hold: Some(HOLD) }
        }
        "claudecode-rexd-target" => {
            Quirks { pinned_version: None, frame_bytes: None, terminal_hold: Some(HOLD) }
        }
        "opencode-transit" | "opencode-rexd" => Quirks {
            pinned_version: Some("0.1.5"),
            frame_bytes: Some(SMALL_FRAME),
            terminal_hold: Some(HOLD),
        },
        _ => Quirks::default(),
    }
}
