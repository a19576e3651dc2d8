//! Remote: scripts run by `sh` on a machine, over one ssh connection that they share.
//!
//! What is said to the login shell there is always the same words, whatever shell that is. The script is the first
//! line of its standard input, so names in it need to be safe for `sh` alone.

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
use crate::table::plain;

/// Reads the script, then gives it the rest of the input.
const LOADER: &str = r#"exec sh -c 'IFS= read -r script; eval "$script"'"#;
/// What the shared connection says when it is open.
const READY: &str = "rex-ready";
/// The longest path a socket of ssh may have, with what ssh adds to it while it makes one.
const SOCKET_PATH_LIMIT: usize = 80;
/// No answer is longer: the longest is a config.
const ANSWER_LIMIT: usize = 1024 * 1024;
/// How much is sent at once, between looks at the clock.
const CHUNK: usize = 64 * 1024;
/// After this long somebody who waits is told for what, and again each time.
const SILENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A machine behind ssh.
#[derive(Debug)]
pub(crate) struct Remote {
    ssh: SshTarget,
    options: SessionOptions,
    shared: Option<Shared>,
}

/// A connection that later ones go through. Ends when its input does.
#[derive(Debug)]
struct Shared {
    holder: Child,
    _folder: Option<tempfile::TempDir>,
}

/// What a script said, and how it ended.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) output: Vec<u8>,
    /// For people: without anything that a terminal would obey.
    pub(crate) errors: String,
    pub(crate) status: Option<i32>,
}

impl Remote {
    /// Connects, and holds that connection open for all that follows. If the user's own configuration shares
    /// connections, it is theirs; else one of our own.
    pub(crate) fn connect(ssh: SshTarget, options: SessionOptions) -> Result<Remote, Failure> {
        let mut remote = Remote { ssh, options, shared: None };
        let folder = match remote.shares_already() {
            true => None,
            false => socket_folder(),
        };
        let mut command = Command::new("ssh");
        if let Some(folder) = &folder {
            let socket = format!("ControlPath={}", folder.path().join("s").display());
            remote.ssh.options.extend(["-o".to_owned(), socket]);
            command.arg("-M");
        }
        command.args(client::ssh_command(&remote.ssh, &remote.options).get_args());
        command.arg(format!("echo {READY}; exec cat >/dev/null"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().map_err(no_ssh)?;
        remote.await_ready(&mut holder)?;
        remote.shared = Some(Shared { holder, _folder: folder });
        Ok(remote)
    }

    /// How later sessions reach the machine: through the same connection.
    pub(crate) fn ssh(&self) -> &SshTarget {
        &self.ssh
    }

    /// Runs a script; `what` is told to somebody who waits.
    pub(crate) fn run(&self, script: &str, what: &str) -> Result<Answer, Failure> {
        self.run_with(script, &[], what)
    }

    /// Runs a script with an input.
    pub(crate) fn run_with(&self, script: &str, input: &[u8], what: &str) -> Result<Answer, Failure> {
        let mut command = client::ssh_command(&self.ssh, &self.options);
        command.arg(LOADER).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(no_ssh)?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Failure::new("ssh has no standard streams"));
        };
        let answers = std::thread::spawn(move || bytes_of(stdout));
        let errors = std::thread::spawn(move || bytes_of(stderr));
        let script = one_line(script);
        let mut progress = Progress::new(what, input.len());
        // A machine that does not want the rest has said why: the answer tells.
        if stdin.write_all(script.as_bytes()).is_ok() {
            for chunk in input.chunks(CHUNK) {
                if stdin.write_all(chunk).is_err() {
                    break;
                }
                progress.add(chunk.len());
            }
        }
        drop(stdin);
        let status = progress.while_waiting(&mut child)?;
        progress.finish();
        let output = answers.join().unwrap_or_default();
        if output.len() >= ANSWER_LIMIT {
            return Err(Failure::new(format!("{what}: the machine says more than could be meant")));
        }
        let errors = shown(&errors.join().unwrap_or_default());
        let answer = Answer { output, errors, status: status.code() };
        match answer.status {
            // ssh's own status: the machine was not reached or the connection was cut.
            Some(255) | None => Err(self.failure(answer.status, &answer.errors)),
            _ => Ok(answer),
        }
    }

    fn failure(&self, status: Option<i32>, said: &str) -> Failure {
        client::Error::from(client::ssh_failure(&self.ssh, status, said)).into()
    }

    /// Waits until the shared connection is open.
    fn await_ready(&self, holder: &mut Child) -> Result<(), Failure> {
        let Some(stdout) = holder.stdout.take() else {
            return Err(Failure::new("ssh has no standard streams"));
        };
        if !is_readable_soon(&stdout) {
            output::remark(format_args!("connecting to {} …", self.ssh));
        }
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        // A login shell may print a greeting of its own first.
        while lines.read_line(&mut line)? > 0 {
            if line.trim_end().ends_with(READY) {
                return Ok(());
            }
            line.clear();
        }
        let said = holder.stderr.take().map(|stderr| shown(&bytes_of(stderr))).unwrap_or_default();
        let status = holder.wait()?.code();
        Err(self.failure(status, &said))
    }

    /// Whether the user's configuration of ssh shares connections to this host.
    fn shares_already(&self) -> bool {
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

impl Drop for Shared {
    fn drop(&mut self) {
        // Its input ends, then the command there, then the connection.
        drop(self.holder.stdin.take());
        self.holder.wait().ok();
    }
}

/// Whether something happens before somebody who waits should be told.
fn is_readable_soon(file: &impl AsFd) -> bool {
    let mut asked = [PollFd::new(file, PollFlags::IN)];
    // A signal in between is as good as an answer: the reading that follows waits.
    !matches!(poll(&mut asked, Some(&SILENCE)), Ok(0))
}

/// A folder of our own for the socket; nothing where its path would be too long for one.
fn socket_folder() -> Option<tempfile::TempDir> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(std::path::PathBuf::from);
    let places =
        runtime.into_iter().filter(|folder| folder.is_dir()).chain([std::env::temp_dir(), "/tmp".into()]);
    let mut folders =
        places.filter_map(|place| tempfile::Builder::new().prefix("rex-").tempdir_in(place).ok());
    folders.find(|folder| folder.path().as_os_str().len() < SOCKET_PATH_LIMIT)
}

/// A script as one line; comments and blank lines go.
fn one_line(script: &str) -> String {
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.collect::<Vec<_>>().join(" ") + "\n"
}

/// What comes from a stream, up to a limit; the rest is read and forgotten, so that nobody waits for us.
fn bytes_of(mut stream: impl std::io::Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What arrived before it broke is what there is.
    stream.by_ref().take(ANSWER_LIMIT as u64).read_to_end(&mut bytes).ok();
    std::io::copy(&mut stream, &mut std::io::sink()).ok();
    bytes
}

/// What a machine says, for people.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().lines().map(plain).collect::<Vec<_>>().join("\n")
}

impl Answer {
    /// The output as text, for what scripts of our own say.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

fn no_ssh(error: std::io::Error) -> Failure {
    Failure::new(format!("cannot run ssh: {error}")).hint("install OpenSSH's client (openssh-client)")
}

/// Tells somebody who waits what for, and how far it is.
struct Progress<'a> {
    what: &'a str,
    size: usize,
    done: usize,
    told: Instant,
    is_told: bool,
}

impl<'a> Progress<'a> {
    fn new(what: &'a str, size: usize) -> Progress<'a> {
        Progress { what, size, done: 0, told: Instant::now(), is_told: false }
    }

    fn add(&mut self, bytes: usize) {
        self.done += bytes;
        if self.told.elapsed().as_secs() >= 1 {
            self.tell();
        }
    }

    fn tell(&mut self) {
        self.told = Instant::now();
        match (self.done * 100).checked_div(self.size) {
            Some(percent) => output::remark(format_args!("{}: {percent} %", self.what)),
            None if !self.is_told => output::remark(format_args!("{} …", self.what)),
            None => {}
        }
        self.is_told = true;
    }

    /// Waits for the end of a child, with a word after each silence.
    fn while_waiting(&mut self, child: &mut Child) -> Result<std::process::ExitStatus, Failure> {
        let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).map_err(std::io::Error::from)?;
        while !is_readable_soon(&ended) {
            self.tell();
        }
        Ok(child.wait()?)
    }

    fn finish(&self) {
        if self.is_told {
            output::remark(format_args!("{}: done", self.what));
        }
    }
}
