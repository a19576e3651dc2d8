//! The command line of the host face.

use std::ffi::OsString;

use super::{ParsedFlags, UsageError, none_left};
use crate::config::ConfigArgs;

/// The flags of `rexd host`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct HostArgs {
    /// The flags that select the configuration.
    pub config: ConfigArgs,
    /// The hubs to connect to; otherwise those of the environment or the configuration.
    pub hubs: Vec<String>,
    /// The id of this host; otherwise the one in the state directory.
    pub host_id: Option<String>,
    /// The code with which it enrols.
    pub join: Option<String>,
}

impl std::fmt::Debug for HostArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostArgs")
            .field("hubs", &self.hubs)
            .field("host_id", &self.host_id)
            .finish_non_exhaustive()
    }
}

/// The arguments of `rexd run`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunArgs {
    /// The flags that select the configuration.
    pub config: ConfigArgs,
    /// The name of the tool.
    pub tool: String,
    /// The command; the tool itself if it is empty.
    pub command: Vec<String>,
}

impl ParsedFlags {
    pub(super) fn run(&self, operands: &[OsString]) -> Result<RunArgs, UsageError> {
        let words =
            operands.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<Vec<String>>>();
        let command = words.ok_or_else(|| UsageError::new("the command is not UTF-8", "use UTF-8"))?;
        let tool = self.text("tool")?.unwrap_or_default();
        if command.is_empty() && tool.is_empty() {
            let hint = "use `rexd run -- COMMAND...` or `rexd run --tool NAME`";
            return Err(UsageError::new("missing command of `rexd run`", hint));
        }
        Ok(RunArgs { config: self.config(&[])?, tool, command })
    }

    pub(super) fn host(&self, operands: &[OsString]) -> Result<HostArgs, UsageError> {
        none_left(operands)?;
        Ok(HostArgs {
            config: self.config(&[])?,
            hubs: self.texts("hub")?,
            host_id: self.text("host-id")?,
            join: self.text("join")?,
        })
    }
}

impl super::ServeArgs {
    /// The flags of its host face.
    pub fn host(&self) -> HostArgs {
        HostArgs {
            config: self.config.clone(),
            hubs: self.hubs.clone(),
            host_id: self.host_id.clone(),
            join: self.join.clone(),
        }
    }
}
