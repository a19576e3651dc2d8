//! The command line of `rexhub`.

use std::path::PathBuf;

use clap::{Args as ArgGroup, Parser, Subcommand};

use crate::auth::UserRole;
use crate::config::{Enrolment, PublicUrl};
use crate::store::TokenKind;

/// Connect people and clients to machines that cannot be reached directly
#[derive(Debug, Parser)]
#[command(name = "rexhub", version, propagate_version = true, max_term_width = 100, after_help = EXAMPLES)]
pub struct Args {
    /// The command to run
    #[command(subcommand)]
    pub command: HubCommand,
}

const EXAMPLES: &str = "\
Examples:
  rexhub user add ann --role admin --password-stdin   create a user; reads the password
  rexhub serve                                        serve hosts, apps and executors on 127.0.0.1:8787
  rexhub join-code                                    print a code with which one host enrols
  rexhub token add build-1 --kind executor            print a token for an executor";

/// The commands of `rexhub`.
#[derive(Debug, Subcommand)]
pub enum HubCommand {
    /// Run the hub; prints `listening URL` when it is ready
    Serve(Serve),
    /// Create, list and remove users; a running hub applies changes at once
    #[command(subcommand)]
    User(UserCommand),
    /// Create, list and remove tokens; a running hub applies changes at once
    #[command(subcommand)]
    Token(TokenCommand),
    /// Print a code with which one host enrols within 15 minutes
    JoinCode(JoinCodeArgs),
    /// List and remove hosts
    #[command(subcommand)]
    Host(HostCommand),
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

    /// URL of the hub for its clients, if it is behind a proxy
    #[arg(long, value_name = "URL")]
    pub public_url: Option<PublicUrl>,

    /// How new hosts enrol [default: tofu on a loopback address without --public-url, otherwise code]
    #[arg(long, value_enum, value_name = "HOW")]
    pub enrol: Option<Enrolment>,

    /// Days after which an ended run is removed
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub keep_days: u32,

    /// Size of all events in GiB, beyond which the oldest ended runs are removed
    #[arg(long, value_name = "GIB", default_value_t = 20)]
    pub keep_gib: u32,

    /// Certificate of an own authority in PEM, to be offered to browsers at /ca.crt
    #[arg(long, value_name = "FILE")]
    pub ca_cert: Option<PathBuf>,

    /// Send push notices and webhooks also to private addresses and without TLS
    #[arg(long)]
    pub push_allow_private: bool,

    #[arg(long, hide = true, value_name = "URL")]
    pub(crate) nats: Option<String>,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// The options for the stored state.
#[derive(Debug, ArgGroup)]
pub(crate) struct DataArgs {
    /// Data directory [default: $XDG_DATA_HOME/rexhub]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub
    #[arg(long, value_name = "URL", env = "REXHUB_DATABASE", hide_env_values = true)]
    pub(crate) database: Option<String>,
}

/// The subcommands of `rexhub user`.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Create a user
    Add(UserAdd),
    /// Print a link with which a user signs in once within 15 minutes
    Link(UserLink),
    /// List users
    List(ListArgs),
    /// Remove a user and end all sign-ins
    Remove(RemoveArgs),
}

/// The arguments of `rexhub user add`.
#[derive(Debug, ArgGroup)]
pub struct UserAdd {
    /// Name of the user
    #[arg(value_name = "NAME", value_parser = token_name)]
    pub name: String,

    /// Role: a viewer watches, an operator also starts, types and approves, an admin also manages
    #[arg(long, value_enum)]
    pub role: UserRole,

    /// Read the password from standard input; without it, the user signs in with `rexhub user link`
    #[arg(long)]
    pub password_stdin: bool,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// The arguments of `rexhub user link`.
#[derive(Debug, ArgGroup)]
pub struct UserLink {
    /// Name of the user
    #[arg(value_name = "NAME")]
    pub name: String,

    /// URL of the hub
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8787")]
    pub url: String,

    /// Also print the link as a QR code on stderr
    #[arg(long)]
    pub qr: bool,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// The arguments of `rexhub join-code`.
#[derive(Debug, ArgGroup)]
pub struct JoinCodeArgs {
    /// Also print the code as a QR code on stderr
    #[arg(long)]
    pub qr: bool,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// The subcommands of `rexhub host`.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// List hosts
    List(ListArgs),
    /// Remove a host and close its connection; its runs are kept
    Remove(RemoveArgs),
}

/// The subcommands of `rexhub token`.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print it; it is not shown again
    Add(TokenAdd),
    /// List tokens
    List(ListArgs),
    /// Remove a token and close its connections
    Remove(RemoveArgs),
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

    /// Role of a client token
    #[arg(long, value_enum)]
    pub role: Option<UserRole>,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// The arguments of the commands that list.
#[derive(Debug, ArgGroup)]
pub struct ListArgs {
    /// Print JSON, one object per line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// The arguments of the commands that remove.
#[derive(Debug, ArgGroup)]
pub struct RemoveArgs {
    /// Name or id
    #[arg(value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    pub(crate) data: DataArgs,
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
