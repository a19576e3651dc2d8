//! The command line of `rex login`, `logout` and `runs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ArgGroup, Subcommand, ValueEnum};

use super::duration;

/// Arguments of `rex login`.
#[derive(Debug, ArgGroup)]
pub struct LoginArgs {
    /// Address of the hub, such as `https://hub.example`
    pub url: String,
    /// User name [default: prompt for it]
    #[arg(short, long, value_name = "NAME", conflicts_with = "token_stdin")]
    pub user: Option<String>,
    /// Read the password from the first line of stdin instead of the terminal
    #[arg(long, requires = "user", conflicts_with = "token_stdin")]
    pub password_stdin: bool,
    /// Read a client token from the first line of stdin instead of signing in with a password
    #[arg(long)]
    pub token_stdin: bool,
    /// CA certificates to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

/// Arguments of `rex logout`.
#[derive(Debug, ArgGroup)]
pub struct LogoutArgs {
    /// Address of the hub [default: the hub of the last `rex login`]
    pub url: Option<String>,
    /// End all sign-ins of this user, on every machine
    #[arg(long)]
    pub everywhere: bool,
}

/// Subcommands of `rex runs`.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List the runs of all hosts, or of the host of `-t hub:HOST`
    List {
        /// Include runs that have ended
        #[arg(short, long)]
        all: bool,
    },
    /// Print the output of a run until it ends, and exit with its status
    Watch(RunWatchArgs),
    /// Start a run on the host of `-t hub:HOST` and print its id
    Start(RunStartArgs),
    /// Type text into a run, followed by Enter; without TEXT, send stdin unchanged
    Send {
        /// Run id as shown by `list`; a unique prefix is enough
        id: String,
        /// Text to type
        text: Option<String>,
        /// Do not add Enter
        #[arg(short = 'n', long)]
        no_enter: bool,
    },
    /// Stop a run
    Stop {
        /// Run id as shown by `list`; a unique prefix is enough
        id: String,
        /// Signal: term and kill end all of its processes, int interrupts it as Ctrl-C does
        #[arg(short, long, value_name = "SIG", default_value = "term")]
        signal: RunSignal,
    },
}

/// Arguments of `rex runs watch`.
#[derive(Debug, ArgGroup)]
pub struct RunWatchArgs {
    /// Run id as shown by `list`; a unique prefix is enough
    pub id: String,
    /// Skip output that is older than this, such as 30s, 5m or 2h
    #[arg(long, value_name = "D", value_parser = duration)]
    pub since: Option<Duration>,
    /// Start after this event; `--json` prints the number of each event as `seq`
    #[arg(long, value_name = "SEQ", default_value_t = 0, conflicts_with = "since")]
    pub after: i64,
}

/// Arguments of `rex runs start`.
#[derive(Debug, ArgGroup)]
pub struct RunStartArgs {
    /// Working directory on the host [default: its first root]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Tool that is run: codex, claude, opencode, shell, …
    #[arg(long, value_name = "NAME", default_value = "shell")]
    pub tool: String,
    /// Set an environment variable; repeatable
    #[arg(short, long, value_name = "K=V", value_parser = super::variable)]
    pub env: Vec<(String, String)>,
    /// Shell command line to run
    #[arg(short = 'c', value_name = "TEXT", conflicts_with = "command")]
    pub command_line: Option<String>,
    /// Command and arguments, quoted for the shell [default: the tool itself]
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// A signal for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the variants are names of signals")]
pub enum RunSignal {
    Term,
    Kill,
    Int,
}

impl RunSignal {
    /// The name of the signal in a request.
    pub const fn as_str(self) -> &'static str {
        match self {
            RunSignal::Term => "term",
            RunSignal::Kill => "kill",
            RunSignal::Int => "int",
        }
    }
}
