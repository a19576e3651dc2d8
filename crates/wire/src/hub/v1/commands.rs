//! The data of commands, which an app sends and the hub forwards to the host of the run.

use serde::{Deserialize, Serialize};

/// The data of `run.send_input`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInput {
    /// An id of the client: input with the same id takes effect once.
    pub input_id: String,
    /// The text to type.
    pub text: String,
    /// `web`, `cli` or `system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// `run.send_stdin`: keys, without an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendStdin {
    /// The text to type.
    pub text: String,
    /// `web`, `cli` or `system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// The data of `run.resize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resize {
    /// The columns, 2 to 500.
    pub cols: u16,
    /// The rows, 1 to 200.
    pub rows: u16,
}

/// The data of `run.stop` and `rpc.run.stop`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// `term` (the default), `kill` or `int`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// `web`, `cli` or `system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// The data of `run.permission.approve` and `run.permission.deny`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionDecision {
    /// The request.
    pub request_id: String,
    /// `web`, `cli` or `system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// `approve`, `approve_for_session`, `deny` or `abort`; what the message type says if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Why, for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to type instead of `approve_text` or `deny_text`, for a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The user, set by the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The data of `run.subscribe`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// Whether this run replaces all others.
    #[serde(default)]
    pub replace: bool,
    /// Whether output is sent; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_output: Option<bool>,
    /// Continue after this event: stored events follow, then new ones, without a gap or a repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<i64>,
}

/// The data of `app.auth`.
#[derive(Clone, Serialize, Deserialize)]
pub struct AppAuth {
    /// The access token.
    pub token: String,
}

impl std::fmt::Debug for AppAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AppAuth")
    }
}

/// The data of `app.ready`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppReady {
    /// The user.
    pub user: String,
    /// `admin`, `operator` or `viewer`.
    pub role: String,
    /// The version of the hub.
    pub version: String,
    /// The version of the web application in the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle_version: Option<String>,
}

/// `approval.decision`: a user has decided; the host confirms it with `run.permission_decided`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDecision {
    /// The request.
    pub request_id: String,
    /// `approve`, `approve_for_session`, `deny` or `abort`.
    pub decision: String,
    /// Who decided.
    pub user: String,
    /// Why, in the words of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `app.resync`: read the lists again, and subscribe with `after_seq`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppResync {
    /// The number of dropped messages.
    pub dropped: u64,
}

/// The data of `app.error` and `hub.error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRejected {
    /// A word for programs: `unknown_run`, `host_offline`, `forbidden`, `bad_message`…
    pub code: String,
    /// The reason for the user.
    pub message: String,
    /// The type of the rejected message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_type: Option<String>,
    /// The id of the rejected message: `request_id` or `input_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_id: Option<String>,
}
