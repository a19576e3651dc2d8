//! What can be asked on the command line.
#![allow(rustdoc::broken_intra_doc_links, reason = "the help says [USER@]HOST as people write it")]

mod alone;
mod examples;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ArgGroup, Parser, Subcommand, ValueEnum};

pub use alone::parse;
pub use target::{TargetAdd, TargetAsk, TargetInstall};

/// Commands, terminals and files on any machine.
#[derive(Debug, Parser)]
#[command(name = "rex", version, after_help = examples::REX, propagate_version = true, max_term_width = 100)]
pub struct Args {
    /// What every command takes
    #[command(flatten)]
    pub everywhere: Everywhere,

    /// What to do
    #[command(subcommand)]
    pub command: Ask,
}

/// What every command takes.
#[derive(Debug, ArgGroup)]
pub struct Everywhere {
    /// Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)
    #[arg(short = 't', long, global = true, value_name = "TARGET", help_heading = EVERYWHERE)]
    pub target: Option<String>,

    /// Results as JSON, one line each; errors as JSON on stderr
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
}

/// The heading of what every command takes.
const EVERYWHERE: &str = "Options of every command";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Ask {
    /// Run a command; ends as it does
    #[command(after_help = examples::EXEC)]
    Exec(Exec),
    /// Open a terminal; Enter ~ . leaves it running, `rex attach` comes back
    #[command(after_help = examples::SHELL)]
    Shell(Shell),
    /// Take up a process again: its output so far, then as it comes; input goes to it
    Attach(Attach),
    /// Show what a process has written, also one that has ended
    Logs(Logs),
    /// List processes that run there, detached ones too
    Ps(Ps),
    /// End a process with all of its children, or send it a signal
    Kill(Kill),
    /// Wait for a process to end; ends as it did
    Wait(Wait),
    /// Print a file as it is
    Read(Read),
    /// Write stdin to a file
    #[command(after_help = examples::WRITE)]
    Write(Write),
    /// Replace a text that occurs once in a file
    Edit(Edit),
    /// Apply a patch from stdin, whole or not at all
    #[command(after_help = examples::PATCH)]
    Patch(Patch),
    /// List a directory
    Ls(Ls),
    /// Find paths by pattern, such as `**/*.rs`
    Glob(Glob),
    /// Search the contents of files
    #[command(after_help = examples::GREP)]
    Grep(Grep),
    /// Tell what a path is: kind, size, time, rights
    Stat(Stat),
    /// Report what changes below a path, until Ctrl-C
    Watch(Watch),
    /// Copy files and trees, either way or between targets
    #[command(after_help = examples::CP)]
    Cp(Cp),
    /// Name the machines that work is done on, try them, put rexd there
    #[command(subcommand, after_help = examples::TARGET)]
    Target(TargetAsk),
    /// Decide what policy asks a person about
    #[command(subcommand, after_help = examples::APPROVALS)]
    Approvals(ApprovalsAsk),
    /// Give an agent these tools: serve MCP, or write the agent's configuration
    #[command(after_help = examples::MCP)]
    Mcp(Mcp),
    /// Print the tools' schemas, for an agent of your own
    Tools(Tools),
    /// Call one tool as an agent would
    Call(Call),
    /// Show what this can do, on a sample workspace or yours
    Up(Up),
    /// Print completions for a shell: bash, zsh or fish
    Completions(Completions),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man(Man),
}

/// `rex exec`.
#[derive(Debug, ArgGroup)]
pub struct Exec {
    /// End it after this long (30s, 5m, 2h); without it as long as the host allows
    #[arg(long, value_name = "D", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Set a variable; may be given more than once
    #[arg(short, long, value_name = "K=V", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Run it in this directory there
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Give it a terminal, for programs that want one
    #[arg(long)]
    pub tty: bool,
    /// Let it outlive the link and the daemon; prints its id
    #[arg(short, long)]
    pub detach: bool,
    /// Confine it by the kernel: read-only or workspace-write
    #[arg(long, value_name = "PROFILE")]
    pub sandbox: Option<String>,
    /// Leave its stdin empty
    #[arg(short = 'n', long)]
    pub no_stdin: bool,
    /// The command and its arguments; no shell looks at them
    // A flag that is not ours before the command is a mistake; behind its first word everything is its own.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `rex shell`.
#[derive(Debug, ArgGroup)]
pub struct Shell {
    /// Start in this directory there
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Set a variable; may be given more than once
    #[arg(short, long, value_name = "K=V", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Run this in the terminal instead of the shell
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `rex attach`.
#[derive(Debug, ArgGroup)]
pub struct Attach {
    /// The process, as `rex ps` shows it; its first characters do
    pub id: String,
    /// Only what comes from now on
    #[arg(long)]
    pub new: bool,
    /// Send it our stdin, to its end, though that is no terminal
    #[arg(short, long)]
    pub input: bool,
}

/// `rex logs`.
#[derive(Debug, ArgGroup)]
pub struct Logs {
    /// The process, as `rex ps` shows it; its first characters do
    pub id: String,
    /// Go on until it ends
    #[arg(short, long)]
    pub follow: bool,
    /// Start at this place in the output
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub cursor: u64,
}

/// `rex ps`.
#[derive(Debug, ArgGroup)]
pub struct Ps {
    /// Those that have ended, too
    #[arg(short, long)]
    pub all: bool,
}

/// `rex kill`.
#[derive(Debug, ArgGroup)]
pub struct Kill {
    /// The process, as `rex ps` shows it; its first characters do
    pub id: String,
    /// Send this signal instead of ending it
    #[arg(short, long, value_name = "SIG")]
    pub signal: Option<String>,
}

/// `rex wait`.
#[derive(Debug, ArgGroup)]
pub struct Wait {
    /// The process, as `rex ps` shows it; its first characters do
    pub id: String,
}

/// `rex read`.
#[derive(Debug, ArgGroup)]
pub struct Read {
    /// The file there: PATH, :PATH or ALIAS:PATH
    pub path: String,
    /// First byte, from 0
    #[arg(long, default_value_t = 0)]
    pub offset: u64,
    /// How many bytes; without it all
    #[arg(long)]
    pub length: Option<u64>,
}

/// `rex write`.
#[derive(Debug, ArgGroup)]
pub struct Write {
    /// The file there
    pub path: String,
    /// Add to it instead of replacing it
    #[arg(long, conflicts_with = "create")]
    pub append: bool,
    /// Only if it does not exist yet
    #[arg(long)]
    pub create: bool,
}

/// `rex edit`.
#[derive(Debug, ArgGroup)]
pub struct Edit {
    /// The file there
    pub path: String,
    /// What to replace; it must occur once
    pub old: String,
    /// With what
    pub new: String,
    /// Replace every occurrence
    #[arg(short, long)]
    pub all: bool,
}

/// `rex patch`.
#[derive(Debug, ArgGroup)]
pub struct Patch {
    /// Where its relative paths start
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<String>,
}

/// `rex ls`.
#[derive(Debug, ArgGroup)]
pub struct Ls {
    /// The directory there; without it the one where commands start
    pub path: Option<String>,
    /// With everything below
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Sizes and times too
    #[arg(short, long)]
    pub long: bool,
}

/// `rex glob`.
#[derive(Debug, ArgGroup)]
pub struct Glob {
    /// Such as `**/*.rs`
    pub pattern: String,
    /// Where it starts
    pub path: Option<String>,
}

/// `rex grep`.
#[derive(Debug, ArgGroup)]
pub struct Grep {
    /// A regular expression; in lower case it ignores case
    pub pattern: String,
    /// File or directory there
    pub path: Option<String>,
    /// Take the pattern as it is written
    #[arg(short = 'F', long)]
    pub literal: bool,
    /// Ignore case
    #[arg(short, long, conflicts_with = "case_sensitive")]
    pub ignore_case: bool,
    /// Do not ignore case
    #[arg(short = 's', long)]
    pub case_sensitive: bool,
    /// Only files that match this glob; may be given more than once
    #[arg(short = 'g', long = "include", value_name = "GLOB")]
    pub include: Vec<String>,
    /// No files that match this glob; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Lines shown around each match
    #[arg(short = 'C', long, value_name = "LINES", default_value_t = 0)]
    pub context: u32,
    /// Dot files too
    #[arg(long)]
    pub hidden: bool,
    /// Ignored files too
    #[arg(long)]
    pub no_ignore: bool,
    /// At most so many matches
    #[arg(short = 'm', long, value_name = "COUNT")]
    pub max_matches: Option<u32>,
}

/// `rex stat`.
#[derive(Debug, ArgGroup)]
pub struct Stat {
    /// The path there
    pub path: String,
}

/// `rex watch`.
#[derive(Debug, ArgGroup)]
pub struct Watch {
    /// File or directory there; without it the one where commands start
    pub path: Option<String>,
    /// Not what is below
    #[arg(long)]
    pub flat: bool,
}

/// `rex cp`.
#[derive(Debug, ArgGroup)]
pub struct Cp {
    /// What: a path here, or there as :PATH or ALIAS:PATH
    pub source: String,
    /// Where to: the other side
    pub destination: String,
    /// Do not compare hashes at the end
    #[arg(long)]
    pub no_verify: bool,
    /// In a tree, copy what links lead to; without it they are left out
    #[arg(long)]
    pub follow: bool,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// `rex approvals …`.
#[derive(Debug, Subcommand)]
pub enum ApprovalsAsk {
    /// What waits now
    List,
    /// Let it happen
    Approve {
        /// The approval, as `list` shows it; its first characters do
        id: String,
        /// For what the answer holds: once, session or rule
        #[arg(long)]
        scope: Option<String>,
    },
    /// Do not let it happen
    Deny {
        /// The approval, as `list` shows it; its first characters do
        id: String,
    },
    /// Show what comes and ask here
    Watch,
}

/// `rex mcp`.
#[derive(Debug, ArgGroup)]
pub struct Mcp {
    /// Serve HTTP here instead of stdin and stdout; needs the token that is printed
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// Anything but serving
    #[command(subcommand)]
    pub ask: Option<McpAsk>,
}

/// `rex mcp …`.
#[derive(Debug, Subcommand)]
pub enum McpAsk {
    /// Show the configuration of an agent's program with these tools in it, and write it
    Install {
        /// The program
        client: McpClient,
        /// In the project here, not for the user
        #[arg(long)]
        project: bool,
        /// Write without asking
        #[arg(short, long)]
        yes: bool,
        /// Only show it
        #[arg(long)]
        dry_run: bool,
    },
}

/// A program that speaks MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names are the programs'")]
pub enum McpClient {
    Claude,
    Codex,
    Opencode,
    Cursor,
    Vscode,
}

/// `rex tools`.
#[derive(Debug, ArgGroup)]
pub struct Tools {
    /// As which provider takes them
    #[arg(long, default_value = "json-schema")]
    pub format: ToolFormat,
}

/// A form of schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names are the formats'")]
pub enum ToolFormat {
    Openai,
    Anthropic,
    JsonSchema,
}

/// `rex call`.
#[derive(Debug, ArgGroup)]
pub struct Call {
    /// The tool, as `rex tools` names it
    pub tool: String,
    /// Its arguments as a JSON object; - reads stdin
    pub arguments: String,
}

/// `rex up`.
#[derive(Debug, ArgGroup)]
pub struct Up {
    /// The workspace; without it a sample one is made
    pub workspace: Option<PathBuf>,
    /// End after the demonstration
    #[arg(long)]
    pub once: bool,
    /// Listen on the local network too, with the token that is printed
    #[arg(long)]
    pub lan: bool,
}

/// `rex completions`.
#[derive(Debug, ArgGroup)]
pub struct Completions {
    /// bash, zsh or fish
    pub shell: String,
}

/// `rex man`.
#[derive(Debug, ArgGroup)]
pub struct Man {
    /// The directory
    pub directory: PathBuf,
}

/// `30`, `30s`, `500ms`, `5m`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().map_err(|_| "a number with ms, s, m or h, such as 30s".to_owned())?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "" | "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => return Err("the unit is ms, s, m or h".to_owned()),
    };
    milliseconds.map(Duration::from_millis).ok_or_else(|| "that is longer than anything lasts".to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is written NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_holds_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_target_may_stand_before_or_after_the_command() {
        for line in [["rex", "-t", "x", "exec", "--", "true"], ["rex", "exec", "-t", "x", "--", "true"]] {
            assert_eq!(Args::parse_from(line).everywhere.target.as_deref(), Some("x"));
        }
    }

    #[test]
    fn durations_are_read_with_their_unit() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("3m"), Ok(Duration::from_secs(180)));
        for wrong in ["", "s", "1d", "99999999999999999999h", "99999999999999999h", "-1s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
