//! A server as a child that speaks on its standard streams, and a client of it.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use client::exec_server::{
    ExecServerClient, ExecServerClientConnectOptions, ExecServerError, exec_server_limits,
};
use link::child::{self, Child};

/// What to start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecServerLaunchCommand {
    /// The program.
    pub program: PathBuf,
    /// What makes it speak on its standard streams, such as `exec-server --listen stdio`.
    pub args: Vec<String>,
    /// Set in its environment, beside what it inherits.
    pub env: BTreeMap<String, String>,
    /// Where it starts; here if absent.
    pub cwd: Option<PathBuf>,
}

/// A server that was started for this handle, and the connection to it. The server ends with the handle, and what it
/// runs with it.
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
    let failed = |cause: &dyn std::fmt::Display| ExecServerError::Spawn(format!("{program}: {cause}"));
    let (link, mut child) =
        child::spawn(command.to_command(), &exec_server_limits()).map_err(|error| failed(&error))?;
    match ExecServerClient::connect_link(link, options).await {
        Ok(client) => Ok(SpawnedExecServer { client, child }),
        Err(ExecServerError::Lost(_)) => {
            let status = child
                .ended()
                .await
                .map_or_else(|| "it closed its output".to_owned(), |status| status.to_string());
            let said = child.errors().text();
            Err(failed(&if said.is_empty() { status } else { format!("{status}: {said}") }))
        }
        Err(error) => Err(error),
    }
}

impl ExecServerLaunchCommand {
    /// A program of the kind of `rexd` or `codex`, with the arguments that have it serve its standard streams.
    pub fn exec_server(program: impl Into<PathBuf>) -> ExecServerLaunchCommand {
        ExecServerLaunchCommand {
            program: program.into(),
            args: ["exec-server", "--listen", "stdio"].map(str::to_owned).to_vec(),
            ..ExecServerLaunchCommand::default()
        }
    }

    fn to_command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // A key that interrupts us is not meant for it: it ends when its input does.
        command.args(&self.args).envs(&self.env).process_group(0);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }
}

impl SpawnedExecServer {
    /// The connection to it.
    pub fn client(&self) -> &ExecServerClient {
        &self.client
    }

    /// The child's number.
    pub fn pid(&self) -> Option<u32> {
        self.child.pid()
    }

    /// What it has written to its standard error, the last of it.
    pub fn errors(&self) -> String {
        self.child.errors().text()
    }

    /// Ends it, and waits until it has ended.
    pub async fn shut_down(mut self) -> Result<(), ExecServerError> {
        self.client.close().await?;
        match self.child.ended().await {
            Some(_) => Ok(()),
            None => Err(ExecServerError::Lost("it does not end though its input has".to_owned())),
        }
    }
}
