//! The envelope of every message, and the names of the message types.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One message. Unknown members are ignored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Envelope {
    /// The message type, one of [`kind`].
    #[serde(rename = "type")]
    pub kind: String,
    /// When the message was made, RFC 3339. Always sent; may be missing or wrong in what is received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ts: Option<String>,
    /// The host. The hub replaces it with the authenticated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The number of an event in its run, from 1 without gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// What the type defines. The hub forwards it unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl Envelope {
    /// A message of this type with this data, and nothing else yet.
    pub fn new(kind: &str, ts: String, data: &impl Serialize) -> Result<Envelope, serde_json::Error> {
        let data = Some(serde_json::value::to_raw_value(data)?);
        Ok(Envelope { kind: kind.to_owned(), ts: Some(ts), host_id: None, run_id: None, seq: None, data })
    }

    /// The message in one text frame.
    pub fn parse(text: &str) -> Result<Envelope, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Decodes the data; missing data counts as an empty object.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.data.as_deref().map_or("{}", RawValue::get))
    }
}

/// The names of the message types.
pub mod kind {
    /// Event: a run has started.
    pub const RUN_STARTED: &str = "run.started";
    /// Event: output of a run.
    pub const RUN_OUTPUT: &str = "run.output";
    /// Event: a run waits for input.
    pub const RUN_AWAITING_INPUT: &str = "run.awaiting_input";
    /// Event: a run no longer waits for input, although none was written. Sent by rexd.
    pub const RUN_CONTINUED: &str = "run.continued";
    /// Event: input was written to a run.
    pub const RUN_INPUT: &str = "run.input";
    /// Event: a run has ended.
    pub const RUN_EXITED: &str = "run.exited";
    /// Event: events of a run were dropped before they were sent.
    pub const RUN_LOST: &str = "run.lost";
    /// Event: a person has to decide.
    pub const RUN_PERMISSION_REQUESTED: &str = "run.permission_requested";
    /// Event: a request for permission was settled.
    pub const RUN_PERMISSION_DECIDED: &str = "run.permission_decided";
    /// Event: an operation begins.
    pub const TOOL_CALL: &str = "tool.call";
    /// Event: an operation has ended.
    pub const TOOL_RESULT: &str = "tool.result";

    /// Command: write text to a run, once per `input_id`.
    pub const RUN_SEND_INPUT: &str = "run.send_input";
    /// Command: write keys to a run.
    pub const RUN_SEND_STDIN: &str = "run.send_stdin";
    /// Command: resize the terminal of a run.
    pub const RUN_RESIZE: &str = "run.resize";
    /// Command: stop a run.
    pub const RUN_STOP: &str = "run.stop";
    /// Command: approve a request.
    pub const RUN_PERMISSION_APPROVE: &str = "run.permission.approve";
    /// Command: deny a request.
    pub const RUN_PERMISSION_DENY: &str = "run.permission.deny";

    /// App to hub: send the output of this run from here on.
    pub const RUN_SUBSCRIBE: &str = "run.subscribe";
    /// App to hub: stop sending the output of this run.
    pub const RUN_UNSUBSCRIBE: &str = "run.unsubscribe";
    /// App to hub: the token, for clients that keep it out of the URL.
    pub const APP_AUTH: &str = "app.auth";
    /// Hub to app: the connection is authenticated, and what is pending follows.
    pub const APP_READY: &str = "app.ready";
    /// App to hub: answered with `app.pong`.
    pub const APP_PING: &str = "app.ping";
    /// Hub to app: the answer to `app.ping`.
    pub const APP_PONG: &str = "app.pong";
    /// Hub to app: a user has decided a request; the host has not confirmed it yet.
    pub const APPROVAL_DECISION: &str = "approval.decision";
    /// Hub to app: messages were dropped because the app reads too slowly.
    pub const APP_RESYNC: &str = "app.resync";
    /// Hub to app: a message could not be delivered.
    pub const APP_ERROR: &str = "app.error";
    /// Hub to app: a host has connected.
    pub const HOST_ONLINE: &str = "host.online";
    /// Hub to app: a host has disconnected.
    pub const HOST_OFFLINE: &str = "host.offline";

    /// Hub to host: the events of a run that are stored.
    pub const RUN_ACK: &str = "run.ack";
    /// Host to hub: the first message, with the runs that the host has.
    pub const HOST_HELLO: &str = "host.hello";
    /// Host to hub: the host is alive.
    pub const HOST_HEARTBEAT: &str = "host.heartbeat";
    /// Hub to host: answers `host.hello`, after the acknowledgements of its runs.
    pub const HUB_READY: &str = "hub.ready";
    /// Hub to host: a message was rejected.
    pub const HUB_ERROR: &str = "hub.error";

    /// The response to an `rpc.*` request.
    pub const RPC_RESPONSE: &str = "rpc.response";
}
