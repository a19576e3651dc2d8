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

/// Arguments of `rex mkdir`.
#[derive(Debug, ArgGroup)]
pub struct MkdirArgs {
    /// Directory on the target: PATH, :PATH or ALIAS:PATH
    pub path: String,
    /// Create missing parents, and accept an existing directory
    #[arg(short, long)]
    pub parents: bool,
}

/// Arguments of `rex mv`.
#[derive(Debug, ArgGroup)]
pub struct MvArgs {
    /// File or directory on the target: PATH, :PATH or ALIAS:PATH
    pub from: String,
    /// New path on the same target; an existing directory receives the file under its old name
    pub to: String,
    /// Fail if the new path exists
    #[arg(short, long)]
    pub no_clobber: bool,
}

/// Arguments of `rex rm`.
#[derive(Debug, ArgGroup)]
pub struct RmArgs {
    /// Files on the target: PATH, :PATH or ALIAS:PATH
    #[arg(required = true)]
    pub paths: Vec<String>,
    /// Remove directories and their content
    #[arg(short, long)]
    pub recursive: bool,
    /// Ignore files that do not exist
    #[arg(short, long)]
    pub force: bool,
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
    /// Show modes, sizes and times
    #[arg(short, long)]
    pub long: bool,
    /// Show hidden files, as it is without this option; accepted because ls has it
    #[arg(short, long)]
    pub all: bool,
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
    /// Sources: local paths, or :PATH or ALIAS:PATH on a target; - is stdin
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// Destination, written like a source; a trailing / means into it, - is stdout
    pub destination: String,
    /// Copy directories, as it is without this option; accepted because cp and scp need it
    #[arg(short, long)]
    pub recursive: bool,
    /// Leave out of a directory what matches this pattern, written as in .gitignore; repeatable
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Leave out what the .gitignore files of the source exclude
    #[arg(long)]
    pub gitignore: bool,
    /// Remove what the source directory does not have from the destination; what is left out stays
    #[arg(long)]
    pub delete: bool,
    /// Skip the comparison of hashes
    #[arg(long)]
    pub no_verify: bool,
    /// Copy the files that symbolic links in a directory lead to [default: copy the links]
    #[arg(long)]
    pub follow: bool,
    /// Show neither progress nor the summary
    #[arg(short, long)]
    pub quiet: bool,
}
