//! The command line: commands, flags and their help.
#![allow(rustdoc::broken_intra_doc_links, reason = "the help contains [USER@]HOST")]

mod examples;
mod fast_path;
mod files;
mod hub;
mod rsh;
mod string;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ArgGroup, Parser, Subcommand, ValueEnum};

pub use fast_path::{misuse_hint, parse};
pub use files::{
    CpArgs, EditArgs, GlobArgs, GrepArgs, LsArgs, MkdirArgs, MvArgs, PatchArgs, ReadArgs, RmArgs, StatArgs,
    WatchArgs, WriteArgs,
};
pub use hub::{LoginArgs, LogoutArgs, RunSignal, RunStartArgs, RunWatchArgs, RunsCommand};
pub use rsh::{RshArgs, RshCommandLine};
pub use string::StringArgs;
pub use target::{TargetAddArgs, TargetCommand, TargetInstallArgs};

/// Run commands, open terminals and work with files on any machine
#[derive(Debug, Parser)]
#[command(name = "rex", version, after_help = examples::REX, propagate_version = true, max_term_width = 100)]
pub struct RexArgs {
    /// Options of every command
    #[command(flatten)]
    pub global: GlobalOptions,

    /// The command to run
    #[command(subcommand)]
    pub command: RexCommand,
}

/// The options that every command takes.
#[derive(Debug, ArgGroup)]
pub struct GlobalOptions {
    /// Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)
    #[arg(short = 't', long, global = true, value_name = "TARGET", help_heading = GLOBAL)]
    pub target: Option<String>,

    /// Print results as JSON, one line each, and errors as JSON on stderr
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
}

/// The help heading of the global options.
const GLOBAL: &str = "Global options";

/// A command of `rex`.
#[derive(Debug, Subcommand)]
pub enum RexCommand {
    /// Run a command and exit with its status
    #[command(after_help = examples::EXEC)]
    Exec(ExecArgs),
    /// Open a shell in a terminal; `Enter ~ .` detaches, `rex attach` reattaches
    #[command(after_help = examples::SHELL)]
    Shell(ShellArgs),
    /// Reattach to a process: show its output and send it input
    Attach(AttachArgs),
    /// Print the output of a process, running or exited
    Logs(LogsArgs),
    /// List processes, including detached ones
    Ps(PsArgs),
    /// Kill a process and its children, or send it a signal
    Kill(KillArgs),
    /// Wait for a process and exit with its status
    Wait(WaitArgs),
    /// Remove the logs of ended detached processes
    Prune,
    /// Print a file, byte for byte
    Read(ReadArgs),
    /// Write stdin to a file
    #[command(after_help = examples::WRITE)]
    Write(WriteArgs),
    /// Replace text in a file
    Edit(EditArgs),
    /// Apply a patch from stdin, completely or not at all
    #[command(after_help = examples::PATCH)]
    Patch(PatchArgs),
    /// List a directory
    Ls(LsArgs),
    /// Find files by pattern, such as `**/*.rs`
    Glob(GlobArgs),
    /// Search the contents of files
    #[command(after_help = examples::GREP)]
    Grep(GrepArgs),
    /// Show type, size, mode, owner and time of a path
    Stat(StatArgs),
    /// Create a directory
    Mkdir(MkdirArgs),
    /// Rename or move a file or directory on a target
    Mv(MvArgs),
    /// Remove files, or directories with -r
    Rm(RmArgs),
    /// Report changes below a path until Ctrl-C
    Watch(WatchArgs),
    /// Copy files to, from or between targets
    #[command(after_help = examples::CP)]
    Cp(CpArgs),
    /// Run a command with the command line of ssh, for rsync, git, scp, sftp and Ansible
    #[command(after_help = examples::RSH)]
    Rsh(RshArgs),
    /// Manage targets: add, test, choose, and install rexd on them
    #[command(subcommand, after_help = examples::TARGET)]
    Target(TargetCommand),
    /// Check this client, the registry and every target; exit with 1 if one does not work
    Doctor,
    /// Run a command of a stringd daemon on this machine
    #[command(after_help = examples::STRING)]
    String(StringArgs),
    /// List and answer approval requests
    #[command(subcommand, after_help = examples::APPROVALS)]
    Approvals(ApprovalsCommand),
    /// Sign in to a hub, which then carries `-t hub:HOST`
    #[command(after_help = examples::LOGIN)]
    Login(LoginArgs),
    /// Sign out of a hub
    Logout(LogoutArgs),
    /// List the hosts of a hub
    Hosts,
    /// List, watch, start and control the runs on the hosts of a hub
    #[command(subcommand, after_help = examples::RUNS)]
    Runs(RunsCommand),
    /// Serve the tools to an agent through MCP, or configure an agent to use them
    #[command(after_help = examples::MCP)]
    Mcp(McpArgs),
    /// Print the schemas of the tools, for your own agent
    Tools(ToolsArgs),
    /// Call one tool, as an agent does
    Call(CallArgs),
    /// Run a demonstration on a sample workspace or on yours
    Up(UpArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the candidates for a word, for the completion scripts
    #[command(hide = true)]
    Complete(CompleteArgs),
    /// Write the manual pages to a directory
    #[command(hide = true)]
    Man(ManArgs),
}

/// Arguments of `rex exec`.
#[derive(Debug, ArgGroup)]
pub struct ExecArgs {
    /// Kill the command after this time, such as 30s, 5m or 2h [default: the limit of the host]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Set an environment variable; repeatable
    #[arg(short, long, value_name = "K=V", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Working directory on the target
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Allocate a terminal
    #[arg(long)]
    pub tty: bool,
    /// Name of the process, for `rex attach`, `logs`, `wait` and `kill`
    #[arg(long, value_name = "N")]
    pub name: Option<String>,
    /// Detach: print the process id and exit; the process survives the connection and the daemon
    #[arg(short, long)]
    pub detach: bool,
    /// Run in a sandbox: read-only or workspace-write
    #[arg(long, value_name = "PROFILE")]
    pub sandbox: Option<String>,
    /// Do not forward stdin; the command reads end of file
    #[arg(short = 'n', long)]
    pub no_stdin: bool,
    /// Forward stdin, as it is without this option; accepted because docker has it
    #[arg(short, long, conflicts_with = "no_stdin")]
    pub interactive: bool,
    /// Run this text with the shell of the target instead of a command: -c 'ls | wc -l'
    #[arg(short = 'c', value_name = "TEXT", conflicts_with = "command")]
    pub text: Option<String>,
    /// Command and arguments, passed without a shell
    // An unknown flag before the command is an error; after its first word, everything belongs to the command.
    #[arg(trailing_var_arg = true, required_unless_present = "text", value_name = "CMD")]
    pub command: Vec<String>,
}

/// Arguments of `rex shell`.
#[derive(Debug, ArgGroup)]
pub struct ShellArgs {
    /// Working directory on the target
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Set an environment variable; repeatable
    #[arg(short, long, value_name = "K=V", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Command to run instead of the login shell
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// Arguments of `rex attach`.
#[derive(Debug, ArgGroup)]
pub struct AttachArgs {
    /// Process id as shown by `rex ps`, a unique prefix of it, or its name [default: the only running process]
    pub id: Option<String>,
    /// Skip the output so far
    #[arg(long)]
    pub new: bool,
    /// Forward stdin even if it is not a terminal
    #[arg(short, long)]
    pub input: bool,
}

/// Arguments of `rex logs`.
#[derive(Debug, ArgGroup)]
pub struct LogsArgs {
    /// Process id as shown by `rex ps`, a unique prefix of it, or its name
    pub id: String,
    /// Follow the output until the process exits
    #[arg(short, long)]
    pub follow: bool,
    /// Start at this offset of the output
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub cursor: u64,
    /// Print only the last lines of the output so far, at most 4 MiB
    #[arg(long, value_name = "N", conflicts_with = "cursor")]
    pub tail: Option<usize>,
    /// Print only the output of this time, such as 30s, 10m or 2h, to about a second
    #[arg(long, value_name = "D", conflicts_with = "cursor", value_parser = duration)]
    pub since: Option<Duration>,
}

/// Arguments of `rex ps`.
#[derive(Debug, ArgGroup)]
pub struct PsArgs {
    /// Include exited processes
    #[arg(short, long)]
    pub all: bool,
}

/// Arguments of `rex kill`.
#[derive(Debug, ArgGroup)]
pub struct KillArgs {
    /// Process id as shown by `rex ps`, a unique prefix of it, or its name
    pub id: String,
    /// Send this signal instead of killing the process
    #[arg(short, long, value_name = "SIG")]
    pub signal: Option<String>,
}

/// Arguments of `rex wait`.
#[derive(Debug, ArgGroup)]
pub struct WaitArgs {
    /// Process id as shown by `rex ps`, a unique prefix of it, or its name
    pub id: String,
}

/// Subcommands of `rex approvals`.
#[derive(Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// List pending approval requests
    List,
    /// Approve a request
    Approve {
        /// Approval id as shown by `list`; a unique prefix is enough
        id: String,
        /// Scope of the approval: once, session or rule
        #[arg(long)]
        scope: Option<String>,
    },
    /// Deny a request
    Deny {
        /// Approval id as shown by `list`; a unique prefix is enough
        id: String,
    },
    /// Show requests as they arrive and prompt for an answer
    Watch,
}

/// Arguments of `rex mcp`.
#[derive(Debug, ArgGroup)]
pub struct McpArgs {
    /// Serve HTTP on this address instead of stdin and stdout; clients authenticate with a token
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// Add structured content and links to results, for clients that are programs; agents show it to the model instead of
    /// the text
    #[arg(long)]
    pub structured: bool,
    /// Subcommand; without one, serve MCP
    #[command(subcommand)]
    pub command: Option<McpCommand>,
}

/// Subcommands of `rex mcp`.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Add the server to the configuration of an agent, after showing the change
    Install {
        /// Agent to configure
        client: McpClient,
        /// Also turn off the agent's own shell and file tools, where it has a setting for it
        #[arg(long)]
        only: bool,
        /// Where and how to write
        #[command(flatten)]
        options: McpInstallArgs,
    },
    /// Remove the server from the configuration of an agent, and undo --only
    Uninstall {
        /// Agent to configure
        client: McpClient,
        /// Where and how to write
        #[command(flatten)]
        options: McpInstallArgs,
    },
}

/// Common arguments of `rex mcp install` and `rex mcp uninstall`.
#[derive(Debug, ArgGroup)]
pub struct McpInstallArgs {
    /// Name of the server in the configuration, for two targets side by side
    #[arg(long, value_name = "N", default_value = "rex")]
    pub name: String,
    /// Write the configuration of the current project instead of the user's
    #[arg(long)]
    pub project: bool,
    /// Write without a prompt
    #[arg(short, long)]
    pub yes: bool,
    /// Show the change without writing it
    #[arg(long)]
    pub dry_run: bool,
}

/// An agent program that is an MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the variants are names of programs")]
pub enum McpClient {
    Claude,
    Codex,
    Opencode,
    Cursor,
    Vscode,
    Gemini,
    Zed,
    Windsurf,
    Copilot,
}

/// Arguments of `rex tools`.
#[derive(Debug, ArgGroup)]
pub struct ToolsArgs {
    /// Format of the schemas
    #[arg(long, default_value = "json-schema")]
    pub format: ToolFormat,
}

/// The format in which schemas are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the variants are names of formats")]
pub enum ToolFormat {
    Openai,
    Anthropic,
    JsonSchema,
}

/// Arguments of `rex call`.
#[derive(Debug, ArgGroup)]
pub struct CallArgs {
    /// Tool name as shown by `rex tools`
    pub tool: String,
    /// Arguments as a JSON object, or `-` to read them from stdin
    pub arguments: String,
}

/// Arguments of `rex up`.
#[derive(Debug, ArgGroup)]
pub struct UpArgs {
    /// Directory to serve [default: a temporary sample workspace]
    pub workspace: Option<PathBuf>,
    /// Exit after the demonstration
    #[arg(long)]
    pub once: bool,
    /// Serve the local network over TLS and print a QR code for a phone
    #[arg(long)]
    pub lan: bool,
}

/// Arguments of `rex completions`.
#[derive(Debug, ArgGroup)]
pub struct CompletionsArgs {
    /// Shell: bash, zsh, fish, elvish or powershell
    pub shell: String,
}

/// Arguments of `rex complete`.
#[derive(Debug, ArgGroup)]
pub struct CompleteArgs {
    /// The words so far, from the name of the program to the one to complete
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Arguments of `rex man`.
#[derive(Debug, ArgGroup)]
pub struct ManArgs {
    /// Output directory
    pub directory: PathBuf,
}

/// Parses a duration: `30`, `30s`, `500ms`, `5m`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number
        .parse()
        .map_err(|_| "expected a number with the unit ms, s, m or h, such as 30s".to_owned())?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "" | "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => return Err("unknown unit; use ms, s, m or h".to_owned()),
    };
    milliseconds.map(Duration::from_millis).ok_or_else(|| "duration too large".to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_definition_is_consistent() {
        RexArgs::command().debug_assert();
    }

    #[test]
    fn the_target_flag_may_come_before_or_after_the_command() {
        for line in [["rex", "-t", "x", "exec", "--", "true"], ["rex", "exec", "-t", "x", "--", "true"]] {
            assert_eq!(RexArgs::parse_from(line).global.target.as_deref(), Some("x"));
        }
    }

    #[test]
    fn durations_are_parsed_with_their_unit() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("3m"), Ok(Duration::from_secs(180)));
        for wrong in ["", "s", "1d", "99999999999999999999h", "99999999999999999h", "-1s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
