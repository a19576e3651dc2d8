//! The daemon of the demonstration.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use client::Target;
use rustix::process::{Pid, Signal, kill_process};

use super::unix;
use super::workspace::Workspace;
use crate::failure::Failure;

/// A running daemon, terminated when this is dropped.
#[derive(Debug)]
pub(super) struct DemoDaemon {
    program: PathBuf,
    arguments: Vec<std::ffi::OsString>,
    state: PathBuf,
    socket: PathBuf,
    child: Child,
    listeners: Vec<String>,
}

impl DemoDaemon {
    /// Starts the daemon on the workspace; with `lan`, it listeners on all interfaces.
    pub(super) fn start(workspace: &Workspace, lan: bool) -> Result<DemoDaemon, Failure> {
        let program = client::find_rexd()
            .ok_or_else(|| Failure::new("cannot find rexd").hint("put rexd next to rex or on the PATH"))?;
        let (socket, config) = (workspace.own("rexd.sock"), workspace.own("config.toml"));
        // Its own configuration, so that the user's configuration and audit file are not used.
        fs::write(
            &config,
            format!("[audit]\npath = {:?}\n", workspace.own("audit.log").display().to_string()),
        )?;
        let address = if lan { "0.0.0.0:0" } else { "127.0.0.1:0" };
        let mut arguments: Vec<std::ffi::OsString> = vec!["serve".into(), "--config".into(), config.into()];
        arguments.extend(["--root".into(), workspace.root().into(), "--unix".into(), socket.clone().into()]);
        arguments.extend(["--http".into(), address.into()]);
        let state = workspace.own("state");
        let (child, listeners) = spawn(&program, &arguments, &state)?;
        Ok(DemoDaemon { program, arguments, state, socket, child, listeners })
    }

    /// Kills the daemon with SIGKILL and starts another.
    pub(super) fn crash_and_restart(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        (self.child, self.listeners) = spawn(&self.program, &self.arguments, &self.state)?;
        Ok(())
    }

    /// The target that connects to the daemon.
    pub(super) fn target(&self) -> Target {
        unix(&self.socket)
    }

    /// The addresses of its listeners.
    pub(super) fn listeners(&self) -> &[String] {
        &self.listeners
    }

    /// Its HTTP address and the token file.
    pub(super) fn http(&self) -> Option<(&str, PathBuf)> {
        let url = self.listeners.iter().find(|url| url.starts_with("http"))?;
        Some((url, self.state.join("rexd/token")))
    }

    /// The path of the daemon's binary.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Sends SIGTERM and waits for the exit.
    pub(super) fn terminate(&mut self) -> Result<(), Failure> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(std::io::Error::from)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for DemoDaemon {
    fn drop(&mut self) {
        // After a failure the daemon must not stay behind.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.terminate().ok();
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
    let mut listeners = Vec::new();
    // One line for the socket, one for HTTP.
    while let Some(stdout) = stdout.as_mut().filter(|_| listeners.len() < 2) {
        let mut line = String::new();
        if stdout.read_line(&mut line)? == 0 {
            return Err(startup_failure(child, program));
        }
        listeners.extend(line.trim_end().strip_prefix("listening rexd ").map(str::to_owned));
    }
    if let Some(stderr) = child.stderr.take() {
        // The log must be read, or the daemon blocks on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut BufReader::new(stderr), &mut std::io::sink()));
    }
    Ok((child, listeners))
}

fn startup_failure(child: Child, program: &Path) -> Failure {
    let stderr = child.wait_with_output().map(|output| output.stderr).unwrap_or_default();
    let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
    Failure::new(format!("{} exited during startup: {stderr}", program.display()))
        .hint("`rexd doctor` shows what is wrong")
}
