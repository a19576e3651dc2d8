//! What can be asked on the command line.

use std::path::PathBuf;

use clap::{Args as ArgGroup, Parser, Subcommand};

use crate::config::PublicUrl;
use crate::store::Kind;

/// Where hosts dial in and clients find them.
#[derive(Debug, Parser)]
#[command(name = "rexhub", version, propagate_version = true, max_term_width = 100, after_help = EXAMPLES)]
pub struct Args {
    /// What to do
    #[command(subcommand)]
    pub command: Ask,
}

const EXAMPLES: &str = "\
Examples:
  rexhub token add build-1 --kind executor     prints a token for an executor
  rexhub token add laptop --kind harness       prints a token for a Codex client
  rexhub serve                                 serves both on 127.0.0.1:8787";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Ask {
    /// Run the hub; prints `listening URL` when it is ready
    Serve(Serve),
    /// Make, list and remove tokens; a running hub knows at once
    #[command(subcommand)]
    Token(TokenAsk),
    /// Users of the web: not in this version yet
    #[command(hide = true)]
    User(Later),
    /// Codes with which hosts enrol: not in this version yet
    #[command(hide = true)]
    JoinCode(Later),
    /// Hosts: not in this version yet
    #[command(hide = true)]
    Host(Later),
}

/// `rexhub serve`.
#[derive(Debug, ArgGroup)]
pub struct Serve {
    /// Where to listen; port 0 takes any
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8787")]
    pub listen: String,

    /// The certificate for TLS, in PEM, with those that lead to a known one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Its key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Where others reach the hub, if a proxy stands before it
    #[arg(long, value_name = "URL")]
    pub public_url: Option<PublicUrl>,

    #[arg(long, hide = true, value_name = "URL")]
    pub(crate) nats: Option<String>,

    #[arg(long, hide = true, value_name = "HOW")]
    pub(crate) enrol: Option<String>,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// Where things are kept.
#[derive(Debug, ArgGroup)]
pub(crate) struct Place {
    /// Where everything is kept [default: $XDG_DATA_HOME/rexhub]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    #[arg(long, hide = true, value_name = "URL")]
    pub(crate) database: Option<String>,
}

/// `rexhub token`.
#[derive(Debug, Subcommand)]
pub enum TokenAsk {
    /// Make a token and print it; it is not shown again
    Add(TokenAdd),
    /// List tokens
    List(TokenList),
    /// Remove a token; whoever is connected with it is disconnected
    Remove(TokenRemove),
}

/// `rexhub token add`.
#[derive(Debug, ArgGroup)]
pub struct TokenAdd {
    /// A name for it
    #[arg(value_name = "NAME", value_parser = name)]
    pub name: String,

    /// What it is for
    #[arg(long, value_enum)]
    pub kind: Kind,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// `rexhub token list`.
#[derive(Debug, ArgGroup)]
pub struct TokenList {
    /// As JSON, one line each
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// `rexhub token remove`.
#[derive(Debug, ArgGroup)]
pub struct TokenRemove {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// What a later version does.
#[derive(Debug, ArgGroup)]
pub struct Later {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub(crate) rest: Vec<String>,
}

/// The longest name of a token.
const LONGEST_NAME: usize = 64;

fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    match !text.is_empty() && text.chars().count() <= LONGEST_NAME && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("a name has 1 to {LONGEST_NAME} letters, digits, or any of - _ . @")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_make_sense() {
        Args::command().debug_assert();
        assert!(name("build-1.a_b@c").is_ok());
        for wrong in ["", "a b", "a\n", "../x", &"x".repeat(LONGEST_NAME + 1)] {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
    }
}
