//! `rex rsh`: runs a command with the command line of ssh, for programs that bring their own protocol.

use client::target::SshTarget;
use client::{Command, Target};

use super::exec::{exit_status, is_dev_null};
use super::shell;
use crate::app::App;
use crate::args::{RshArgs, RshCommandLine, ShellArgs};
use crate::command_limits::CommandLimits;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::relay::{self, InputMode, RelayOptions};
use crate::route::{self, Choice, Rule};
use crate::terminal::{self, RawMode};

/// Runs the server of the subsystem sftp from the directories in which distributions install it.
const SFTP_SERVER: &str = "for server in /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server \
/usr/lib/ssh/sftp-server /usr/libexec/sftp-server; do [ ! -x $server ] || exec $server; done; exec sftp-server";

/// Runs a command on the target of this name, or on the host over ssh.
pub(super) async fn run(json: bool, args: &RshArgs) -> Result<CommandStatus, Failure> {
    let line = args.parse().map_err(|problem| {
        Failure::new(format!("invalid command line: {problem}"))
            .hint("rex rsh [SSH OPTIONS] HOST CMD...; `rex exec` has options of its own")
    })?;
    let app = App { choice: choose(&line)?, json };
    if line.prints_configuration {
        // As much as programs need that probe for ssh.
        output::line(format_args!("hostname {}", line.host))?;
        return Ok(CommandStatus::OK);
    }
    if line.command.is_empty() {
        let args = ShellArgs { cwd: None, env: variables(&line), command: Vec::new() };
        return shell::run(&app, args).await;
    }
    run_command(&app, &line).await
}

async fn run_command(app: &App, line: &RshCommandLine) -> Result<CommandStatus, Failure> {
    let has_no_input = !line.wants_terminal && (line.has_no_input || is_dev_null(rustix::stdio::stdin()));
    let mut command = command(app, line)?;
    if has_no_input {
        command = command.no_input();
    }
    let (session, mut process, signals) = app.start(command).await?;
    let input = match (has_no_input, line.wants_terminal) {
        (true, _) => InputMode::Closed,
        (false, true) => InputMode::Terminal,
        (false, false) => InputMode::Forwarded,
    };
    let raw = match line.wants_terminal {
        true => RawMode::enter()?,
        false => None,
    };
    let options = RelayOptions { json: app.json, input, is_detached: false };
    let end = relay::relay(&mut process, signals, options).await;
    drop(raw);
    let status = exit_status(end?, CommandLimits::of_started(&session, None), app.json)?;
    session.close_without_waiting().await.ok();
    Ok(status)
}

fn command(app: &App, line: &RshCommandLine) -> Result<Command, Failure> {
    let text = match (line.is_subsystem, line.command.as_str()) {
        (false, text) => text,
        (true, "sftp") => SFTP_SERVER,
        (true, other) => {
            return Err(Failure::new(format!("unknown subsystem {other}"))
                .hint("only sftp is available; run any other server as a command"));
        }
    };
    let mut command = Command::line(text);
    for (name, value) in variables(line) {
        command = command.env(name, value);
    }
    if let Some(cwd) = &app.choice.cwd {
        command = command.cwd(cwd);
    }
    if line.wants_terminal {
        command = command.terminal(terminal::size());
    }
    Ok(command)
}

/// The variables that the command receives. A pattern of `SendEnv` is not expanded.
fn variables(line: &RshCommandLine) -> Vec<(String, String)> {
    let found = line.variables.iter().filter_map(|variable| match variable.split_once('=') {
        Some((name, value)) => Some((name.to_owned(), value.trim_matches('"').to_owned())),
        None => std::env::var(variable).ok().map(|value| (variable.clone(), value)),
    });
    found.collect()
}

/// The target of `[USER@]HOST`: an alias first, then a machine that ssh reaches.
fn choose(line: &RshCommandLine) -> Result<Choice, Failure> {
    let host = line.host.strip_prefix("ssh://").unwrap_or(&line.host);
    let (user, name) = match host.rsplit_once('@') {
        Some((user, name)) => (Some(user.to_owned()), name),
        None => (None, host),
    };
    let mut choice = match name == "local" || route::is_alias(name)? {
        true => route::choose_once(name)?,
        false => {
            let target =
                format!("ssh:{host}").parse().map_err(|error: client::target::ParseTargetError| {
                    Failure::new(error.to_string()).hint("`rex target list` shows the aliases")
                })?;
            Choice { target, alias: None, cwd: None, rule: Rule::Flag, warnings: Vec::new() }
        }
    };
    if let Target::Ssh(ssh) = &mut choice.target {
        ssh.user = user.or(ssh.user.take());
        apply(line, ssh);
        if !ssh.is_plain() {
            let message = "the user must be a plain name, without spaces and shell characters";
            return Err(Failure::new(message).hint("check -l USER or USER@HOST"));
        }
    }
    Ok(choice)
}

/// Adds the options of the command line, which precede those of the target.
fn apply(line: &RshCommandLine, ssh: &mut SshTarget) {
    ssh.user = line.user.clone().or(ssh.user.take());
    ssh.port = line.port.or(ssh.port);
    ssh.options.splice(0..0, line.ssh_options.iter().cloned());
}
