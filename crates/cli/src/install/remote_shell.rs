//! RemoteShell: runs `sh` scripts on a machine over one shared ssh connection.
//!
//! The command passed to the remote login shell is constant, so it works with every shell. The script is the first line
//! of its stdin, so its values need quoting for `sh` only.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use client::SessionOptions;
use client::target::SshTarget;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::failure::Failure;
use crate::output;

/// Reads the script from the first line of stdin; the script reads the rest.
const LOADER: &str = r#"exec sh -c 'IFS= read -r script; eval "$script"'"#;
/// Printed by the shared connection when it is open.
const READY: &str = "rex-ready";
/// The maximum length of the path of ssh's control socket, which ssh extends while it creates it.
const SOCKET_PATH_LIMIT: usize = 80;
/// The maximum output of a script; the longest is a config.
const OUTPUT_LIMIT: usize = 1024 * 1024;
/// Bytes written between two updates of the progress.
const CHUNK: usize = 64 * 1024;
/// After this time, and each time again, the user is informed what `rex` is waiting for.
const NOTICE_AFTER: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A machine that is reached over ssh.
#[derive(Debug)]
pub(crate) struct RemoteShell {
    ssh: SshTarget,
    options: SessionOptions,
    shared: Option<SharedConnection>,
}

/// The ssh master connection; it ends when its stdin is closed.
#[derive(Debug)]
struct SharedConnection {
    holder: Child,
    _socket_dir: Option<tempfile::TempDir>,
}

/// The output and status of a script.
#[derive(Debug)]
pub(crate) struct ScriptOutput {
    pub(crate) output: Vec<u8>,
    /// stderr without control characters.
    pub(crate) errors: String,
    pub(crate) status: Option<i32>,
}

impl RemoteShell {
    /// Opens the connection that all scripts share: the user's own if their ssh configuration shares connections,
    /// otherwise a new one.
    pub(crate) fn connect(ssh: SshTarget, options: SessionOptions) -> Result<RemoteShell, Failure> {
        let mut remote = RemoteShell { ssh, options, shared: None };
        let dir = match remote.user_shares_connections() {
            true => None,
            false => socket_dir(),
        };
        let mut command = Command::new("ssh");
        if let Some(dir) = &dir {
            let socket = format!("ControlPath={}", dir.path().join("s").display());
            remote.ssh.options.extend(["-o".to_owned(), socket]);
            command.arg("-M");
        }
        command.args(client::ssh_command(&remote.ssh, &remote.options).get_args());
        command.arg(format!("echo {READY}; exec cat >/dev/null"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().map_err(spawn_failure)?;
        remote.wait_until_ready(&mut holder)?;
        remote.shared = Some(SharedConnection { holder, _socket_dir: dir });
        Ok(remote)
    }

    /// The ssh options for sessions over the same connection.
    pub(crate) fn ssh(&self) -> &SshTarget {
        &self.ssh
    }

    /// Runs a script; `what` describes it in progress notes.
    pub(crate) fn run(&self, script: &str, what: &str) -> Result<ScriptOutput, Failure> {
        self.run_with(script, &[], what)
    }

    /// Runs a script with stdin.
    pub(crate) fn run_with(&self, script: &str, input: &[u8], what: &str) -> Result<ScriptOutput, Failure> {
        let mut command = client::ssh_command(&self.ssh, &self.options);
        command.arg(LOADER).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(spawn_failure)?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Failure::new("cannot run ssh: no standard streams"));
        };
        let stdout_reader = std::thread::spawn(move || read_limited(stdout));
        let errors = std::thread::spawn(move || read_limited(stderr));
        let script = one_line(script);
        let mut progress = Progress::new(what, input.len());
        // A script that stops reading has failed; its status and stderr follow.
        if stdin.write_all(script.as_bytes()).is_ok() {
            for chunk in input.chunks(CHUNK) {
                if stdin.write_all(chunk).is_err() {
                    break;
                }
                progress.add(chunk.len());
            }
        }
        drop(stdin);
        let status = progress.wait_with_notes(&mut child)?;
        progress.finish();
        let output = stdout_reader.join().unwrap_or_default();
        if output.len() >= OUTPUT_LIMIT {
            return Err(Failure::new(format!("{what}: unexpectedly large output from the remote shell")));
        }
        let errors = trimmed_text(&errors.join().unwrap_or_default());
        let answer = ScriptOutput { output, errors, status: status.code() };
        match answer.status {
            // ssh's own status: it could not connect, or the connection broke.
            Some(255) | None => Err(self.failure(answer.status, &answer.errors)),
            _ => Ok(answer),
        }
    }

    fn failure(&self, status: Option<i32>, stderr: &str) -> Failure {
        client::Error::from(client::ssh_failure(&self.ssh, status, stderr)).into()
    }

    /// Waits until the shared connection is open.
    fn wait_until_ready(&self, holder: &mut Child) -> Result<(), Failure> {
        let Some(stdout) = holder.stdout.take() else {
            return Err(Failure::new("cannot run ssh: no standard streams"));
        };
        if !is_readable_soon(&stdout) {
            output::note(format_args!("connecting to {} …", self.ssh));
        }
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        // A login shell may print a greeting first.
        while lines.read_line(&mut line)? > 0 {
            if line.trim_end().ends_with(READY) {
                return Ok(());
            }
            line.clear();
        }
        let stderr =
            holder.stderr.take().map(|stderr| trimmed_text(&read_limited(stderr))).unwrap_or_default();
        let status = holder.wait()?.code();
        Err(self.failure(status, &stderr))
    }

    /// Whether the user's ssh configuration shares connections to this host.
    fn user_shares_connections(&self) -> bool {
        let mut command = Command::new("ssh");
        command.arg("-G").args(client::ssh_command(&self.ssh, &self.options).get_args());
        let Ok(answer) = command.stdin(Stdio::null()).stderr(Stdio::null()).output() else { return false };
        let settings = String::from_utf8_lossy(&answer.stdout).into_owned();
        let has = |name: &str, none: &[&str]| {
            settings.lines().any(|line| {
                line.split_once(' ').is_some_and(|(key, value)| key == name && !none.contains(&value))
            })
        };
        has("controlpath", &["none"]) && has("controlmaster", &["false", "no"])
    }
}

impl Drop for SharedConnection {
    fn drop(&mut self) {
        // Closing stdin ends the remote `cat`, and with it the connection.
        drop(self.holder.stdin.take());
        self.holder.wait().ok();
    }
}

/// Whether the file becomes readable within a second.
fn is_readable_soon(file: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(file, PollFlags::IN)];
    // An interrupted poll counts as readable: the read that follows waits.
    !matches!(poll(&mut fds, Some(&NOTICE_AFTER)), Ok(0))
}

/// A temporary directory for the control socket; `None` if every path would be too long.
fn socket_dir() -> Option<tempfile::TempDir> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(std::path::PathBuf::from);
    let paths = runtime.into_iter().filter(|dir| dir.is_dir()).chain([std::env::temp_dir(), "/tmp".into()]);
    let mut dirs =
        paths.filter_map(|directory| tempfile::Builder::new().prefix("rex-").tempdir_in(directory).ok());
    dirs.find(|dir| dir.path().as_os_str().len() < SOCKET_PATH_LIMIT)
}

/// Joins a script to one line, without comments and blank lines.
fn one_line(script: &str) -> String {
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.collect::<Vec<_>>().join(" ") + "\n"
}

/// Reads a stream up to a limit and discards the rest, so that the writer does not block.
fn read_limited(mut stream: impl std::io::Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // On a read error, the bytes so far are returned.
    stream.by_ref().take(OUTPUT_LIMIT as u64).read_to_end(&mut bytes).ok();
    std::io::copy(&mut stream, &mut std::io::sink()).ok();
    bytes
}

/// Output as text without control characters.
fn trimmed_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

impl ScriptOutput {
    /// The output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

fn spawn_failure(error: std::io::Error) -> Failure {
    Failure::new(format!("cannot run ssh: {error}")).hint("install OpenSSH's client (openssh-client)")
}

/// Prints progress notes while a script runs.
struct Progress<'a> {
    what: &'a str,
    size: usize,
    done: usize,
    noted_at: Instant,
    has_noted: bool,
}

impl<'a> Progress<'a> {
    fn new(what: &'a str, size: usize) -> Progress<'a> {
        Progress { what, size, done: 0, noted_at: Instant::now(), has_noted: false }
    }

    fn add(&mut self, bytes: usize) {
        self.done += bytes;
        if self.noted_at.elapsed().as_secs() >= 1 {
            self.note();
        }
    }

    fn note(&mut self) {
        self.noted_at = Instant::now();
        match (self.done * 100).checked_div(self.size) {
            Some(percent) => output::note(format_args!("{}: {percent} %", self.what)),
            None if !self.has_noted => output::note(format_args!("{} …", self.what)),
            None => {}
        }
        self.has_noted = true;
    }

    /// Waits for the child, with a note every second.
    fn wait_with_notes(&mut self, child: &mut Child) -> Result<std::process::ExitStatus, Failure> {
        let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).map_err(std::io::Error::from)?;
        while !is_readable_soon(&ended) {
            self.note();
        }
        Ok(child.wait()?)
    }

    fn finish(&self) {
        if self.has_noted {
            output::note(format_args!("{}: done", self.what));
        }
    }
}
