//! The command line of the stringd face.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::{ParsedFlags, UsageError, none_left};
use crate::config::ConfigArgs;

/// The arguments of `rexd stringd`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StringdArgs {
    /// The flags that select the configuration.
    pub config: ConfigArgs,
    /// The port on the loopback interface; otherwise that of the environment or the configuration.
    pub port: Option<u16>,
    /// Whether the protocol's own log is written.
    pub log: bool,
}

impl ParsedFlags {
    pub(super) fn stringd(&self, operands: &[OsString]) -> Result<StringdArgs, UsageError> {
        let (port, rest) = match operands {
            [port, rest @ ..] => {
                let text = port.to_string_lossy();
                let invalid = |_| {
                    UsageError::new(format!("invalid port {text:?}"), "`rexd stringd` expects 0 to 65535")
                };
                (Some(text.parse().map_err(invalid)?), rest)
            }
            [] => (None, operands),
        };
        none_left(rest)?;
        Ok(StringdArgs { config: self.config(&[])?, port, log: self.has("log") })
    }
}

/// The arguments as `rexd stringd` has them: of a program called `stringd`, or of a client that starts
/// `--daemon foreground PORT`. Others are returned as they are, except the client's own `--daemon start|stop|status`.
pub(super) fn as_command(program: &OsStr, arguments: Vec<OsString>) -> Result<Vec<OsString>, UsageError> {
    let is_stringd = Path::new(program).file_name().is_some_and(|name| name == "stringd");
    let (is_daemon, arguments) = match arguments.as_slice() {
        [daemon, foreground, rest @ ..] if daemon == "--daemon" && foreground == "foreground" => {
            (true, rest.to_vec())
        }
        [daemon, rest @ ..] if daemon == "--daemon" => {
            let word = rest.first().map(|word| format!(" {}", word.to_string_lossy())).unwrap_or_default();
            let hint = "run `rexd stringd PORT`, or use the service manager; `POST /shutdown` stops the daemon and \
                        `GET /health` shows its status";
            return Err(UsageError::new(format!("`--daemon{word}` is not supported"), hint));
        }
        _ => (false, arguments),
    };
    Ok(match is_stringd || is_daemon {
        true => std::iter::once("stringd".into()).chain(arguments).collect(),
        false => arguments,
    })
}
