//! The connection of a host: its first message, acknowledgements, and what apps learn about it.

use serde::{Deserialize, Serialize};

/// `host.hello`: the first message of a host. A host that sends none is served too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHello {
    /// The name of the machine.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The runs with events that are not acknowledged. The hub acknowledges each before `hub.ready`.
    #[serde(default)]
    pub runs: Vec<HeldRun>,
}

/// A run whose events a host still has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRun {
    /// The run.
    pub run_id: String,
    /// Its last event.
    pub last_seq: i64,
}

/// `run.ack`: every event of the run up to `last_seq` is stored, without a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAck {
    /// The run.
    pub run_id: String,
    /// The last stored event before the first gap; 0 if none.
    pub last_seq: i64,
}

/// `hub.ready`: the acknowledgements of all runs of `host.hello` were sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubReady {
    /// The version of the hub.
    pub version: String,
    /// The number of this connection among those of the host.
    pub generation: i64,
}

/// The data of `host.online` and `host.offline`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPresence {
    /// The name of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether that is older than the hub's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_older: Option<bool>,
}

/// A text frame of the hub on a host's REXD connection, before the first binary frame of the stream it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamOpened {
    /// The stream of the relay.
    pub stream_id: String,
    /// The user of the hub.
    pub user: String,
    /// `admin`, `operator` or `viewer`.
    pub role: String,
}
