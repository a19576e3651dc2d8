//! Starts a server as a child process and connects to its standard streams.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use client::exec_server::{
    ExecServerClient, ExecServerClientConnectOptions, ExecServerError, exec_server_limits,
};
use link::child::{self, Child};

/// The program of a server, with its arguments and environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecServerLaunchCommand {
    /// The path of the program.
    pub program: PathBuf,
    /// The arguments that make it serve its standard streams, such as `exec-server --listen stdio`.
    pub args: Vec<String>,
    /// Variables that are added to the inherited environment.
    pub env: BTreeMap<String, String>,
    /// The working directory; the current one if absent.
    pub cwd: Option<PathBuf>,
}

/// A server that was started for this handle, and the connection to it. The server and its processes end with the
/// handle.
#[derive(Debug)]
pub struct SpawnedExecServer {
    client: ExecServerClient,
    child: Child,
}

/// Starts a server and connects to it. Must be called within a tokio runtime.
pub async fn spawn_local_exec_server(
    command: ExecServerLaunchCommand,
    options: ExecServerClientConnectOptions,
) -> Result<SpawnedExecServer, ExecServerError> {
    let program = command.program.display().to_string();
    let (link, mut child) = match child::spawn(command.to_command(), &exec_server_limits()) {
        Ok(spawned) => spawned,
        Err(source) => return Err(ExecServerError::Spawn { program, source: Arc::new(source) }),
    };
    match ExecServerClient::connect_link(link, options).await {
        Ok(client) => Ok(SpawnedExecServer { client, child }),
        Err(ExecServerError::Lost(_)) => {
            let status = child.ended().await;
            Err(ExecServerError::ExitedEarly { program, status, stderr: child.errors().text() })
        }
        Err(error) => Err(error),
    }
}

impl ExecServerLaunchCommand {
    /// A program like `rexd` or `codex`, with the arguments that make it serve its standard streams.
    pub fn exec_server(program: impl Into<PathBuf>) -> ExecServerLaunchCommand {
        ExecServerLaunchCommand {
            program: program.into(),
            args: ["exec-server", "--listen", "stdio"].map(str::to_owned).to_vec(),
            ..ExecServerLaunchCommand::default()
        }
    }

    fn to_command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // Ctrl-C at the terminal must not reach the server: it ends when its input is closed.
        command.args(&self.args).envs(&self.env).process_group(0);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }
}

impl SpawnedExecServer {
    /// The client that is connected to it.
    pub fn client(&self) -> &ExecServerClient {
        &self.client
    }

    /// The process id of the server.
    pub fn pid(&self) -> Option<u32> {
        self.child.pid()
    }

    /// The end of its standard error.
    pub fn errors(&self) -> String {
        self.child.errors().text()
    }

    /// Closes the connection and waits until the server has exited.
    pub async fn shut_down(mut self) -> Result<(), ExecServerError> {
        self.client.close().await?;
        match self.child.ended().await {
            Some(_) => Ok(()),
            None => Err(ExecServerError::StillRunning),
        }
    }
}
