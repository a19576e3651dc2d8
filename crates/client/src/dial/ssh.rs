//! A daemon behind the system's ssh, so that its configuration, agents, jump hosts and shared connections all count.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use link::child::{self, Child};

use super::{Carrier, Dialed, limits};
use crate::error::{ConnectError, ConnectStep};
use crate::options::SessionOptions;
use crate::target::{RemoteCommand, SshTarget, Target};

/// Finds the daemon where `rex target install` puts it, whatever the login shell there is and knows.
const DEFAULT_COMMAND: &str =
    r#"exec sh -c 'PATH="/usr/local/bin:$HOME/.local/bin:$PATH"; export PATH; exec rexd --stdio'"#;
/// The doctor of that daemon.
const DEFAULT_DOCTOR: &str = r#"PATH="/usr/local/bin:$HOME/.local/bin:$PATH" rexd doctor"#;
/// Keys at the terminal are for the command there, which hears of them from us: an ssh that died of them would take the
/// link along. It keeps what was ignored when it was started ignored, and hands that on to the jumps it makes.
const SHELTER: &str = r#"trap "" HUP INT QUIT; exec ssh "$@""#;
/// The status of a shell that did not find a program.
const NOT_FOUND: i32 = 127;
/// The status of an ssh that failed itself.
const SSH_FAILED: i32 = 255;

pub(super) fn dial(ssh: &SshTarget, options: &SessionOptions) -> Result<Dialed, ConnectError> {
    let target = Target::Ssh(ssh.clone());
    let missing = |error: std::io::Error| {
        ConnectError::new(&target, ConnectStep::Find, format!("cannot run ssh: {error}"))
            .hint("install OpenSSH's client (openssh-client)")
    };
    let command = match options.interactive {
        true => sheltered(&command(ssh, options)).map_err(missing)?,
        false => command(ssh, options),
    };
    let (link, child) = child::spawn(command, &limits()).map_err(missing)?;
    Ok(Dialed { link, carrier: Carrier::Ssh(child, ssh.clone()) })
}

/// The ssh that carries a session. Settings that the user's own configuration may know better are left to it.
pub(crate) fn command(ssh: &SshTarget, options: &SessionOptions) -> Command {
    let mut command = login(ssh, options);
    command.arg("--").arg(place(ssh)).arg(remote_line(ssh));
    command
}

/// The same where a terminal is, which ssh may ask at: it has to stay in the foreground there, and must not hear keys.
fn sheltered(ssh: &Command) -> std::io::Result<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join("ssh").is_file()) {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    let mut command = Command::new("sh");
    command.args(["-c", SHELTER, "ssh"]).args(ssh.get_args());
    Ok(command)
}

/// ssh and its options up to the host, for whatever is to be run there.
pub(crate) fn login(ssh: &SshTarget, options: &SessionOptions) -> Command {
    let mut command = Command::new("ssh");
    command.arg("-T");
    if let Some(port) = ssh.port {
        command.arg("-p").arg(port.to_string());
    }
    if let Some(identity) = &ssh.identity {
        command.arg("-i").arg(identity);
    }
    // The first value counts for ssh: the target's own options stand before ours.
    command.args(&ssh.options);
    if !options.interactive {
        // Keys that interrupt are not for it. One that may ask at the terminal has to stay in its foreground.
        command.args(["-o", "BatchMode=yes"]).process_group(0);
    }
    let patience = format!("ConnectTimeout={}", options.connect_timeout.as_secs().max(1));
    command.args(["-o", &patience, "-o", "ClearAllForwardings=yes"]);
    command.args(["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"]);
    command
}

/// The host as ssh takes it.
pub(crate) fn place(ssh: &SshTarget) -> String {
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

/// Protected from a shell of any kind.
pub(crate) fn quote(argument: &str) -> String {
    format!("'{}'", argument.replace('\'', r"'\''"))
}

pub(super) async fn explain(child: &mut Child, ssh: &SshTarget) -> ConnectError {
    let status = child.ended().await.and_then(|status| status.code());
    failure(ssh, status, &child.errors().text())
}

/// What to do about an ssh, or what it has started, that says nothing.
pub(super) fn silent(ssh: &SshTarget) -> String {
    let by_hand = by_hand(&ssh.to_string());
    match &ssh.command {
        None => format!("does `{by_hand}` answer by hand?"),
        Some(_) => format!(
            "does `{by_hand}` answer by hand? What the target's `command` starts there must speak REXD on its \
             standard streams"
        ),
    }
}

/// Why an ssh that ended did so, by its status and what it said.
pub(crate) fn failure(ssh: &SshTarget, status: Option<i32>, said: &str) -> ConnectError {
    let host = &ssh.to_string();
    let wrong = |step, cause: &str| ConnectError::new(format_args!("ssh:{host}"), step, cause);
    let by_hand = by_hand(host);
    let last = said.lines().next_back().unwrap_or("ssh ended without a word").to_owned();
    match status {
        Some(SSH_FAILED) => refused(&wrong, said, &last, &by_hand),
        Some(NOT_FOUND) => wrong(ConnectStep::Start, "there is no rexd on that machine")
            .hint(format!("rex target install {host} --root DIR   puts it there")),
        Some(_) if !said.is_empty() => wrong(ConnectStep::Start, said)
            .hint(format!("`{by_hand} {}` says what is wrong there", doctor(ssh))),
        Some(code) => wrong(ConnectStep::Start, &format!("what was started there ended with status {code}"))
            .hint("what the target's `command` starts must speak REXD on its standard streams"),
        None => wrong(ConnectStep::Connect, "ssh does not answer").transient(),
    }
}

/// The command there that tells what is wrong with what is started there, protected from the shell here.
fn doctor(ssh: &SshTarget) -> String {
    let line = match &ssh.command {
        None => DEFAULT_DOCTOR.to_owned(),
        // What does not serve stdio only who wrote it knows; by hand it says the same.
        Some(RemoteCommand::Line(line)) => line.replacen(" --stdio", " doctor", 1),
        Some(RemoteCommand::Argv(argv)) => {
            let words = argv.iter().map(|word| plain_or_quoted(word)).collect::<Vec<_>>();
            words.join(" ").replacen(" --stdio", " doctor", 1)
        }
    };
    match line.contains(['\'', '"', '$', '\\', '`', ';', '&', '|', '<', '>', '(', ')']) {
        true => quote(&line),
        false => line,
    }
}

/// Quoted only if it has to be, for people to read.
fn plain_or_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => quote(word),
    }
}

/// What ssh's own failure means to a person; nothing but the wording depends on it.
fn refused(
    wrong: &dyn Fn(ConnectStep, &str) -> ConnectError,
    said: &str,
    last: &str,
    by_hand: &str,
) -> ConnectError {
    let has = |word: &str| said.contains(word);
    if has("Permission denied") || has("Too many authentication failures") {
        return wrong(ConnectStep::Authenticate, last).hint(format!(
            "`{by_hand}` must work without a password: add a key with ssh-copy-id, or start the agent that has it"
        ));
    }
    if has("Host key verification failed") || has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        return wrong(ConnectStep::Authenticate, "its host key is unknown or has changed")
            .hint(format!("run `{by_hand}` once by hand and compare the key with what its owner says"));
    }
    if has("Could not resolve hostname") {
        return wrong(ConnectStep::Find, last).hint("check the name, or add a Host entry to ~/.ssh/config");
    }
    wrong(ConnectStep::Connect, last).hint(format!("does `{by_hand}` work by hand?")).transient()
}

/// The ssh that a person would type for `[USER@]HOST[:PORT]`.
fn by_hand(host: &str) -> String {
    match format!("ssh:{host}").parse() {
        Ok(Target::Ssh(ssh)) => match ssh.port {
            Some(port) => format!("ssh -p {port} {}", place(&ssh)),
            None => format!("ssh {}", place(&ssh)),
        },
        _ => format!("ssh {host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_doctor_is_the_one_of_what_is_started_there() {
        let argv = |argv: &[&str]| RemoteCommand::Argv(argv.iter().map(|word| (*word).to_owned()).collect());
        for (command, hint) in [
            (None, r#"`ssh h 'PATH="/usr/local/bin:$HOME/.local/bin:$PATH" rexd doctor'`"#),
            (Some(RemoteCommand::Line("/opt/rexd --stdio".to_owned())), "`ssh h /opt/rexd doctor`"),
            (
                Some(RemoteCommand::Line("'/a b/rexd' --stdio".to_owned())),
                r"`ssh h ''\''/a b/rexd'\'' doctor'`",
            ),
            (
                Some(argv(&["/opt/rexd", "--stdio", "--config", "/etc/r.toml"])),
                "`ssh h /opt/rexd doctor --config /etc/r.toml`",
            ),
        ] {
            let ssh = SshTarget { host: "h".to_owned(), command, ..SshTarget::default() };
            let error = failure(&ssh, Some(1), "the config makes no sense");
            assert_eq!(error.hint, Some(format!("{hint} says what is wrong there")));
        }
    }
}
