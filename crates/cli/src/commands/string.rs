//! `rex string`: one command of a stringd daemon on this machine, which is started if none answers.

use std::io::{IsTerminal as _, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use client::stringd::{ExecRequest, StringdClient, StringdError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use serde_json::json;

use crate::args::StringArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// The port without a flag and a variable.
const DEFAULT_PORT: u16 = 3100;
/// The user without a flag and a variable.
const DEFAULT_USER: &str = "default";

/// Commands that need a body, which is read from stdin without a `-`.
const WITH_BODY: [&str; 2] = ["/write", "/append"];
/// Commands that take a body or none; stdin is read if it has something.
const MAY_HAVE_BODY: [&str; 2] = ["/edit", "/set"];
/// How long the first bytes of a pipe are waited for: the program that writes it may have started just now.
const PIPE_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Runs the command; the status is 0 or 1 by its success.
pub(super) async fn run(json: bool, args: StringArgs) -> Result<CommandStatus, Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = args.user.or_else(|| variable("STRINGD_USER")).unwrap_or_else(|| DEFAULT_USER.to_owned());
    let home = home(args.home.or_else(|| variable("STRINGD_HOME").map(PathBuf::from)), &user)?;
    let port = variable("STRINGD_PORT").and_then(|port| port.parse().ok()).filter(|port| *port != 0);
    let port = args.port.or(port).unwrap_or(DEFAULT_PORT);
    let command = command(&args.command)?;
    let mut client = StringdClient::new(port, user);
    let hint = format!("run `rexd stringd {port}`");
    client.ensure_daemon(&program()).await.map_err(|error| Failure::new(error.to_string()).hint(hint))?;
    client.ensure_user(&home.to_string_lossy()).await.map_err(failure)?;
    let request = ExecRequest { cmd: command, topic: args.topic.clone(), request_id: None };
    let result = client.exec(&request).await.map_err(failure)?;
    let topic = result.topic.unwrap_or(args.topic);
    match json {
        true => output::json_line(
            &json!({ "ok": result.ok, "topic": topic, "code": result.code, "content": result.content }),
        )?,
        false => output::line(&result.content)?,
    }
    Ok(if result.ok { CommandStatus::OK } else { CommandStatus::UNSUCCESSFUL })
}

/// The command line with its body. Other commands must not wait for the end of a pipe that they inherited.
fn command(words: &[String]) -> Result<String, Failure> {
    let (words, is_named) = match words {
        [words @ .., last] if last == "-" && !words.is_empty() => (words, true),
        words => (words, false),
    };
    let command = words.join(" ");
    let verb = command.split_whitespace().next().unwrap_or_default();
    let mut stdin = std::io::stdin();
    let is_read = is_named
        || WITH_BODY.contains(&verb) && !stdin.is_terminal()
        || MAY_HAVE_BODY.contains(&verb) && has_input();
    if !is_read {
        return Ok(command);
    }
    let mut body = String::new();
    let unreadable = |error| Failure::new(format!("cannot read stdin: {error}"));
    stdin.read_to_string(&mut body).map_err(unreadable)?;
    Ok(if body.is_empty() { command } else { format!("{command}\n{body}") })
}

/// Whether stdin is a file, or a pipe with data or without a writer.
fn has_input() -> bool {
    let stdin = std::io::stdin();
    let Ok(stat) = rustix::fs::fstat(stdin.as_fd()) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => true,
        FileType::Fifo => {
            let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
            matches!(poll(&mut polled, Some(&PIPE_WAIT)), Ok(1))
        }
        _ => false,
    }
}

/// The home of the user, absolute and existing.
fn home(named: Option<PathBuf>, user: &str) -> Result<PathBuf, Failure> {
    let default = || {
        let home = std::env::var_os("HOME").map(PathBuf::from)?;
        Some(home.join(".string/users").join(user))
    };
    let home = named.or_else(default).ok_or_else(|| {
        Failure::new("the user has no home: HOME is not set").hint("pass --home DIR or set STRINGD_HOME")
    })?;
    let unusable = |error| Failure::new(format!("cannot use {}: {error}", home.display()));
    let home = std::path::absolute(&home).map_err(unusable)?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&home).map_err(unusable)?;
    Ok(home)
}

/// `rexd` beside this program, otherwise the one in PATH.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|ours| Some(ours.parent()?.join("rexd")));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("rexd"))
}

fn failure(error: StringdError) -> Failure {
    let hint = match &error {
        StringdError::QueueFull(_) | StringdError::QueueTimeout(_) => {
            Some("wait until the commands of the topic have ended, then repeat it")
        }
        StringdError::Unreachable { .. } | StringdError::Broken(_) | StringdError::Refused { .. } => None,
    };
    let failure = Failure::new(error.to_string());
    hint.into_iter().fold(failure, Failure::hint)
}
