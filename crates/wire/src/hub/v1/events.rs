//! The data of events, which a host numbers and sends.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The data of `run.started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The tool: `codex`, `claude`, `shell`…; for a process of another face, the face.
    pub tool: String,
    /// The working directory.
    pub cwd: String,
    /// The command line.
    pub command: String,
}

/// The data of `run.output`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutput {
    /// `stdout` or `stderr`; a terminal has only `stdout`.
    pub stream: String,
    /// The output, in whole characters; bytes that are not text are replaced.
    pub text: String,
    /// The exact bytes as base64, if `text` is not exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// Why a run waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwaitReason {
    /// An operation needs a decision.
    Permission,
    /// One of several options is to be selected.
    Choice,
    /// Text is to be typed.
    Prompt,
    /// The program reads its terminal; what it expects is not known.
    #[serde(other)]
    Unknown,
}

/// The data of `run.awaiting_input`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAwaitingInput {
    /// Why.
    pub reason: AwaitReason,
    /// The prompt on the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The request for permission that this belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Whether the terminal shows what is typed; false for a password. Sent by rexd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<bool>,
    /// The options of a choice. Sent by rexd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<ChoiceOption>,
}

/// `run.continued` has no members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunContinued {}

/// One option of a choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChoiceOption {
    /// The text on the screen.
    pub label: String,
    /// What selects it when it is typed.
    pub text: String,
}

/// The data of `run.input`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInput {
    /// `web`, `cli` or `system`.
    pub actor: String,
    /// The id that the client gave the input.
    pub input_id: String,
    /// The text without secrets; empty if it was typed without echo.
    pub text_redacted: String,
    /// SHA-256 of the text; empty if it was typed without echo.
    pub text_sha256: String,
    /// Whether the text was typed without echo, as a password is: it is stored nowhere. Sent by rexd.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
    /// The user of the hub, if known. Sent by rexd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The data of `run.exited`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunExited {
    /// The exit code; 128 plus the number of the signal that ended it.
    pub exit_code: i64,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

/// `run.lost`: takes the place of dropped events. Its own `seq` is `last_seq`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLost {
    /// The first dropped event.
    pub first_seq: i64,
    /// The last dropped event.
    pub last_seq: i64,
    /// The dropped bytes of output.
    pub bytes: u64,
}

/// The data of `run.permission_requested`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermissionRequested {
    /// The request.
    pub request_id: String,
    /// Why.
    pub reason: AwaitReason,
    /// A short text for the person.
    pub prompt: String,
    /// The operation: `rpc.fs.write`, `bash`…
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op_tool: Option<String>,
    /// The arguments, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op_args: Option<Value>,
    /// The arguments in at most 80 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op_args_summary: Option<String>,
    /// What is typed on approval; empty if the operation waits in the host.
    pub approve_text: String,
    /// What is typed on denial.
    pub deny_text: String,
    /// `low`, `medium` or `high`. Sent by rexd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
    /// The working directory. Sent by rexd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Who asks. Sent by rexd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// When the request is denied without an answer, RFC 3339. Sent by rexd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// The data of `run.permission_decided`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionDecided {
    /// The request.
    pub request_id: String,
    /// `approve`, `approve_for_session`, `deny`, `timeout`, `withdrawn` or `in_doubt`; `input` if it was answered by typing.
    pub decision: String,
    /// `web`, `cli` or `system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Why, in the words of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The data of `tool.call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Connects call and result.
    pub request_id: String,
    /// The operation.
    pub tool: String,
    /// `local`, `web`, `cli` or `system`.
    pub actor: String,
    /// The arguments, redacted.
    pub args: Value,
}

/// `tool.result`. `result` and `error` are always present; the unused one is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Connects call and result.
    pub request_id: String,
    /// The operation.
    pub tool: String,
    /// `local`, `web`, `cli` or `system`.
    pub actor: String,
    /// Whether it succeeded.
    pub ok: bool,
    /// How long it took.
    #[serde(default)]
    pub duration_ms: u64,
    /// The result.
    #[serde(default)]
    pub result: Value,
    /// The error.
    #[serde(default)]
    pub error: Option<String>,
}
