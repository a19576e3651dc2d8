//! Where the tools are that a run can start by name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// The tools that a host reports, whether they are installed or not.
pub(super) const KNOWN: &[&str] = &["codex", "claude", "iflow", "gemini", "opencode"];

/// The programs of tools: configured ones, and the directories to search.
#[derive(Debug, Clone, Default)]
pub struct ToolPaths {
    configured: BTreeMap<String, PathBuf>,
    path: OsString,
}

impl ToolPaths {
    /// From the variables of an environment: `RELAY_NAME_BIN` and `PATH`.
    pub fn from_variables(variables: impl IntoIterator<Item = (OsString, OsString)>) -> ToolPaths {
        let mut tools = ToolPaths::default();
        for (name, value) in variables {
            if name == "PATH" {
                tools.path = value;
            } else if let Some(tool) = name
                .to_str()
                .and_then(|name| name.strip_prefix("RELAY_")?.strip_suffix("_BIN"))
                .filter(|_| !value.is_empty())
            {
                tools.configured.insert(tool.to_ascii_lowercase(), PathBuf::from(value));
            }
        }
        tools
    }

    /// The program of a tool; `None` if it is not installed.
    pub(super) fn find(&self, tool: &str) -> Option<PathBuf> {
        if let Some(configured) = self.configured.get(&tool.to_ascii_lowercase().replace('-', "_")) {
            return is_program(configured).then(|| configured.clone());
        }
        if tool.is_empty() || tool.contains('/') {
            return None;
        }
        std::env::split_paths(&self.path).map(|dir| dir.join(tool)).find(|program| is_program(program))
    }

    /// Where a tool is expected: its program, or its name.
    pub(super) fn expected(&self, tool: &str) -> PathBuf {
        self.find(tool).or_else(|| self.configured.get(tool).cloned()).unwrap_or_else(|| PathBuf::from(tool))
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_names_a_tool_before_the_path_does() {
        let tools = ToolPaths::from_variables([
            ("PATH".into(), "/nowhere:/bin:/usr/bin".into()),
            ("RELAY_CODEX_BIN".into(), "/bin/cat".into()),
            ("RELAY_CLAUDE_BIN".into(), "/nowhere/claude".into()),
        ]);
        assert_eq!(tools.find("codex").unwrap(), Path::new("/bin/cat"));
        assert_eq!(tools.find("claude"), None, "a wrong variable is not replaced silently");
        assert!(tools.find("sh").unwrap().ends_with("bin/sh"));
        assert_eq!(tools.find("../bin/sh"), None);
        assert_eq!(tools.find(""), None);
    }
}
