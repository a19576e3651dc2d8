//! The command line of `rex target`.

use std::path::PathBuf;

use clap::{Args as ArgGroup, Subcommand};

/// Subcommands of `rex target`.
#[derive(Debug, Subcommand)]
pub enum TargetCommand {
    /// Add a target under an alias
    Add(TargetAddArgs),
    /// List the configured targets
    List,
    /// Use a target by default; `-` clears the default
    Use {
        /// Alias or target
        name: String,
    },
    /// Show which target is used in this directory, and which rule chose it
    Show,
    /// Remove an alias
    Remove {
        /// Alias to remove
        name: String,
    },
    /// Test a target step by step and report the step that fails
    Test {
        /// Alias or target [default: the one used in this directory]
        name: Option<String>,
    },
    /// Close the ssh connection that commands on a target share
    Close {
        /// Alias or target [default: the one used in this directory]
        #[arg(conflicts_with = "all")]
        name: Option<String>,
        /// Close the shared connections of all targets
        #[arg(short, long)]
        all: bool,
    },
    /// Install rexd on a machine over ssh, with access to the given directories only
    Install(TargetInstallArgs),
}

/// Arguments of `rex target add`.
#[derive(Debug, ArgGroup)]
pub struct TargetAddArgs {
    /// Name of the target
    pub alias: String,
    /// Address: ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or local
    pub address: String,
    /// Working directory on the target
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Workspace root on the target, read by agent plugins; repeatable
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<String>,
    /// ssh identity file (private key)
    #[arg(short, long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// ssh option, such as -oPort=22; repeatable
    #[arg(short = 'o', long = "ssh-option", value_name = "OPTION", allow_hyphen_values = true)]
    pub ssh_options: Vec<String>,
    /// Remote command that starts rexd [default: rexd --stdio from /usr/local/bin, ~/.local/bin or PATH]
    #[arg(long, value_name = "LINE")]
    pub command: Option<String>,
    /// Hub of a hub:HOST target [default: the hub of the last `rex login`]
    #[arg(long, value_name = "URL")]
    pub hub: Option<String>,
    /// File that contains the token
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// CA certificates to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Client certificate
    #[arg(long, value_name = "FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,
    /// Private key of the client certificate
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    pub key_file: Option<PathBuf>,
    /// Use the target in this local directory and below; DIR=REMOTE also maps it to a directory on the target; repeatable
    #[arg(long = "prefix", value_name = "DIR")]
    pub prefixes: Vec<String>,
    /// Replace an existing alias
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `rex target install`.
#[derive(Debug, ArgGroup)]
pub struct TargetInstallArgs {
    /// Machine: [USER@]HOST[:PORT], ssh:[USER@]HOST[:PORT] or an alias
    pub host: String,
    /// Directory that rexd may access; repeatable
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<String>,
    /// rexd binary to install [default: the one next to rex]
    #[arg(long, value_name = "FILE")]
    pub rexd: Option<PathBuf>,
    /// Also add the machine as a target under this alias
    #[arg(long, value_name = "NAME")]
    pub alias: Option<String>,
    /// Directory to install to [default: /usr/local/bin if writable, else ~/.local/bin]
    #[arg(long, value_name = "DIR")]
    pub into: Option<String>,
}
