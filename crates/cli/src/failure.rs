//! Failure: what a command could not do, what to do next, and the status it ends with.

use client::{Error, v1};
use serde_json::{Value, json};

use crate::table::plain;

/// Our own failures end with this, as ssh's do.
pub const OWN_FAILURE: u8 = 255;
/// A command whose time was up ends with this, as `timeout` does.
pub const TIMED_OUT: u8 = 124;
/// A program that is not there ends with this, as in a shell.
pub const NOT_FOUND: u8 = 127;

/// How a command ends: the status of what ran, or our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u8);

impl Status {
    /// All went well.
    pub const OK: Status = Status(0);
    /// It went well and found nothing, as grep says it.
    pub const NOTHING: Status = Status(1);
}

impl From<Status> for std::process::ExitCode {
    fn from(status: Status) -> std::process::ExitCode {
        std::process::ExitCode::from(status.0)
    }
}

/// What could not be done.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What was tried and what went wrong.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// The server's code, or -1 for failures of our own.
    pub code: i64,
    /// What it happened to.
    pub data: Value,
    /// The status to end with.
    pub status: u8,
}

impl Failure {
    /// A failure of our own.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: None, code: -1, data: json!({}), status: OWN_FAILURE }
    }

    /// The same, with what to do next.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// The same, ending with another status.
    #[must_use]
    pub fn status(self, status: u8) -> Failure {
        Failure { status, ..self }
    }

    /// As `--json` shows it.
    pub fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message, "data": self.data });
        if let (Some(hint), Some(data)) = (&self.hint, error["data"].as_object_mut()) {
            data.insert("hint".to_owned(), json!(hint));
        }
        json!({ "error": error })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let message = error.to_string();
        match error {
            Error::Refused(error) => {
                let message = match (error.code, error.data["path"].as_str()) {
                    (v1::codes::FORBIDDEN_PATH, Some(path)) if !message.contains(path) => {
                        format!("{message}: {}", plain(path))
                    }
                    _ => message,
                };
                Failure { hint: hint_for(&error), code: error.code, data: error.data, ..Failure::new(message) }
            }
            Error::Connect(error) => Failure { hint: error.hint.clone(), ..Failure::new(message) },
            Error::Ambiguous { .. } => {
                Failure::new(message).hint("look whether it was done before you ask again")
            }
            Error::TooLarge { .. } => Failure::new(message)
                .hint("do it in smaller parts; `rex write` and `rex cp` do so by themselves"),
            Error::Decode { .. }
            | Error::DecodeContent { .. }
            | Error::ResponseTooLarge { .. }
            | Error::MissingExit { .. } => Failure::new(message)
                .hint("another server, or another version of it, may be there: `rex target install HOST` puts this one there"),
            Error::Lost(_) | Error::Encode { .. } | Error::Random(_) | Error::ReadInput(_) | Error::Closed => {
                Failure::new(message)
            }
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::new(error.to_string())
    }
}

/// What to do about a refusal of the server.
fn hint_for(error: &v1::RpcError) -> Option<String> {
    let words = |value: &Value| {
        let list = value.as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>();
        (!list.is_empty()).then(|| list.join(", "))
    };
    match error.code {
        v1::codes::FORBIDDEN_PATH => Some(match words(&error.data["allowed_roots"]) {
            Some(roots) => {
                format!("allowed are: {roots}; the operator adds roots in the config of rexd there")
            }
            None => {
                "no root is configured there: add [[security.allowed_roots]] to the config of rexd".to_owned()
            }
        }),
        v1::codes::UNAUTHORIZED if error.data.get("rule").is_some() => {
            Some("a rule of the operator says so: `rexd policy explain` on that machine shows it; what it asks about is answered at a terminal, or by `rex approvals watch` meanwhile".to_owned())
        }
        v1::codes::PROCESS_NOT_FOUND => Some("`rex ps` lists the processes there".to_owned()),
        _ => None,
    }
}
