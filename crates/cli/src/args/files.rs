//! The command line of the commands on files.

use clap::Args as ArgGroup;

/// Arguments of `rex read`.
#[derive(Debug, ArgGroup)]
pub struct ReadArgs {
    /// File on the target: PATH, :PATH or ALIAS:PATH
    pub path: String,
    /// First byte to print, from 0
    #[arg(long, default_value_t = 0)]
    pub offset: u64,
    /// Number of bytes to print [default: all]
    #[arg(long)]
    pub length: Option<u64>,
}

/// Arguments of `rex write`.
#[derive(Debug, ArgGroup)]
pub struct WriteArgs {
    /// File on the target: PATH, :PATH or ALIAS:PATH
    pub path: String,
    /// Append to the file instead of replacing it
    #[arg(long, conflicts_with = "create")]
    pub append: bool,
    /// Fail if the file exists
    #[arg(long)]
    pub create: bool,
}

/// Arguments of `rex edit`.
#[derive(Debug, ArgGroup)]
pub struct EditArgs {
    /// File on the target: PATH, :PATH or ALIAS:PATH
    pub path: String,
    /// Text to replace; it must occur exactly once
    pub old: String,
    /// Replacement text
    pub new: String,
    /// Replace every occurrence
    #[arg(short, long)]
    pub all: bool,
}

/// Arguments of `rex patch`.
#[derive(Debug, ArgGroup)]
pub struct PatchArgs {
    /// Directory that relative paths in the patch start from
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<String>,
}

/// Arguments of `rex ls`.
#[derive(Debug, ArgGroup)]
pub struct LsArgs {
    /// Directory on the target [default: the working directory]
    pub path: Option<String>,
    /// List subdirectories recursively
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Show sizes and times
    #[arg(short, long)]
    pub long: bool,
}

/// Arguments of `rex glob`.
#[derive(Debug, ArgGroup)]
pub struct GlobArgs {
    /// Pattern, such as `**/*.rs`
    pub pattern: String,
    /// Directory to search [default: the working directory]
    pub path: Option<String>,
}

/// Arguments of `rex grep`.
#[derive(Debug, ArgGroup)]
pub struct GrepArgs {
    /// Regular expression; a pattern in lower case ignores case
    pub pattern: String,
    /// File or directory on the target [default: the working directory]
    pub path: Option<String>,
    /// Match the pattern literally
    #[arg(short = 'F', long)]
    pub literal: bool,
    /// Ignore case
    #[arg(short, long, conflicts_with = "case_sensitive")]
    pub ignore_case: bool,
    /// Match case
    #[arg(short = 's', long)]
    pub case_sensitive: bool,
    /// Search only files that match this glob; repeatable
    #[arg(short = 'g', long = "include", value_name = "GLOB")]
    pub include: Vec<String>,
    /// Skip files that match this glob; repeatable
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Lines of context around each match
    #[arg(short = 'C', long, value_name = "LINES", default_value_t = 0)]
    pub context: u32,
    /// Search hidden files
    #[arg(long)]
    pub hidden: bool,
    /// Search files that .gitignore excludes
    #[arg(long)]
    pub no_ignore: bool,
    /// Stop after this many matches
    #[arg(short = 'm', long, value_name = "COUNT")]
    pub max_matches: Option<u32>,
}

/// Arguments of `rex stat`.
#[derive(Debug, ArgGroup)]
pub struct StatArgs {
    /// Path on the target
    pub path: String,
}

/// Arguments of `rex watch`.
#[derive(Debug, ArgGroup)]
pub struct WatchArgs {
    /// File or directory on the target [default: the working directory]
    pub path: Option<String>,
    /// Do not watch subdirectories
    #[arg(long)]
    pub flat: bool,
}

/// Arguments of `rex cp`.
#[derive(Debug, ArgGroup)]
pub struct CpArgs {
    /// Source: a local path, or :PATH or ALIAS:PATH on a target
    pub source: String,
    /// Destination, written like the source
    pub destination: String,
    /// Skip the comparison of hashes
    #[arg(long)]
    pub no_verify: bool,
    /// Follow symbolic links in a directory [default: skip them]
    #[arg(long)]
    pub follow: bool,
    /// Do not show progress
    #[arg(short, long)]
    pub quiet: bool,
}
