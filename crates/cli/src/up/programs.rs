//! The servers of the demonstration as child processes, ended when their handles are dropped.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;

/// A running server, ended with SIGTERM when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// Kept open: a server that prints to a closed pipe fails.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server and waits for `lines` lines that begin with `listening `; returns the rest of each.
    pub(super) fn start(mut command: Command, lines: usize) -> Result<(Server, Vec<String>), Failure> {
        let program = command.get_program().to_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C reaches this program alone, which then ends the servers in order.
        command.process_group(0);
        let failed = |error: std::io::Error| {
            Failure::new(format!("cannot start {}: {error}", Path::new(&program).display()))
        };
        let mut child = command.spawn().map_err(failed)?;
        let Some(stdout) = child.stdout.take() else {
            return Err(startup_failure(child, Path::new(&program)));
        };
        let mut stdout = BufReader::new(stdout);
        let mut listeners = Vec::new();
        while listeners.len() < lines {
            let mut line = String::new();
            if stdout.read_line(&mut line)? == 0 {
                return Err(startup_failure(child, Path::new(&program)));
            }
            listeners.extend(line.trim_end().strip_prefix("listening ").map(str::to_owned));
        }
        if let Some(stderr) = child.stderr.take() {
            // The log must be read, or the server blocks on a full pipe.
            std::thread::spawn(move || std::io::copy(&mut BufReader::new(stderr), &mut std::io::sink()));
        }
        Ok((Server { child, _stdout: stdout }, listeners))
    }

    /// Ends it with SIGKILL.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM and waits for the exit.
    pub(super) fn terminate(&mut self) -> Result<(), Failure> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(std::io::Error::from)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a failure no server stays behind.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.terminate().ok();
        }
    }
}

fn startup_failure(child: Child, program: &Path) -> Failure {
    let stderr = child.wait_with_output().map(|output| output.stderr).unwrap_or_default();
    let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
    Failure::new(format!("{} exited during startup: {stderr}", program.display()))
        .hint("`rexd doctor` shows what is wrong")
}
