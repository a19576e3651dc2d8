//! Failure: why a command failed, a hint, and the exit status.

use client::{Error, v1};
use serde_json::{Value, json};

/// Exit status when `rex` itself fails, as with ssh.
pub const OWN_FAILURE: u8 = 255;
/// Exit status of a command that timed out, as with `timeout`.
pub const TIMED_OUT: u8 = 124;
/// Exit status when the program was not found, as in a shell.
pub const NOT_FOUND: u8 = 127;

/// The exit status of `rex`: that of the remote command, or its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandStatus(pub u8);

impl CommandStatus {
    /// The command succeeded.
    pub const OK: CommandStatus = CommandStatus(0);
    /// The command ran but found nothing, or some of its work failed; grep's status 1.
    pub const UNSUCCESSFUL: CommandStatus = CommandStatus(1);
}

impl From<CommandStatus> for std::process::ExitCode {
    fn from(status: CommandStatus) -> std::process::ExitCode {
        std::process::ExitCode::from(status.0)
    }
}

/// Why a command failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What failed and why, on one line.
    pub message: String,
    /// The command or key that solves it.
    pub hint: Option<String>,
    /// The server's error code, or -1 for an error of `rex` itself.
    pub code: i64,
    /// The server's error data.
    pub data: Value,
    /// The exit status.
    pub status: u8,
}

impl Failure {
    /// A failure of `rex` itself.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: None, code: -1, data: json!({}), status: OWN_FAILURE }
    }

    /// The same failure with a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// The same failure with another exit status.
    #[must_use]
    pub fn status(self, status: u8) -> Failure {
        Failure { status, ..self }
    }

    /// The error object that `--json` prints.
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
                        format!("{message}: {path}")
                    }
                    _ => message,
                };
                Failure {
                    hint: hint_for(&error),
                    code: error.code,
                    data: error.data,
                    ..Failure::new(message)
                }
            }
            Error::Connect(error) => Failure { hint: error.hint.clone(), ..Failure::new(message) },
            Error::Ambiguous { .. } => {
                Failure::new(message).hint("check whether it took effect before you run it again")
            }
            Error::TooLarge { .. } => Failure::new(message)
                .hint("split it into smaller parts; `rex write` and `rex cp` do this themselves"),
            Error::Decode { .. }
            | Error::DecodeContent { .. }
            | Error::ResponseTooLarge { .. }
            | Error::InvalidName { .. }
            | Error::MissingExit { .. } => Failure::new(message).hint(
                "the server may be another program or version: `rex target install HOST` installs this one",
            ),
            Error::Lost(_) => Failure::new(message).hint(
                "detached processes continue: `rex ps` lists them when the target can be reached again",
            ),
            Error::Encode { .. } | Error::Random(_) | Error::ReadInput(_) | Error::Closed => {
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

/// The hint for an error that the server returned.
fn hint_for(error: &v1::RpcError) -> Option<String> {
    let words = |value: &Value| {
        let list = value.as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>();
        (!list.is_empty()).then(|| list.join(", "))
    };
    match error.code {
        v1::codes::FORBIDDEN_PATH => Some(match words(&error.data["allowed_roots"]) {
            Some(roots) => {
                format!("allowed roots: {roots}; the operator adds one with [[security.allowed_roots]] in the config of rexd")
            }
            None => {
                "no root is configured: add [[security.allowed_roots]] to the config of rexd on that machine".to_owned()
            }
        }),
        v1::codes::UNAUTHORIZED if error.data.get("rule").is_some() => {
            Some("an operator's rule: run `rexd policy explain` on that machine; approval requests are answered on a terminal or with `rex approvals watch`".to_owned())
        }
        v1::codes::PROCESS_NOT_FOUND => Some("`rex ps -a` lists the processes".to_owned()),
        _ => None,
    }
}
