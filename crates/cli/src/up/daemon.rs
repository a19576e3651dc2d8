//! The daemon of the demonstration: started, killed, started again, and ended.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use client::Target;
use rustix::process::{Pid, Signal, kill_process};

use super::unix;
use super::workspace::Workspace;
use crate::failure::Failure;

/// A running daemon; it ends with this.
#[derive(Debug)]
pub(super) struct Daemon {
    program: PathBuf,
    arguments: Vec<std::ffi::OsString>,
    state: PathBuf,
    socket: PathBuf,
    child: Child,
    listens: Vec<String>,
}

impl Daemon {
    /// Starts it on the workspace; with `lan` it listens beyond this machine too.
    pub(super) fn start(workspace: &Workspace, lan: bool) -> Result<Daemon, Failure> {
        let program = client::find_rexd().ok_or_else(|| {
            Failure::new("there is no rexd to start").hint("put rexd beside rex or on the PATH")
        })?;
        let (socket, config) = (workspace.own("rexd.sock"), workspace.own("config.toml"));
        // A configuration of its own, so that the reader's is neither used nor audited to.
        fs::write(
            &config,
            format!("[audit]\npath = {:?}\n", workspace.own("audit.log").display().to_string()),
        )?;
        let address = if lan { "0.0.0.0:0" } else { "127.0.0.1:0" };
        let mut arguments: Vec<std::ffi::OsString> = vec!["serve".into(), "--config".into(), config.into()];
        arguments.extend(["--root".into(), workspace.root().into(), "--unix".into(), socket.clone().into()]);
        arguments.extend(["--http".into(), address.into()]);
        let state = workspace.own("state");
        let (child, listens) = spawn(&program, &arguments, &state)?;
        Ok(Daemon { program, arguments, state, socket, child, listens })
    }

    /// Kills it as a crash would, and starts another.
    pub(super) fn crash_and_restart(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        (self.child, self.listens) = spawn(&self.program, &self.arguments, &self.state)?;
        Ok(())
    }

    /// How to reach it.
    pub(super) fn target(&self) -> Target {
        unix(&self.socket)
    }

    /// Its listeners, as it names them.
    pub(super) fn listens(&self) -> &[String] {
        &self.listens
    }

    /// Where it listens for HTTP, and the file with the token.
    pub(super) fn http(&self) -> Option<(&str, PathBuf)> {
        let url = self.listens.iter().find(|url| url.starts_with("http"))?;
        Some((url, self.state.join("rexd/token")))
    }

    /// The daemon's program.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Asks it to end and waits until it has.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(std::io::Error::from)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // After a failure it must not stay behind; after its end there is nothing to kill.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.end().ok();
        }
    }
}

fn spawn(
    program: &Path,
    arguments: &[std::ffi::OsString],
    state: &Path,
) -> Result<(Child, Vec<String>), Failure> {
    let mut command = Command::new(program);
    command.args(arguments).env("XDG_STATE_HOME", state).env_remove("REXD_CONFIG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start {}: {error}", program.display())))?;
    let mut stdout = child.stdout.take().map(BufReader::new);
    let mut listens = Vec::new();
    // One line for the socket, one for HTTP.
    while let Some(stdout) = stdout.as_mut().filter(|_| listens.len() < 2) {
        let mut line = String::new();
        if stdout.read_line(&mut line)? == 0 {
            return Err(ended(child, program));
        }
        listens.extend(line.trim_end().strip_prefix("listening rexd ").map(str::to_owned));
    }
    if let Some(stderr) = child.stderr.take() {
        // Somebody must read what it logs, or it stops at a full pipe.
        std::thread::spawn(move || std::io::copy(&mut BufReader::new(stderr), &mut std::io::sink()));
    }
    Ok((child, listens))
}

fn ended(child: Child, program: &Path) -> Failure {
    let said = child.wait_with_output().map(|output| output.stderr).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    Failure::new(format!("{} ended at once: {said}", program.display()))
        .hint("`rexd doctor` says what is wrong here")
}
