//! The command line of `rexd`, parsed into exact types.
//!
//! Every long flag is also accepted with a single dash, as some tools that start `rexd` write it.

mod exec_server;
mod host;
mod policy;
mod stringd;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::cli::policy::PolicyCommand;
use crate::config::{ConfigArgs, nearest};
use crate::observe::audit::ShowArgs;
pub use exec_server::{ExecServerArgs, RegistrationArgs, WsAuthFlags};
pub use host::{HostArgs, RunArgs};
pub use stringd::StringdArgs;

/// A command of `rexd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CliCommand {
    /// Serve faces; stdin and stdout if no listener is given.
    Serve(Box<ServeArgs>),
    /// Serve only the exec-server face.
    ExecServer(Box<ExecServerArgs>),
    /// Serve only the stringd face.
    Stringd(Box<StringdArgs>),
    /// Serve only the host face.
    Host(Box<HostArgs>),
    /// Start a run on the host of this user and stay attached.
    Run(Box<RunArgs>),
    /// Check this machine and the configuration.
    Doctor {
        /// Whether to print one JSON object.
        json: bool,
        /// The configuration to check.
        config: ConfigArgs,
    },
    /// Print the effective configuration.
    CheckConfig(ConfigArgs),
    /// Check the chain of an audit file.
    AuditVerify(PathBuf),
    /// Show records of an audit file.
    AuditShow {
        /// The filters.
        show: Box<ShowArgs>,
        /// The configuration with the path of the file.
        config: ConfigArgs,
    },
    /// Test, explain or replay the policy.
    Policy(Box<PolicyCommand>),
    /// Own one detached process. Internal: a daemon starts it and sends it a job.
    Keeper,
    /// Kill the process trees with this mark when the owner of standard input has ended. Internal.
    Guardian(String),
    /// Print the version.
    Version,
    /// Print [`HELP`].
    Help,
}

/// The flags of `rexd serve`, and of `rexd` without a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServeArgs {
    /// The flags that select the configuration.
    pub config: ConfigArgs,
    /// Serve REXD on stdin and stdout: `--stdio`, or no listener.
    pub stdio: bool,
    /// No subcommand and no listener: the configuration can enable other listeners instead of stdio.
    pub bare: bool,
    /// The address for REXD over HTTP and WebSocket.
    pub http: Option<String>,
    /// The path of the unix socket for REXD.
    pub unix: Option<PathBuf>,
    /// The `ws://` address of the exec-server face.
    pub exec_server: Option<SocketAddr>,
    /// The authentication of its clients.
    pub ws_auth: WsAuthFlags,
    /// The port of the stringd face on the loopback interface.
    pub stringd: Option<u16>,
    /// The hubs to connect to.
    pub hubs: Vec<String>,
    /// The id of this host.
    pub host_id: Option<String>,
    /// The code with which it enrols.
    pub join: Option<String>,
    /// Certificate chain and key of the listeners.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The CA of client certificates.
    pub client_ca: Option<PathBuf>,
}

/// An invalid command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError {
    /// The error in one line.
    pub message: String,
    /// The hint in one line.
    pub hint: String,
    /// The exit status.
    pub exit_code: u8,
}

impl UsageError {
    /// The exit status of most commands.
    pub const EXIT_CODE: u8 = 2;
    /// The exit status of `rexd policy`, where 2 means "ask".
    pub const POLICY_EXIT_CODE: u8 = 64;

    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), exit_code: Self::EXIT_CODE }
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rexd: {}\nhint: {}", self.message, self.hint)
    }
}

impl std::error::Error for UsageError {}

/// The output of `rexd --help`.
pub const HELP: &str = include_str!("help.txt");

/// Flags, and the subcommands that accept them; the empty name is a call without one.
type FlagGroup = (&'static [&'static str], &'static [&'static str]);

const WITH_ROOTS: &[&str] = &["", "serve", "exec-server", "stringd", "host", "doctor", "check-config"];
const WITH_CONFIG: &[&str] =
    &["", "serve", "exec-server", "stringd", "host", "run", "doctor", "check-config", "audit", "policy"];
const SERVE: &[&str] = &["", "serve"];

/// Flags with a value.
const OPTIONS: &[FlagGroup] = &[
    (&["config"], WITH_CONFIG),
    (&["root"], WITH_ROOTS),
    (&["http", "unix", "exec-server", "stringd", "tls-cert", "tls-key", "client-ca"], SERVE),
    (&["hub", "host-id", "join"], &["", "serve", "host"]),
    (&["tool"], &["run"]),
    (&["listen", "remote", "executor-id", "name", "concurrent-requests"], &["exec-server"]),
    (&["ws-auth", "ws-token-file", "ws-token-sha256"], &["", "serve", "exec-server"]),
    (&["face", "client", "caller"], &["audit", "policy"]),
    (&["cwd", "shell", "read", "write", "remove"], &["policy"]),
    (&["session", "operation", "decision", "rule", "since", "until", "limit"], &["audit"]),
];
/// Flags without a value.
const SWITCHES: &[FlagGroup] = &[
    (&["stdio"], SERVE),
    (&["json"], &["doctor", "audit", "policy"]),
    (&["failed"], &["audit"]),
    (&["log"], &["stringd"]),
    (&["check-config"], &[""]),
    // These replace every subcommand.
    (&["help", "version"], &[]),
];

fn flag_names(groups: &'static [FlagGroup]) -> impl Iterator<Item = &'static str> {
    groups.iter().flat_map(|(names, _)| names.iter().copied())
}

fn all_flag_names() -> impl Iterator<Item = &'static str> {
    flag_names(OPTIONS).chain(flag_names(SWITCHES))
}

const SUBCOMMANDS: &[&str] = &[
    "serve",
    "exec-server",
    "stringd",
    "host",
    "run",
    "doctor",
    "check-config",
    "audit",
    "policy",
    "version",
    "help",
];

/// Parses a command line without the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<CliCommand, UsageError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let is_policy = arguments.iter().any(|argument| argument == "policy");
    ParsedFlags::read(arguments).and_then(ParsedFlags::command).map_err(|error| match is_policy {
        true => UsageError { exit_code: UsageError::POLICY_EXIT_CODE, ..error },
        false => error,
    })
}

/// Parses the command line of a program with this name. `codex-exec-server` means `rexd exec-server --listen stdio`,
/// and `stringd` means `rexd stringd`.
pub fn parse_as(
    name: &OsStr,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<CliCommand, UsageError> {
    let arguments = stringd::as_command(name, arguments.into_iter().collect())?;
    let is_exec_server = Path::new(name).file_name().is_some_and(|name| name == "codex-exec-server");
    if !is_exec_server {
        return parse(arguments);
    }
    let is_named = |argument: &OsString| {
        argument.to_str().is_some_and(|text| text.starts_with("--listen") || text.starts_with("--remote"))
    };
    let defaults =
        if arguments.iter().any(is_named) { Vec::new() } else { vec!["--listen".into(), "stdio".into()] };
    parse(std::iter::once("exec-server".into()).chain(arguments).chain(defaults))
}

/// The words and flags of a command line, before they become a [`CliCommand`].
#[derive(Default)]
struct ParsedFlags {
    words: Vec<OsString>,
    flags: Vec<(&'static str, OsString)>,
}

impl ParsedFlags {
    fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut is_operand = false;
        let mut parser = lexopt::Parser::from_args(arguments.into_iter().map(|argument| {
            // The words after `--` belong to another command.
            is_operand |= argument == "--";
            if is_operand { argument } else { with_two_dashes(argument) }
        }));
        let mut parsed = Self::default();
        while let Some(argument) = parser.next().map_err(|error| bad_syntax(&error))? {
            match argument {
                lexopt::Arg::Short('h') => parsed.flags.push(("help", OsString::new())),
                lexopt::Arg::Short('V') => parsed.flags.push(("version", OsString::new())),
                lexopt::Arg::Short(letter) => return Err(unknown_flag(&format!("-{letter}"), &parsed.words)),
                lexopt::Arg::Long(name) => {
                    let known = all_flag_names().find(|flag| *flag == name);
                    let name = known.ok_or_else(|| unknown_flag(&format!("--{name}"), &parsed.words))?;
                    let value = match flag_names(OPTIONS).any(|option| option == name) {
                        true => parser.value().map_err(|error| bad_syntax(&error))?,
                        false => OsString::new(),
                    };
                    parsed.flags.push((name, value));
                }
                lexopt::Arg::Value(word) => {
                    parsed.words.push(word);
                }
            }
        }
        Ok(parsed)
    }

    fn command(self) -> Result<CliCommand, UsageError> {
        if self.has("help") {
            return Ok(CliCommand::Help);
        }
        if self.has("version") {
            return Ok(CliCommand::Version);
        }
        let name = self.words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let operands = self.words.get(1..).unwrap_or_default();
        if name == "keeper" {
            return none_left(operands).map(|()| CliCommand::Keeper);
        }
        if let ("guardian", [mark]) = (name.as_str(), operands) {
            return Ok(CliCommand::Guardian(mark.to_string_lossy().into_owned()));
        }
        if !name.is_empty() && !SUBCOMMANDS.contains(&name.as_str()) {
            return Err(unknown_command(&name));
        }
        self.check_flags(&name)?;
        match name.as_str() {
            "" if self.has("check-config") => Ok(CliCommand::CheckConfig(self.config(operands)?)),
            "" | "serve" => self.serve(&name, operands).map(|serve| CliCommand::Serve(Box::new(serve))),
            "exec-server" => self.exec_server(operands).map(|face| CliCommand::ExecServer(Box::new(face))),
            "run" => self.run(operands).map(|run| CliCommand::Run(Box::new(run))),
            "stringd" => self.stringd(operands).map(|face| CliCommand::Stringd(Box::new(face))),
            "host" => self.host(operands).map(|host| CliCommand::Host(Box::new(host))),
            "doctor" => Ok(CliCommand::Doctor { json: self.has("json"), config: self.config(operands)? }),
            "check-config" => Ok(CliCommand::CheckConfig(self.config(operands)?)),
            "audit" => self.audit(operands),
            "policy" => self.policy(operands),
            "version" => none_left(operands).map(|()| CliCommand::Version),
            _ => Ok(CliCommand::Help),
        }
    }

    /// Checks that the subcommand accepts every flag.
    fn check_flags(&self, command: &str) -> Result<(), UsageError> {
        for (name, _) in &self.flags {
            let mut groups = OPTIONS.iter().chain(SWITCHES);
            if !groups.any(|(names, used_by)| names.contains(name) && used_by.contains(&command)) {
                let hint = format!("run `rexd --help` for the flags of `rexd {command}`");
                return Err(UsageError::new(format!("unexpected flag --{name} for `rexd {command}`"), hint));
            }
        }
        Ok(())
    }

    fn serve(&self, name: &str, operands: &[OsString]) -> Result<ServeArgs, UsageError> {
        none_left(operands)?;
        let serve = ServeArgs {
            config: self.config(&[])?,
            stdio: self.has("stdio"),
            bare: false,
            http: self.text("http")?,
            unix: self.last("unix").map(PathBuf::from),
            exec_server: self.exec_server_address()?,
            ws_auth: self.ws_auth()?,
            stringd: self.number("stringd", "port", "0 to 65535")?,
            hubs: self.texts("hub")?,
            host_id: self.text("host-id")?,
            join: self.text("join")?,
            tls: self.tls()?,
            client_ca: self.last("client-ca").map(PathBuf::from),
        };
        let listens = serve.http.is_some()
            || serve.unix.is_some()
            || serve.exec_server.is_some()
            || serve.stringd.is_some()
            || !serve.hubs.is_empty();
        // Without a command and a listener, serve stdin and stdout.
        let bare = name.is_empty() && !listens && !serve.stdio;
        Ok(ServeArgs { stdio: serve.stdio || bare, bare, ..serve })
    }

    fn tls(&self) -> Result<Option<(PathBuf, PathBuf)>, UsageError> {
        match (self.last("tls-cert"), self.last("tls-key")) {
            (Some(cert), Some(key)) => Ok(Some((cert.into(), key.into()))),
            (None, None) => Ok(None),
            (Some(_), None) => Err(UsageError::new("--tls-cert requires --tls-key", "pass both files")),
            (None, Some(_)) => Err(UsageError::new("--tls-key requires --tls-cert", "pass both files")),
        }
    }

    /// The configuration file, from `--config` or the operand of `check-config`, and the roots.
    fn config(&self, operands: &[OsString]) -> Result<ConfigArgs, UsageError> {
        let mut files = self.last("config").into_iter().chain(operands.iter().map(OsString::as_os_str));
        let file = files.next().map(PathBuf::from);
        if let Some(extra) = files.next() {
            return Err(UsageError::new(format!("unexpected file {extra:?}"), "pass one configuration file"));
        }
        let roots =
            self.flags.iter().filter(|(name, _)| *name == "root").map(|(_, value)| value.into()).collect();
        Ok(ConfigArgs { file, roots })
    }

    fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|(flag, _)| *flag == name)
    }

    fn last(&self, name: &str) -> Option<&OsStr> {
        self.flags.iter().rfind(|(flag, _)| *flag == name).map(|(_, value)| value.as_os_str())
    }

    fn text(&self, name: &str) -> Result<Option<String>, UsageError> {
        let Some(value) = self.last(name) else { return Ok(None) };
        let error = || UsageError::new(format!("the value of --{name} is not UTF-8"), "use UTF-8");
        value.to_str().map(|text| Some(text.to_owned())).ok_or_else(error)
    }

    /// Every value of a flag that can be repeated.
    fn texts(&self, name: &str) -> Result<Vec<String>, UsageError> {
        let values = self.flags.iter().filter(|(flag, _)| *flag == name);
        let error = || UsageError::new(format!("the value of --{name} is not UTF-8"), "use UTF-8");
        values.map(|(_, value)| value.to_str().map(str::to_owned).ok_or_else(error)).collect()
    }

    fn number<T: FromStr>(&self, name: &str, kind: &str, expected: &str) -> Result<Option<T>, UsageError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let error =
            |_| UsageError::new(format!("invalid {kind} {text:?}"), format!("--{name} expects {expected}"));
        text.parse().map(Some).map_err(error)
    }
}

/// Turns `-config F` into `--config F`, for known flags only.
fn with_two_dashes(argument: OsString) -> OsString {
    let long = argument.to_str().and_then(|text| text.strip_prefix('-')).filter(|text| {
        let name = text.split('=').next().unwrap_or(text);
        all_flag_names().any(|flag| flag == name)
    });
    match long {
        Some(long) => format!("--{long}").into(),
        None => argument,
    }
}

fn none_left(operands: &[OsString]) -> Result<(), UsageError> {
    match operands.first() {
        None => Ok(()),
        Some(extra) => Err(UsageError::new(
            format!("unexpected argument {extra:?}"),
            "run `rexd --help` for the commands",
        )),
    }
}

fn bad_syntax(error: &lexopt::Error) -> UsageError {
    UsageError::new(error.to_string(), "run `rexd --help` for the flags and their values")
}

fn unknown_flag(flag: &str, words: &[OsString]) -> UsageError {
    if let [command, operands @ ..] = words
        && command == "exec-server"
        && let Some(error) =
            exec_server::unsupported_command(operands).or_else(|| exec_server::unsupported_flag(flag))
    {
        return error;
    }
    let hint = match nearest(flag.trim_start_matches('-'), all_flag_names()) {
        Some(name) => format!("did you mean --{name}?"),
        None => "run `rexd --help` for the flags".to_owned(),
    };
    UsageError::new(format!("unknown flag {flag}"), hint)
}

fn unknown_command(name: &str) -> UsageError {
    let hint = match nearest(name, SUBCOMMANDS.iter().copied()) {
        Some(close) => format!("did you mean `rexd {close}`?"),
        None => "run `rexd --help` for the commands".to_owned(),
    };
    UsageError::new(format!("unknown command {name:?}"), hint)
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
