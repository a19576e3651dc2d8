//! stringd 0.1: users, sessions, the request of a command and its three events.
//!
//! Requests are loose: a field of the wrong type counts as missing, because the answer names the missing field.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The port without another setting.
pub const DEFAULT_PORT: u16 = 3100;
/// The header that names the user of a command.
pub const USER_HEADER: &str = "x-user-id";
/// The longest body of a request.
pub const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;
/// Commands of one topic that wait without another setting.
pub const QUEUE_SIZE: usize = 16;
/// Milliseconds that a command waits for its turn without another setting.
pub const QUEUE_WAIT_MS: u64 = 60_000;
/// Milliseconds that a command runs without another setting.
pub const COMMAND_TIMEOUT_MS: u64 = 30_000;
/// The code of an answer whose stream ended too early, made by a client.
pub const STREAM_INCOMPLETE: &str = "STREAM_INCOMPLETE";

/// A registered user, on the wire and in `users.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Its name.
    pub id: String,
    /// Its home directory, absolute.
    pub home: String,
    /// Directories beside the home that workspace mode allows.
    #[serde(default)]
    pub allowed_paths: Vec<String>,
    /// When it was registered: ISO 8601 with milliseconds.
    #[serde(default)]
    pub created_at: String,
    /// Keys that this version does not use, kept as they are.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The answer to `GET /users`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Users {
    /// In the order of registration.
    pub users: Vec<UserItem>,
}

/// A user in a list: the four keys of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserItem {
    /// Its name.
    pub id: String,
    /// Its home directory.
    pub home: String,
    /// Directories beside the home.
    pub allowed_paths: Vec<String>,
    /// When it was registered.
    pub created_at: String,
}

/// The body of `POST /users`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct RegisterUser {
    /// The name, as the document has it.
    #[serde(default)]
    pub id: Value,
    /// The name, as the public client sends it.
    #[serde(default)]
    pub user_id: Value,
    /// The home directory.
    #[serde(default)]
    pub home: Value,
    /// Directories beside the home.
    #[serde(default, alias = "allowedPaths")]
    pub allowed_paths: Value,
}

/// The answer to `POST /users`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRegistered {
    /// The user.
    pub user_id: String,
    /// Its home directory from now on.
    pub home: String,
    /// False if it was known.
    pub created: bool,
}

/// The answer to `DELETE /users/ID`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserDeleted {
    /// The user.
    pub user_id: String,
    /// False if there was none.
    pub deleted: bool,
}

/// The body of `POST /sessions`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct CreateSession {
    /// The user.
    #[serde(default)]
    pub user_id: Value,
    /// The topic.
    #[serde(default)]
    pub topic: Value,
}

/// The answer to `POST /sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCreated {
    /// The user.
    pub user_id: String,
    /// The canonical topic.
    pub topic: String,
    /// Its type.
    pub topic_type: String,
    /// False if it was open.
    pub created: bool,
}

/// The answer to `DELETE /sessions/USER/TOPIC`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDeleted {
    /// The user.
    pub user_id: String,
    /// The topic as it was named.
    pub topic: String,
    /// False if there was none.
    pub deleted: bool,
}

/// The answer to `GET /sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sessions {
    /// The open topics.
    pub sessions: Vec<SessionItem>,
}

/// An open topic: the fields of the document, then those of the public implementation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionItem {
    /// The user.
    pub user_id: String,
    /// The canonical topic.
    pub topic: String,
    /// Its type.
    pub topic_type: String,
    /// Whether a command runs.
    pub executing: bool,
    /// How many commands wait.
    pub queue_length: usize,
    /// The open document.
    pub doc: Option<SessionDocument>,
    /// When the topic was opened.
    pub created: String,
    /// The document's URI.
    pub uri: Option<String>,
    /// The document's title.
    pub title: Option<String>,
    /// The names of its menus.
    pub menus: Vec<String>,
    /// The ids of its actions.
    pub actions: Vec<String>,
    /// Earlier documents.
    pub history_length: usize,
    /// The current block without `#`.
    pub block_id: Option<String>,
}

/// The open document of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDocument {
    /// Its URI.
    pub uri: String,
    /// Its title.
    pub title: Option<String>,
    /// The current block with `#`.
    pub current_block: Option<String>,
}

/// The answer to `GET /health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Always true.
    pub ok: bool,
    /// Registered users.
    pub users: usize,
    /// Open topics of all users.
    pub sessions: usize,
}

/// The answer to `POST /shutdown`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shutdown {
    /// Always true.
    pub ok: bool,
    /// A text for people.
    pub message: String,
}

/// The body of `POST /exec`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Exec {
    /// The command.
    #[serde(default)]
    pub cmd: Value,
    /// The topic.
    #[serde(default)]
    pub topic: Value,
    /// The client's id of the request.
    #[serde(default)]
    pub request_id: Value,
}

/// The data of the event `head`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Whether the command succeeded.
    pub ok: bool,
    /// The code of its failure.
    pub code: Option<String>,
    /// The first line of the command, shortened.
    pub cmd: String,
    /// The client's id of the request.
    pub request_id: Option<String>,
    /// The user.
    pub user_id: String,
    /// The canonical topic.
    pub topic: String,
    /// Its type.
    pub topic_type: String,
    /// The current document after the command.
    pub meta: Option<Meta>,
}

/// The current document of a topic: the fields of the document, then those of the public implementation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Its URI.
    pub uri: String,
    /// Its title.
    pub title: Option<String>,
    /// The current block with `#`.
    pub current_block: Option<String>,
    /// The names of its menus.
    #[serde(default)]
    pub menus: Vec<String>,
    /// The ids of its actions.
    #[serde(default)]
    pub actions: Vec<String>,
    /// Earlier documents.
    #[serde(default)]
    pub history_length: usize,
    /// The current block without `#`.
    #[serde(default)]
    pub block_id: Option<String>,
    /// Whether it was HTML.
    #[serde(default)]
    pub converted: bool,
    /// What is wrong with it.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The body of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The reason, or a code.
    pub error: String,
    /// The reason, beside a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The three events of a command as they are sent.
pub fn events(head: &Head, content: &str) -> serde_json::Result<String> {
    let (head, content) = (serde_json::to_string(head)?, serde_json::to_string(content)?);
    Ok(format!("event: head\ndata: {head}\n\nevent: content\ndata: {content}\n\nevent: done\ndata: {{}}\n\n"))
}
