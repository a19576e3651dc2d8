//! The command line of `rexhub`.

use std::path::PathBuf;

use clap::{Args as ArgGroup, Parser, Subcommand};

use crate::config::PublicUrl;
use crate::store::TokenKind;

/// Connect clients to executors that cannot be reached directly
#[derive(Debug, Parser)]
#[command(name = "rexhub", version, propagate_version = true, max_term_width = 100, after_help = EXAMPLES)]
pub struct Args {
    /// The command to run
    #[command(subcommand)]
    pub command: HubCommand,
}

const EXAMPLES: &str = "\
Examples:
  rexhub token add build-1 --kind executor     print a token for an executor
  rexhub token add laptop --kind harness       print a token for a Codex client
  rexhub serve                                 serve both on 127.0.0.1:8787";

/// The commands of `rexhub`.
#[derive(Debug, Subcommand)]
pub enum HubCommand {
    /// Run the hub; prints `listening URL` when it is ready
    Serve(Serve),
    /// Create, list and remove tokens; a running hub applies changes at once
    #[command(subcommand)]
    Token(TokenCommand),
    /// Manage users of the web (not supported yet)
    #[command(hide = true)]
    User(UnsupportedArgs),
    /// Manage enrolment codes of hosts (not supported yet)
    #[command(hide = true)]
    JoinCode(UnsupportedArgs),
    /// Manage hosts (not supported yet)
    #[command(hide = true)]
    Host(UnsupportedArgs),
}

/// The arguments of `rexhub serve`.
#[derive(Debug, ArgGroup)]
pub struct Serve {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8787")]
    pub listen: String,

    /// TLS certificate chain in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// TLS private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// URL of the hub for executors, if it is behind a proxy
    #[arg(long, value_name = "URL")]
    pub public_url: Option<PublicUrl>,

    #[arg(long, hide = true, value_name = "URL")]
    pub(crate) nats: Option<String>,

    #[arg(long, hide = true, value_name = "HOW")]
    pub(crate) enrol: Option<String>,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// The options for the data directory.
#[derive(Debug, ArgGroup)]
pub(crate) struct DataArgs {
    /// Data directory [default: $XDG_DATA_HOME/rexhub]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    #[arg(long, hide = true, value_name = "URL")]
    pub(crate) database: Option<String>,
}

/// The subcommands of `rexhub token`.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print it; it is not shown again
    Add(TokenAdd),
    /// List tokens
    List(TokenList),
    /// Remove a token and close its connections
    Remove(TokenRemove),
}

/// The arguments of `rexhub token add`.
#[derive(Debug, ArgGroup)]
pub struct TokenAdd {
    /// Name of the token
    #[arg(value_name = "NAME", value_parser = token_name)]
    pub name: String,

    /// Use of the token
    #[arg(long, value_enum)]
    pub kind: TokenKind,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// The arguments of `rexhub token list`.
#[derive(Debug, ArgGroup)]
pub struct TokenList {
    /// Print JSON, one object per line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// The arguments of `rexhub token remove`.
#[derive(Debug, ArgGroup)]
pub struct TokenRemove {
    /// Name of the token
    #[arg(value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// The arguments of a command that is not supported yet.
#[derive(Debug, ArgGroup)]
pub struct UnsupportedArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub(crate) rest: Vec<String>,
}

/// The limit on the length of a token's name.
const MAX_NAME: usize = 64;

pub(crate) fn token_name(text: &str) -> Result<String, String> {
    let is_plain = text.len() <= MAX_NAME && text.chars().all(crate::is_name_character);
    match is_plain && !matches!(text, "" | "." | "..") {
        true => Ok(text.to_owned()),
        false => Err(format!("expected 1 to {MAX_NAME} letters and digits of ASCII or any of - _ . : @")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
        assert!(token_name("build-1.a_b@c").is_ok());
        for wrong in ["", "a b", "a\n", "../x", ".", "..", "а", "a\u{200b}", &"x".repeat(MAX_NAME + 1)] {
            assert!(token_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
