//! One ssh connection per target for many commands, through ssh's own ControlMaster.
//!
//! The socket lies in a private directory. Its name is a hash of everything that selects the connection, so that two targets
//! never share one, and of the times of the ssh configuration, so that a changed configuration is used at once.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sha2::{Digest as _, Sha256};

use super::ssh::{base_command, destination};
use super::ssh_settings::{SshSettings, matches_name};
use crate::options::SessionOptions;
use crate::target::SshTarget;

/// Seconds for which an unused connection is kept.
const KEPT_SECONDS: u32 = 600;
/// The longest path of a unix socket, on the systems with the shortest one.
const SOCKET_PATH_LIMIT: usize = 104;
/// The length of the name of a socket.
const NAME_LENGTH: usize = 16;
/// What ssh appends to the path while it creates the socket.
const TEMPORARY_LENGTH: usize = 17;
/// Marks a target whose connection the ssh configuration of the user shares.
const OWN_SUFFIX: &str = "own";
/// Marks a connection whose sessions need nothing from the ssh configuration but the variables that it names.
const PLAIN_SUFFIX: &str = "plain";
/// The time limit of a request to the process that holds a connection.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// What happened to a shared connection that was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedConnection {
    /// It was open, and is closed now.
    Closed,
    /// No connection was open.
    Absent,
}

/// The arguments with which ssh uses the shared connection of a target, or opens it. None if the target or the user's ssh
/// configuration has its own way, or if there is no place for the socket.
pub(super) fn arguments(ssh: &SshTarget, options: &SessionOptions) -> Vec<OsString> {
    let Some(socket) = socket_of(ssh) else { return Vec::new() };
    let ciphers = match is_socket(&socket) {
        // A connection that is open has its cipher.
        true => None,
        false => match settings_to_open(&socket, ssh, options) {
            Some(settings) => settings.faster_ciphers(),
            None => return Vec::new(),
        },
    };
    let mut path = OsString::from("ControlPath=");
    path.push(&socket);
    let persist = format!("ControlPersist={KEPT_SECONDS}");
    let ciphers = ciphers.map(|ciphers| format!("Ciphers={ciphers}").into());
    let settings = ["ControlMaster=auto".into(), path, persist.into()].into_iter().chain(ciphers);
    settings.flat_map(|setting| ["-o".into(), setting]).collect()
}

/// The socket of a connection on which sessions can be requested without another ssh, and the variables for them.
pub(super) fn plain_connection(ssh: &SshTarget) -> Option<(PathBuf, Vec<String>)> {
    let socket = socket_of(ssh).filter(|socket| is_socket(socket))?;
    let patterns = std::fs::read_to_string(socket.with_extension(PLAIN_SUFFIX)).ok()?;
    let is_sent = |name: &str| patterns.lines().any(|pattern| matches_name(pattern, name));
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| is_sent(name))?;
        Some(format!("{name}={}", value.into_string().ok()?))
    });
    let variables = variables.collect();
    Some((socket, variables))
}

/// Lets ssh itself open the next sessions: the holder of the connection has refused one.
pub(super) fn forget_plain(ssh: &SshTarget) {
    if let Some(socket) = socket_of(ssh) {
        // If it stays, the next request is refused too, and ssh is used after it.
        remove_file(&socket.with_extension(PLAIN_SUFFIX)).ok();
    }
}

/// Whether [`arguments`] does not have to run a program.
pub(super) fn is_decided(ssh: &SshTarget) -> bool {
    let is_known = |socket: PathBuf| is_socket(&socket) || socket.with_extension(OWN_SUFFIX).exists();
    socket_of(ssh).is_none_or(is_known)
}

/// Whether the shared connection is open. A socket that a killed ssh has left is removed.
pub(super) fn is_open(ssh: &SshTarget) -> bool {
    let Some(socket) = socket_of(ssh).filter(|socket| is_socket(socket)) else { return false };
    let is_open = UnixStream::connect(&socket).is_ok();
    if !is_open {
        // If it stays, ssh removes it.
        remove_file(&socket).ok();
    }
    is_open
}

/// Closes the shared connection of a target.
pub(super) async fn close(ssh: &SshTarget) -> io::Result<SharedConnection> {
    match socket_of(ssh) {
        Some(socket) => {
            remove_file(&socket.with_extension(OWN_SUFFIX))?;
            remove_file(&socket.with_extension(PLAIN_SUFFIX))?;
            end(socket).await
        }
        None => Ok(SharedConnection::Absent),
    }
}

/// Closes all shared connections of this user; returns how many were open.
pub(super) async fn close_all() -> io::Result<usize> {
    let mut closed = 0;
    for directory in directories() {
        let entries = match std::fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|suffix| suffix == OWN_SUFFIX || suffix == PLAIN_SUFFIX) {
                remove_file(&path)?;
            } else if is_socket(&path) && end(path).await? == SharedConnection::Closed {
                closed += 1;
            }
        }
    }
    Ok(closed)
}

/// Stops the use of a connection that does not answer: the next command opens another one. Commands that use it continue.
pub(super) async fn abandon(ssh: &SshTarget) {
    if let Some(socket) = socket_of(ssh).filter(|socket| is_socket(socket)) {
        control("stop", socket).await.ok();
    }
}

async fn end(socket: PathBuf) -> io::Result<SharedConnection> {
    if !is_socket(&socket) {
        return Ok(SharedConnection::Absent);
    }
    let holder = control("check", socket.clone()).await?.as_deref().and_then(holder_of);
    let was_open = control("exit", socket.clone()).await?.is_some();
    if let Some(holder) = holder {
        within_timeout(move || wait_for_end(&holder)).await??;
    }
    // The process that held it may have been killed.
    remove_file(&socket)?;
    Ok(if was_open { SharedConnection::Closed } else { SharedConnection::Absent })
}

/// The process that holds a connection, from the answer to `check`: `Master running (pid=1)`.
fn holder_of(answer: &str) -> Option<OwnedFd> {
    let (_, rest) = answer.split_once("pid=")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    pidfd_open(Pid::from_raw(digits.parse().ok()?)?, PidfdFlags::empty()).ok()
}

/// Waits until a process has ended: before that, it may remove the socket of the next connection.
fn wait_for_end(process: &OwnedFd) -> io::Result<()> {
    let timeout = Timespec { tv_sec: CONTROL_TIMEOUT.as_secs().cast_signed() / 2, tv_nsec: 0 };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout))?;
    Ok(())
}

/// Sends a request to the process that holds a connection; returns its answer, or `None` if there is no such process.
async fn control(request: &'static str, socket: PathBuf) -> io::Result<Option<String>> {
    let answer = within_timeout(move || {
        let mut command = Command::new("ssh");
        command.args(["-F", "/dev/null", "-O", request, "-S"]).arg(socket).arg("rex");
        command.stdin(Stdio::null()).output()
    });
    let answer = answer.await??;
    Ok(answer.status.success().then(|| String::from_utf8_lossy(&answer.stderr).into_owned()))
}

async fn within_timeout<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    match tokio::time::timeout(CONTROL_TIMEOUT, tokio::task::spawn_blocking(work)).await {
        Ok(done) => Ok(done?),
        Err(_elapsed) => Err(io::Error::new(io::ErrorKind::TimedOut, "ssh does not answer")),
    }
}

/// The settings of ssh for a connection that is opened for others. `None` if the user's ssh configuration shares it, or if
/// sockets cannot be created.
fn settings_to_open(socket: &Path, ssh: &SshTarget, options: &SessionOptions) -> Option<SshSettings> {
    let own = socket.with_extension(OWN_SUFFIX);
    if own.exists() || !can_bind(&socket.with_extension(std::process::id().to_string())) {
        return None;
    }
    let mut arguments: Vec<OsString> = base_command(ssh, options).get_args().map(ToOwned::to_owned).collect();
    arguments.extend(["--".into(), destination(ssh).into()]);
    // The session that follows reports why ssh does not run.
    let settings = SshSettings::read(&arguments)?;
    if settings.has_control_path() {
        // Without the file, the next command asks ssh again.
        std::fs::File::create(own).ok();
        return None;
    }
    // Without the file, an ssh is started for each session.
    match settings.variables_to_send() {
        Some(patterns) => std::fs::write(socket.with_extension(PLAIN_SUFFIX), patterns).ok(),
        None => remove_file(&socket.with_extension(PLAIN_SUFFIX)).ok(),
    };
    Some(settings)
}

/// Whether the file system of a path has sockets; ssh fails on one that has none.
fn can_bind(path: &Path) -> bool {
    let is_bound = UnixListener::bind(path).is_ok();
    remove_file(path).ok();
    is_bound
}

/// The path of the socket of a target, in a directory that exists; `None` if the target shares nothing.
fn socket_of(ssh: &SshTarget) -> Option<PathBuf> {
    if ssh.is_unshared || has_own_way(ssh) {
        return None;
    }
    let name = name_of(ssh);
    // ssh splits its options at blanks and expands `%`.
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+@-".contains(byte);
    let fits = |directory: &PathBuf| {
        let path = directory.as_os_str().as_bytes();
        path.len() + 1 + NAME_LENGTH + TEMPORARY_LENGTH < SOCKET_PATH_LIMIT && path.iter().all(is_plain)
    };
    directories().find(|directory| fits(directory) && is_private(directory)).map(|found| found.join(name))
}

/// Whether the options of the target say themselves how its connection is shared.
fn has_own_way(ssh: &SshTarget) -> bool {
    ssh.options.iter().any(|option| {
        let setting = option.strip_prefix("-o").unwrap_or(option).trim_start().to_ascii_lowercase();
        option.starts_with("-S") || setting.starts_with("controlpath") || setting.starts_with("controlmaster")
    })
}

/// The directories for sockets, the best first.
fn directories() -> impl Iterator<Item = PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    absolute("XDG_RUNTIME_DIR").into_iter().chain(state).map(|base| base.join("rexd/ssh"))
}

/// Creates the directory if it is missing; returns whether only this user has access to it.
fn is_private(directory: &Path) -> bool {
    if std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).is_err() {
        return false;
    }
    let user = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(directory)
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A hash of what selects the connection: each part with its length, so that no two targets have the same text.
fn name_of(ssh: &SshTarget) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    add(destination(ssh).as_bytes());
    add(ssh.port.map(|port| port.to_string()).unwrap_or_default().as_bytes());
    add(ssh.identity.as_deref().unwrap_or(Path::new("")).as_os_str().as_bytes());
    for option in &ssh.options {
        add(option.as_bytes());
    }
    if names_relative_files(ssh) {
        add(std::env::current_dir().unwrap_or_default().as_os_str().as_bytes());
    }
    for file in configuration_files(ssh) {
        let changed = std::fs::metadata(file).map(|found| (found.mtime(), found.mtime_nsec(), found.ino()));
        add(format!("{:?}", changed.ok()).as_bytes());
    }
    hex::encode(&hash.finalize()[..NAME_LENGTH / 2])
}

/// Whether the connection depends on files that are named relative to the working directory.
fn names_relative_files(ssh: &SshTarget) -> bool {
    let is_relative = |file: &str| !file.starts_with(['/', '~', '%']);
    let mut options = ssh.options.iter().map(String::as_str);
    let mut found = ssh.identity.as_deref().is_some_and(Path::is_relative);
    while let Some(option) = options.next() {
        let file = match option {
            "-i" | "-F" => options.next(),
            _ if option.starts_with("-i") || option.starts_with("-F") => option.get(2..),
            _ => {
                let setting = option.strip_prefix("-o").unwrap_or(option).split_once(['=', ' ']);
                setting.filter(|(name, _)| name.to_ascii_lowercase().ends_with("file")).map(|(_, file)| file)
            }
        };
        found |= file.is_some_and(is_relative);
    }
    found
}

/// The files that ssh reads for this target.
fn configuration_files(ssh: &SshTarget) -> Vec<PathBuf> {
    let mut named = Vec::new();
    let mut options = ssh.options.iter();
    while let Some(option) = options.next() {
        match option.strip_prefix("-F") {
            Some("") => named.extend(options.next().map(PathBuf::from)),
            Some(file) => named.push(PathBuf::from(file)),
            None => {}
        }
    }
    if named.is_empty() {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        named.extend(home.map(|home| home.join(".ssh/config")));
        named.push(PathBuf::from("/etc/ssh/ssh_config"));
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, options: &[&str]) -> SshTarget {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        SshTarget { host: host.to_owned(), options, ..SshTarget::default() }
    }

    #[test]
    fn files_named_relative_to_the_working_directory_are_found() {
        for (options, expected) in [
            (&["-i", "key"][..], true),
            (&["-ikey"], true),
            (&["-i", "/key"], false),
            (&["-o", "IdentityFile=key"], true),
            (&["-oUserKnownHostsFile=~/known"], false),
            (&["-o", "BatchMode=yes", "-4"], false),
            (&["-F", "config"], true),
        ] {
            assert_eq!(names_relative_files(&target("a", options)), expected, "{options:?}");
        }
        assert!(has_own_way(&target("a", &["-o", "ControlPath=none"])));
        assert!(has_own_way(&target("a", &["-oControlMaster=no"])));
        assert!(!has_own_way(&target("a", &["-o", "Compression=yes"])));
    }

    #[test]
    fn targets_that_differ_have_different_sockets() {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("config");
        std::fs::write(&config, "Host a").unwrap();
        let option = format!("-F{}", config.display());
        let targets = [
            target("a", &[]),
            target("ab", &[]),
            target("a", &["-4"]),
            target("a", &["-", "4"]),
            SshTarget { user: Some("b".to_owned()), ..target("a", &[]) },
            SshTarget { port: Some(22), ..target("a", &[]) },
            SshTarget { identity: Some("key".into()), ..target("a", &[]) },
            target("a", &[&option]),
        ];
        let names = targets.iter().map(name_of).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(names.len(), targets.len());
        assert!(names.iter().all(|name| name.len() == NAME_LENGTH), "{names:?}");
        assert_eq!(name_of(&targets[7]), name_of(&target("a", &[&option])));
        // A new file, so that its inode differs even if the clock does not.
        std::fs::write(directory.path().join("new"), "Host b").unwrap();
        std::fs::rename(directory.path().join("new"), &config).unwrap();
        assert!(!names.contains(&name_of(&targets[7])), "a changed configuration is another connection");
    }

    #[test]
    fn the_process_that_holds_a_connection_is_found_in_the_answer() {
        let own = format!("Master running (pid={})\r\n", std::process::id());
        assert!(holder_of(&own).is_some());
        for answer in ["", "Master running", "pid=", "pid=x", "pid=-1", "pid=0)"] {
            assert!(holder_of(answer).is_none(), "{answer}");
        }
    }

    #[test]
    fn a_directory_of_others_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        assert!(is_private(&path));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o770)).unwrap();
        assert!(!is_private(&path));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path().join("a"), &link).unwrap();
        assert!(!is_private(&link));
    }
}
