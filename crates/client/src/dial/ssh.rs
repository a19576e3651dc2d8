//! Starts a daemon through the system's ssh, so that its configuration, agents, jump hosts and multiplexing apply.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use link::child::{self, Child};

use super::shared_session::{self, SessionEnd, SharedSession};
use super::{Carrier, TargetLink, limits, share};
use crate::error::{ConnectError, ConnectStep};
use crate::options::SessionOptions;
use crate::target::{RemoteCommand, SshTarget, Target};

/// Starts the daemon from the directories of `rex target install`, independent of the login shell and its PATH.
const DEFAULT_COMMAND: &str =
    r#"exec sh -c 'PATH="/usr/local/bin:$HOME/.local/bin:$PATH"; export PATH; exec rexd --stdio'"#;
/// Checks the machine with the same daemon.
const DEFAULT_DOCTOR: &str = r#"PATH="/usr/local/bin:$HOME/.local/bin:$PATH" rexd doctor"#;
/// Starts ssh with terminal signals ignored: this program forwards Ctrl-C to the remote command, and an ssh that dies of
/// it would end the connection. ssh and its jump hosts inherit ignored signals.
const IGNORE_SIGNALS: &str = r#"trap "" HUP INT QUIT; exec ssh "$@""#;
/// The exit status of a shell that did not find a program.
const NOT_FOUND: i32 = 127;
/// The exit status of ssh for its own failures.
const SSH_FAILED: i32 = 255;

pub(super) async fn dial(ssh: &SshTarget, options: &SessionOptions) -> Result<TargetLink, ConnectError> {
    if let Some(link) = on_plain_connection(ssh) {
        return Ok(link);
    }
    let target = Target::Ssh(ssh.clone());
    let missing = |error: std::io::Error| {
        ConnectError::new(&target, ConnectStep::Find, format!("cannot run ssh: {error}"))
            .hint("install OpenSSH's client (openssh-client)")
    };
    let shared = share_arguments(ssh, options).await.map_err(missing)?;
    if shared.is_empty() {
        let command = command(ssh, options, &[]);
        let command = match options.interactive {
            true => without_terminal_signals(&command).map_err(missing)?,
            false => command,
        };
        return start(command, ssh).map_err(missing);
    }
    if options.interactive && !share::is_open(ssh) {
        open_shared(ssh, options, &shared).await?;
    }
    // On a shared connection nothing is prompted for. ssh then handles Ctrl-C even if it is ignored: it must not receive it.
    let options = SessionOptions { interactive: false, ..options.clone() };
    start(command(ssh, &options, &shared), ssh).map_err(missing)
}

/// A session on the shared connection if that is open and needs no ssh of its own. If the ssh that held it was killed, its
/// socket refuses the request, and another connection is opened.
fn on_plain_connection(ssh: &SshTarget) -> Option<TargetLink> {
    let (socket, variables) = share::plain_connection(ssh)?;
    let (link, session) = shared_session::open(&socket, &variables, &remote_line(ssh), &limits()).ok()?;
    Some(TargetLink { link, carrier: Carrier::SharedSsh(session, ssh.clone()) })
}

fn start(command: Command, ssh: &SshTarget) -> std::io::Result<TargetLink> {
    let (link, child) = child::spawn(command, &limits())?;
    Ok(TargetLink { link, carrier: Carrier::Ssh(child, ssh.clone()) })
}

/// The arguments for a shared connection; none if the target has a connection of its own.
async fn share_arguments(ssh: &SshTarget, options: &SessionOptions) -> std::io::Result<Vec<OsString>> {
    if share::is_decided(ssh) {
        return Ok(share::arguments(ssh, options));
    }
    // ssh is asked for its configuration, which may run commands of its own.
    let (ssh, options) = (ssh.clone(), options.clone());
    Ok(tokio::task::spawn_blocking(move || share::arguments(&ssh, &options)).await?)
}

/// Opens the shared connection in the foreground of the terminal, so that ssh can prompt.
async fn open_shared(
    ssh: &SshTarget,
    options: &SessionOptions,
    shared: &[OsString],
) -> Result<(), ConnectError> {
    let target = Target::Ssh(ssh.clone());
    let failed = |error: std::io::Error| {
        ConnectError::new(&target, ConnectStep::Find, format!("cannot run ssh: {error}"))
    };
    let mut command = base_command(ssh, options);
    command.args(shared).arg("--").arg(destination(ssh)).arg("true");
    let command = without_terminal_signals(&command).map_err(failed)?;
    let (link, child) = child::spawn(command, &limits()).map_err(failed)?;
    // A forced command reads the end of its input instead of a request.
    drop(link);
    let mut child = EndOnDrop(child);
    let status = loop {
        if let Some(status) = child.0.ended().await {
            break status;
        }
    };
    match status.code() {
        Some(SSH_FAILED) | None => Err(failure(ssh, status.code(), &child.0.errors().text())),
        // The status of a forced command says nothing about the connection.
        Some(_) => Ok(()),
    }
}

/// Ends an ssh that is waited for no longer: it may prompt, and ignores Ctrl-C.
struct EndOnDrop(Child);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.ask_to_end();
    }
}

/// The ssh command that carries a session, with the arguments of a shared connection.
fn command(ssh: &SshTarget, options: &SessionOptions, shared: &[OsString]) -> Command {
    let mut command = base_command(ssh, options);
    command.args(shared).arg("--").arg(destination(ssh)).arg(remote_line(ssh));
    command
}

/// The same for an ssh that may prompt: it stays in the terminal's foreground group and ignores its signals.
fn without_terminal_signals(ssh: &Command) -> std::io::Result<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| directory.join("ssh").is_file()) {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    let mut command = Command::new("sh");
    command.args(["-c", IGNORE_SIGNALS, "ssh"]).args(ssh.get_args());
    Ok(command)
}

/// ssh with its options up to the host.
pub(crate) fn base_command(ssh: &SshTarget, options: &SessionOptions) -> Command {
    let mut command = Command::new("ssh");
    command.arg("-T");
    if let Some(port) = ssh.port {
        command.arg("-p").arg(port.to_string());
    }
    if let Some(identity) = &ssh.identity {
        command.arg("-i").arg(identity);
    }
    // ssh uses the first value of an option: the target's options come first.
    command.args(&ssh.options);
    if !options.interactive {
        // Its own group receives no terminal signals. An ssh that may prompt must stay in the foreground group.
        command.args(["-o", "BatchMode=yes"]).process_group(0);
    }
    let timeout = format!("ConnectTimeout={}", options.connect_timeout.as_secs().max(1));
    command.args(["-o", &timeout, "-o", "ClearAllForwardings=yes"]);
    command.args(["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"]);
    command
}

/// The destination argument of ssh.
pub(crate) fn destination(ssh: &SshTarget) -> String {
    match &ssh.user {
        Some(user) => format!("{user}@{}", ssh.host),
        None => ssh.host.clone(),
    }
}

fn remote_line(ssh: &SshTarget) -> String {
    match &ssh.command {
        None => DEFAULT_COMMAND.to_owned(),
        Some(RemoteCommand::Line(line)) => line.clone(),
        Some(RemoteCommand::Argv(argv)) => {
            let quoted = argv.iter().map(|argument| quote(argument)).collect::<Vec<_>>();
            format!("exec {}", quoted.join(" "))
        }
    }
}

/// Quotes an argument for a POSIX shell where it needs quotes.
pub(crate) fn quote(argument: &str) -> String {
    // Only a NUL character cannot be quoted, and no argument contains one.
    shlex::try_quote(argument).map_or_else(|_nul| argument.to_owned(), |quoted| quoted.into_owned())
}

pub(super) async fn explain(child: &mut Child, ssh: &SshTarget) -> ConnectError {
    let status = child.ended().await.and_then(|status| status.code());
    failure(ssh, status, &child.errors().text())
}

pub(super) async fn explain_shared(session: &mut SharedSession, ssh: &SshTarget) -> ConnectError {
    let cause = match session.ended().await {
        SessionEnd::Exited(status) => return failure(ssh, Some(status), &session.errors().text()),
        // For example the limit of sessions of the server. ssh then opens a connection of its own.
        SessionEnd::Refused(reason) => {
            share::forget_plain(ssh);
            format!("the shared ssh connection refused a session: {reason}")
        }
        SessionEnd::Lost => "the shared ssh connection ended".to_owned(),
    };
    ConnectError::new(Target::Ssh(ssh.clone()), ConnectStep::OpenSession, cause).transient()
}

/// The hint for an ssh, or a remote command, that does not answer.
pub(super) fn timeout_hint(ssh: &SshTarget) -> String {
    let manual = manual_command(&ssh.to_string());
    match &ssh.command {
        None => format!("does `{manual}` work?"),
        Some(_) => format!(
            "does `{manual}` work? The target's `command` must start a program that speaks REXD on its standard streams"
        ),
    }
}

/// Explains the end of ssh from its exit status and standard error.
pub(crate) fn failure(ssh: &SshTarget, status: Option<i32>, stderr: &str) -> ConnectError {
    let host = &ssh.to_string();
    let failed = |step, cause: &str| ConnectError::new(format_args!("ssh:{host}"), step, cause);
    let manual = manual_command(host);
    match status {
        Some(SSH_FAILED) => ssh_error(&failed, stderr, &manual),
        Some(NOT_FOUND) => failed(ConnectStep::Start, "rexd is not installed on that machine")
            .hint(format!("install it with `rex target install {host} --root DIR`")),
        Some(_) if !stderr.is_empty() => failed(ConnectStep::Start, stderr)
            .hint(format!("check that machine with `{manual} {}`", doctor_command(ssh))),
        Some(code) => failed(ConnectStep::Start, &format!("the remote command exited with status {code}"))
            .hint("the target's `command` must start a program that speaks REXD on its standard streams"),
        None => failed(ConnectStep::Connect, "ssh does not answer").transient(),
    }
}

/// The command that checks the remote machine with the daemon of the target, quoted for the local shell.
fn doctor_command(ssh: &SshTarget) -> String {
    let line = match &ssh.command {
        None => DEFAULT_DOCTOR.to_owned(),
        // A command without `--stdio` is shown as it is.
        Some(RemoteCommand::Line(line)) => line.replacen(" --stdio", " doctor", 1),
        Some(RemoteCommand::Argv(argv)) => {
            let words = argv.iter().map(|word| quote(word)).collect::<Vec<_>>();
            words.join(" ").replacen(" --stdio", " doctor", 1)
        }
    };
    match line.contains(['\'', '"', '$', '\\', '`', ';', '&', '|', '<', '>', '(', ')']) {
        true => quote(&line),
        false => line,
    }
}

/// Explains a failure of ssh itself, which reports its kind only as text.
fn ssh_error(failed: &dyn Fn(ConnectStep, &str) -> ConnectError, stderr: &str, manual: &str) -> ConnectError {
    let last = stderr.lines().next_back().unwrap_or("ssh exited without a message");
    let has = |text: &str| stderr.contains(text);
    if has("Permission denied") || has("Too many authentication failures") {
        return failed(ConnectStep::Authenticate, last).hint(format!(
            "`{manual}` must work without a password: add a key with ssh-copy-id, or start the ssh-agent that has it"
        ));
    }
    if has("Host key verification failed") || has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        return failed(ConnectStep::Authenticate, "the host key is unknown or has changed")
            .hint(format!("run `{manual}` once and verify the host key"));
    }
    if has("Could not resolve hostname") {
        return failed(ConnectStep::Find, last).hint("check the name, or add a Host entry to ~/.ssh/config");
    }
    failed(ConnectStep::Connect, last).hint(format!("does `{manual}` work?")).transient()
}

/// The ssh command that a user would type for `[USER@]HOST[:PORT]`.
fn manual_command(host: &str) -> String {
    match format!("ssh:{host}").parse() {
        Ok(Target::Ssh(ssh)) => match ssh.port {
            Some(port) => format!("ssh -p {port} {}", destination(&ssh)),
            None => format!("ssh {}", destination(&ssh)),
        },
        _ => format!("ssh {host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_checks_the_machine_with_the_daemon_of_the_target() {
        let argv = |argv: &[&str]| RemoteCommand::Argv(argv.iter().map(|word| (*word).to_owned()).collect());
        for (command, hint) in [
            (None, r#"`ssh h 'PATH="/usr/local/bin:$HOME/.local/bin:$PATH" rexd doctor'`"#),
            (Some(RemoteCommand::Line("/opt/rexd --stdio".to_owned())), "`ssh h /opt/rexd doctor`"),
            (Some(RemoteCommand::Line("'/a b/rexd' --stdio".to_owned())), r#"`ssh h "'/a b/rexd' doctor"`"#),
            (
                Some(argv(&["/opt/rexd", "--stdio", "--config", "/etc/r.toml"])),
                "`ssh h /opt/rexd doctor --config /etc/r.toml`",
            ),
        ] {
            let ssh = SshTarget { host: "h".to_owned(), command, ..SshTarget::default() };
            let error = failure(&ssh, Some(1), "invalid configuration");
            assert_eq!(error.hint, Some(format!("check that machine with {hint}")));
        }
    }
}
