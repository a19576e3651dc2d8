//! The configuration files of agents, and the form of a server entry in each.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::change::Setting;
use crate::args::McpClient;
use crate::failure::Failure;

/// A configuration file and the section that lists the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientConfigFile {
    pub(super) file: PathBuf,
    pub(super) section: &'static str,
}

/// The directories of configuration files.
#[derive(Debug, Clone)]
struct ConfigDirs {
    here: PathBuf,
    home: PathBuf,
    config: PathBuf,
    codex: PathBuf,
}

impl ClientConfigFile {
    /// The configuration file of an agent, of the user or of the current project.
    pub(super) fn of(client: McpClient, project: bool) -> Result<ClientConfigFile, Failure> {
        let place = place(client, project, &ConfigDirs::from_environment()?);
        place.ok_or_else(|| {
            Failure::new(format!("{client:?} has no configuration of a project"))
                .hint("run the command without --project")
        })
    }
}

impl ConfigDirs {
    fn from_environment() -> Result<ConfigDirs, Failure> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = set("HOME")
            .ok_or_else(|| Failure::new("cannot find the user's configuration: HOME is not set"))?;
        Ok(ConfigDirs {
            here: std::env::current_dir()?,
            config: set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            codex: set("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
            home,
        })
    }
}

fn place(client: McpClient, project: bool, dirs: &ConfigDirs) -> Option<ClientConfigFile> {
    let ConfigDirs { here, home, config, codex } = dirs;
    let top = if project { here } else { home };
    let (file, section) = match (client, project) {
        (McpClient::Claude, true) => (here.join(".mcp.json"), "mcpServers"),
        (McpClient::Claude, false) => (home.join(".claude.json"), "mcpServers"),
        (McpClient::Cursor, _) => (top.join(".cursor/mcp.json"), "mcpServers"),
        (McpClient::Vscode, true) => (here.join(".vscode/mcp.json"), "servers"),
        (McpClient::Vscode, false) => (config.join("Code/User/mcp.json"), "servers"),
        (McpClient::Opencode, true) => (either(here), "mcp"),
        (McpClient::Opencode, false) => (either(&config.join("opencode")), "mcp"),
        (McpClient::Codex, true) => (here.join(".codex/config.toml"), "mcp_servers"),
        (McpClient::Codex, false) => (codex.join("config.toml"), "mcp_servers"),
        (McpClient::Gemini, _) => (top.join(".gemini/settings.json"), "mcpServers"),
        (McpClient::Zed, true) => (here.join(".zed/settings.json"), "context_servers"),
        (McpClient::Zed, false) => (config.join("zed/settings.json"), "context_servers"),
        (McpClient::Windsurf, false) => (home.join(".codeium/windsurf/mcp_config.json"), "mcpServers"),
        (McpClient::Copilot, true) => (here.join(".mcp.json"), "mcpServers"),
        (McpClient::Copilot, false) => (home.join(".copilot/mcp-config.json"), "mcpServers"),
        (McpClient::Windsurf, true) => return None,
    };
    Some(ClientConfigFile { file, section })
}

/// OpenCode reads either name; an existing .jsonc file is used.
fn either(dir: &Path) -> PathBuf {
    let commented = dir.join("opencode.jsonc");
    match commented.exists() {
        true => commented,
        false => dir.join("opencode.json"),
    }
}

/// The settings that turn off the shell and file tools of an agent; `None` if it has no such settings. The file is that of
/// the servers, unless the settings name another one.
pub(super) fn own_tools_off(client: McpClient, servers: &Path) -> Option<(PathBuf, Vec<Setting>)> {
    let setting = |path: &[&str], value: Value| Setting::new(path, value);
    let beside = |name: &str| servers.with_file_name(name);
    Some(match client {
        McpClient::Claude => {
            // Monitor runs shell commands too.
            let own = ["Bash", "Edit", "Glob", "Grep", "Monitor", "NotebookEdit", "Read", "Write"];
            (beside(".claude").join("settings.json"), vec![setting(&["permissions", "deny"], json!(own))])
        }
        McpClient::Codex => {
            let own = ["shell_tool", "view_image"];
            (servers.to_owned(), own.map(|tool| setting(&["features", tool], json!(false))).to_vec())
        }
        McpClient::Opencode => {
            let own = ["bash", "edit", "glob", "grep", "list", "patch", "read", "write"];
            (servers.to_owned(), own.map(|tool| setting(&["tools", tool], json!(false))).to_vec())
        }
        McpClient::Gemini => {
            let own = [
                "glob",
                "grep_search",
                "list_directory",
                "read_file",
                "read_many_files",
                "replace",
                "run_shell_command",
                "search_file_content",
                "write_file",
            ];
            (servers.to_owned(), vec![setting(&["tools", "exclude"], json!(own))])
        }
        McpClient::Zed => {
            // Tools that a profile does not name are off.
            let profile = json!({ "name": "rex", "tools": {}, "enable_all_context_servers": true });
            let settings =
                [(&["agent", "profiles", "rex"][..], profile), (&["agent", "default_profile"], json!("rex"))];
            (servers.to_owned(), settings.map(|(path, value)| setting(path, value)).to_vec())
        }
        McpClient::Cursor | McpClient::Vscode | McpClient::Windsurf | McpClient::Copilot => return None,
    })
}

/// The tool of an agent that changes files and that no setting turns off.
pub(super) fn own_tool_left_on(client: McpClient) -> Option<&'static str> {
    // The model decides whether Codex offers it; `apply_patch_freeform` has no effect any more.
    (client == McpClient::Codex).then_some("apply_patch")
}

/// The command that starts the server.
#[derive(Debug, Clone)]
pub(super) struct ServerEntry {
    pub(super) program: String,
    pub(super) target: Option<String>,
}

impl ServerEntry {
    fn arguments(&self) -> Vec<String> {
        let target = self.target.iter().flat_map(|target| ["-t".to_owned(), target.clone()]);
        target.chain(["mcp".to_owned()]).collect()
    }

    /// The entry in the form of an agent.
    pub(super) fn to_json(&self, client: McpClient) -> Value {
        let (command, arguments) = (&self.program, self.arguments());
        match client {
            McpClient::Opencode => {
                let whole: Vec<_> = std::iter::once(command.clone()).chain(arguments).collect();
                json!({ "type": "local", "command": whole, "enabled": true })
            }
            McpClient::Claude | McpClient::Vscode => {
                json!({ "type": "stdio", "command": command, "args": arguments })
            }
            McpClient::Copilot => {
                json!({ "type": "stdio", "command": command, "args": arguments, "tools": ["*"] })
            }
            McpClient::Cursor
            | McpClient::Codex
            | McpClient::Gemini
            | McpClient::Zed
            | McpClient::Windsurf => {
                json!({ "command": command, "args": arguments })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_has_its_files_and_its_form() {
        let dirs = ConfigDirs {
            here: "/p".into(),
            home: "/h".into(),
            config: "/h/.config".into(),
            codex: "/h/.codex".into(),
        };
        let file =
            |client, project| place(client, project, &dirs).map(|place| place.file.display().to_string());
        for (client, user, project) in [
            (McpClient::Claude, "/h/.claude.json", "/p/.mcp.json"),
            (McpClient::Codex, "/h/.codex/config.toml", "/p/.codex/config.toml"),
            (McpClient::Opencode, "/h/.config/opencode/opencode.json", "/p/opencode.json"),
            (McpClient::Cursor, "/h/.cursor/mcp.json", "/p/.cursor/mcp.json"),
            (McpClient::Vscode, "/h/.config/Code/User/mcp.json", "/p/.vscode/mcp.json"),
            (McpClient::Gemini, "/h/.gemini/settings.json", "/p/.gemini/settings.json"),
            (McpClient::Zed, "/h/.config/zed/settings.json", "/p/.zed/settings.json"),
            (McpClient::Copilot, "/h/.copilot/mcp-config.json", "/p/.mcp.json"),
        ] {
            assert_eq!(file(client, false).as_deref(), Some(user));
            assert_eq!(file(client, true).as_deref(), Some(project));
        }
        let windsurf = file(McpClient::Windsurf, false);
        assert_eq!(windsurf.as_deref(), Some("/h/.codeium/windsurf/mcp_config.json"));
        assert_eq!(file(McpClient::Windsurf, true), None);
        let entry = ServerEntry { program: "/bin/rex".to_owned(), target: Some("web".to_owned()) };
        assert_eq!(entry.to_json(McpClient::Opencode)["command"], json!(["/bin/rex", "-t", "web", "mcp"]));
        assert_eq!(entry.to_json(McpClient::Copilot)["tools"], json!(["*"]));
        let (file, _) = own_tools_off(McpClient::Claude, Path::new("/h/.claude.json")).unwrap();
        assert_eq!(file, Path::new("/h/.claude/settings.json"));
        let (file, _) = own_tools_off(McpClient::Claude, Path::new("/p/.mcp.json")).unwrap();
        assert_eq!(file, Path::new("/p/.claude/settings.json"));
    }
}
