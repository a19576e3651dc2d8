//! What can be asked about targets.

use std::path::PathBuf;

use clap::{Args as ArgGroup, Subcommand};

/// `rex target …`.
#[derive(Debug, Subcommand)]
pub enum TargetAsk {
    /// Remember a target under an alias
    Add(TargetAdd),
    /// List what is remembered
    List,
    /// Use this target from now on, unless something says otherwise; `-` for none
    Use {
        /// An alias or a target
        name: String,
    },
    /// Tell which target is used here and which rule chose it
    Show,
    /// Forget an alias
    Remove {
        /// The alias
        name: String,
    },
    /// Try every step to a target; says which fails and what to do
    Test {
        /// An alias or a target; without it the one that is used here
        name: Option<String>,
    },
    /// Put rexd on a machine that ssh reaches, with a config that allows only the roots named
    Install(TargetInstall),
}

/// `rex target add`.
#[derive(Debug, ArgGroup)]
pub struct TargetAdd {
    /// What it is called from now on
    pub alias: String,
    /// ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or local
    pub place: String,
    /// Where commands start there
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// A root there, for the agents' plugins; may be given more than once
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<String>,
    /// The key for ssh
    #[arg(short, long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// An option for ssh, such as -oPort=22; may be given more than once
    #[arg(short = 'o', long = "ssh-option", value_name = "OPTION", allow_hyphen_values = true)]
    pub ssh_options: Vec<String>,
    /// What ssh starts there, if rexd does not lie where it is looked for
    #[arg(long, value_name = "LINE")]
    pub command: Option<String>,
    /// The file with the token
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificates to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Our own certificate
    #[arg(long, value_name = "FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,
    /// The key of our own certificate
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    pub key_file: Option<PathBuf>,
    /// Use it in this directory here and below; DIR=THERE names the same directory there; may be given more than once
    #[arg(long = "prefix", value_name = "DIR")]
    pub prefixes: Vec<String>,
    /// Replace what the alias stands for
    #[arg(long)]
    pub force: bool,
}

/// `rex target install`.
#[derive(Debug, ArgGroup)]
pub struct TargetInstall {
    /// [USER@]HOST[:PORT], ssh:… or an alias
    pub host: String,
    /// A root there; may be given more than once
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<String>,
    /// The program to put there, if it is not the one found beside rex
    #[arg(long, value_name = "FILE")]
    pub rexd: Option<PathBuf>,
    /// Remember it under this alias
    #[arg(long, value_name = "NAME")]
    pub alias: Option<String>,
    /// Where to put it; /usr/local/bin if that can be written, else ~/.local/bin
    #[arg(long, value_name = "DIR")]
    pub into: Option<String>,
}
