//! Starts a daemon on this machine when none answers.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::StringdClient;

/// How often a started daemon is asked whether it answers.
const ASKS: u32 = 300;
/// The time between two of these questions.
const BETWEEN: Duration = Duration::from_millis(100);

/// Why no daemon was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not on this machine.
    #[error("stringd is started only on the loopback interface, not at {0}")]
    NotLoopback(std::net::SocketAddr),
    /// The program could not be started.
    #[error("cannot start {program}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// Why it was not started.
        source: std::io::Error,
    },
    /// The program was started and does not answer.
    #[error("stringd was started and does not answer at {0}")]
    Silent(std::net::SocketAddr),
}

impl StringdClient {
    /// Starts `PROGRAM --daemon foreground PORT` if no daemon answers, and waits until it does. The daemon outlives this
    /// client.
    pub async fn ensure_daemon(&mut self, program: &Path) -> Result<(), StartError> {
        // Also before the question: a remote daemon is never started, whether it answers or not.
        if !self.address().ip().is_loopback() {
            return Err(StartError::NotLoopback(self.address()));
        }
        if self.ping().await {
            return Ok(());
        }
        let mut command = std::process::Command::new(program);
        command.args(["--daemon", "foreground", &self.address().port().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Its own group, so that Ctrl-C ends only the client.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let failed = |source| StartError::Spawn { program: program.display().to_string(), source };
        command.spawn().map_err(failed)?;
        for _ in 0..ASKS {
            if self.ping().await {
                return Ok(());
            }
            tokio::time::sleep(BETWEEN).await;
        }
        Err(StartError::Silent(self.address()))
    }
}
