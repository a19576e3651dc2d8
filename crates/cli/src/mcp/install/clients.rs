//! The configuration files of agents, and the form of a server entry in each.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

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
        Ok(place(client, project, &ConfigDirs::from_environment()?))
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

fn place(client: McpClient, project: bool, dirs: &ConfigDirs) -> ClientConfigFile {
    let ConfigDirs { here, home, config, codex } = dirs;
    let (file, section) = match (client, project) {
        (McpClient::Claude, true) => (here.join(".mcp.json"), "mcpServers"),
        (McpClient::Claude, false) => (home.join(".claude.json"), "mcpServers"),
        (McpClient::Cursor, true) => (here.join(".cursor/mcp.json"), "mcpServers"),
        (McpClient::Cursor, false) => (home.join(".cursor/mcp.json"), "mcpServers"),
        (McpClient::Vscode, true) => (here.join(".vscode/mcp.json"), "servers"),
        (McpClient::Vscode, false) => (config.join("Code/User/mcp.json"), "servers"),
        (McpClient::Opencode, true) => (either(here), "mcp"),
        (McpClient::Opencode, false) => (either(&config.join("opencode")), "mcp"),
        (McpClient::Codex, true) => (here.join(".codex/config.toml"), "mcp_servers"),
        (McpClient::Codex, false) => (codex.join("config.toml"), "mcp_servers"),
    };
    ClientConfigFile { file, section }
}

/// OpenCode reads either name; an existing .jsonc file is used.
fn either(dir: &Path) -> PathBuf {
    let commented = dir.join("opencode.jsonc");
    match commented.exists() {
        true => commented,
        false => dir.join("opencode.json"),
    }
}

/// The command that starts the server.
#[derive(Debug, Clone)]
pub(super) struct ServerEntry {
    pub(super) program: String,
    pub(super) target: Option<String>,
}

impl ServerEntry {
    pub(super) fn command(&self) -> String {
        self.program.clone()
    }

    pub(super) fn arguments(&self) -> Vec<String> {
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
            McpClient::Cursor | McpClient::Codex => json!({ "command": command, "args": arguments }),
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
        let file = |client, project| place(client, project, &dirs).file.display().to_string();
        for (client, user, project) in [
            (McpClient::Claude, "/h/.claude.json", "/p/.mcp.json"),
            (McpClient::Codex, "/h/.codex/config.toml", "/p/.codex/config.toml"),
            (McpClient::Opencode, "/h/.config/opencode/opencode.json", "/p/opencode.json"),
            (McpClient::Cursor, "/h/.cursor/mcp.json", "/p/.cursor/mcp.json"),
            (McpClient::Vscode, "/h/.config/Code/User/mcp.json", "/p/.vscode/mcp.json"),
        ] {
            assert_eq!((file(client, false).as_str(), file(client, true).as_str()), (user, project));
        }
        let entry = ServerEntry { program: "/bin/rex".to_owned(), target: Some("web".to_owned()) };
        assert_eq!(entry.to_json(McpClient::Opencode)["command"], json!(["/bin/rex", "-t", "web", "mcp"]));
    }
}
