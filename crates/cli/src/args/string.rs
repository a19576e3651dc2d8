//! The command line of `rex string`.

use std::path::PathBuf;

use clap::Args as ArgGroup;

/// Arguments of `rex string`.
#[derive(Debug, ArgGroup)]
pub struct StringArgs {
    /// User of the daemon [default: $STRINGD_USER, or `default`]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Home of the user, created if it is missing [default: $STRINGD_HOME, or `~/.string/users/NAME`]
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Port of the daemon on this machine [default: $STRINGD_PORT, or 3100]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Topic, such as `file:notes`, `app:weather` or `bash:dev`
    pub topic: String,
    /// Command and its arguments, such as `/open README.md`; `-` at the end adds lines from stdin
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<String>,
}
