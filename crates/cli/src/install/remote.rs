//! Remote: scripts run by `sh` on a machine, over one ssh connection that they share.
//!
//! What is said to the login shell there is always the same words, whatever shell that is. The script is the first
//! line of its standard input, so names in it need to be safe for `sh` alone.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::Options;
use client::target::Ssh;

use crate::failure::Failure;
use crate::output;

/// Reads the script, then gives it the rest of the input.
const LOADER: &str = r#"exec sh -c 'IFS= read -r script; eval "$script"'"#;
/// What the shared connection says when it is open.
const READY: &str = "rex-ready";
/// The longest path a socket of ssh may have, with what ssh adds to it while it makes one.
const SOCKET_PATH_LIMIT: usize = 80;
/// How much is sent at once, between looks at the clock.
const CHUNK: usize = 64 * 1024;
/// After this long somebody who waits is told for what, and again each time.
const SILENCE: Duration = Duration::from_secs(1);

/// A machine behind ssh.
#[derive(Debug)]
pub(crate) struct Remote {
    ssh: Ssh,
    options: Options,
    shared: Option<Shared>,
}

/// A connection that later ones go through. Ends when its input does.
#[derive(Debug)]
struct Shared {
    master: Child,
    _folder: tempfile::TempDir,
}

/// What a script said, and how it ended.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) output: String,
    pub(crate) errors: String,
    pub(crate) status: Option<i32>,
}

impl Remote {
    /// Connects. If the user's own configuration shares connections, that is used.
    pub(crate) fn connect(ssh: Ssh, options: Options) -> Result<Remote, Failure> {
        let mut remote = Remote { ssh, options, shared: None };
        if remote.shares_already() {
            return Ok(remote);
        }
        let Some(folder) = socket_folder() else { return Ok(remote) };
        let mut ours = remote.ssh.clone();
        let socket = format!("ControlPath={}", folder.path().join("s").display());
        ours.options.extend(["-o".to_owned(), socket]);
        let mut command = client::ssh_command(&ours, &remote.options);
        // Options of the command line stand before the host; this one belongs to the first connection alone.
        command.arg(format!("echo {READY}; exec cat >/dev/null"));
        let mut master = with_master(&command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(no_ssh)?;
        remote.await_ready(&mut master)?;
        remote.ssh = ours;
        remote.shared = Some(Shared { master, _folder: folder });
        Ok(remote)
    }

    /// How later sessions reach the machine: through the same connection.
    pub(crate) fn ssh(&self) -> &Ssh {
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
        let answers = std::thread::spawn(move || text_of(stdout));
        let errors = std::thread::spawn(move || text_of(stderr));
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
        let answer = Answer {
            output: answers.join().unwrap_or_default(),
            errors: errors.join().unwrap_or_default(),
            status: status.code(),
        };
        match answer.status {
            // ssh's own status: the machine was not reached or the connection was cut.
            Some(255) | None => Err(self.failure(answer.status, &answer.errors)),
            _ => Ok(answer),
        }
    }

    fn failure(&self, status: Option<i32>, said: &str) -> Failure {
        client::Error::from(client::ssh_failure(&self.ssh, status, said.trim())).into()
    }

    /// Waits until the shared connection is open.
    fn await_ready(&self, master: &mut Child) -> Result<(), Failure> {
        let Some(stdout) = master.stdout.take() else {
            return Err(Failure::new("ssh has no standard streams"));
        };
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        // A login shell may print a greeting of its own first.
        while lines.read_line(&mut line)? > 0 {
            if line.trim_end().ends_with(READY) {
                return Ok(());
            }
            line.clear();
        }
        let said = master.stderr.take().map(text_of).unwrap_or_default();
        let status = master.wait()?.code();
        Err(self.failure(status, &said))
    }

    /// Whether the user's configuration of ssh shares connections to this host.
    fn shares_already(&self) -> bool {
        let mut command = client::ssh_command(&self.ssh, &self.options);
        let mut asking = Command::new(command.get_program());
        asking.arg("-G").args(command.get_args());
        command = asking;
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
        drop(self.master.stdin.take());
        self.master.wait().ok();
    }
}

/// The same command with the request to share its connection, which ssh takes only before the host.
fn with_master(command: &Command) -> Command {
    let mut sharing = Command::new(command.get_program());
    sharing.arg("-M").args(command.get_args());
    sharing
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

fn text_of(mut stream: impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    // What arrived before it broke is what there is.
    stream.by_ref().take(CHUNK as u64 * 16).read_to_end(&mut bytes).ok();
    String::from_utf8_lossy(&bytes).into_owned()
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
        if self.told.elapsed() >= SILENCE {
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
        let pid = rustix::process::Pid::from_child(child);
        let ended = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
            .map_err(std::io::Error::from)?;
        loop {
            let mut asked = [rustix::event::PollFd::new(&ended, rustix::event::PollFlags::IN)];
            let silence = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
            match rustix::event::poll(&mut asked, Some(&silence)) {
                Ok(0) => self.tell(),
                Err(rustix::io::Errno::INTR) => {}
                _ => return Ok(child.wait()?),
            }
        }
    }

    fn finish(&self) {
        if self.is_told {
            output::remark(format_args!("{}: done", self.what));
        }
    }
}
