//! The daemon of the demonstration: a host of the hub, also reached by a socket.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use client::Target;

use super::hub::DemoHub;
use super::programs::Server;
use super::workspace::Workspace;
use crate::failure::Failure;

/// The id of this machine at the hub.
pub(super) const HOST_ID: &str = "this-machine";
/// A running daemon, terminated when this is dropped.
#[derive(Debug)]
pub(super) struct DemoDaemon {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Variables: where its state is, and which authority it trusts.
    variables: Vec<(&'static str, OsString)>,
    socket: PathBuf,
    server: Server,
}

impl DemoDaemon {
    /// Starts the daemon on the workspace and enrols it at the hub.
    pub(super) fn start(workspace: &Workspace, hub: &DemoHub) -> Result<DemoDaemon, Failure> {
        let program = client::find_rexd()
            .ok_or_else(|| Failure::new("cannot find rexd").hint("put rexd next to rex or on the PATH"))?;
        let (socket, config) = (workspace.own("rexd.sock"), workspace.own("config.toml"));
        // Its own configuration, so that the user's configuration and audit file are not used.
        let audit = format!("[audit]\npath = {:?}\n", workspace.own("audit.log").display().to_string());
        fs::write(&config, audit)?;
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--config".into(), config.into()];
        arguments.extend(["--root".into(), workspace.root().into(), "--unix".into(), socket.clone().into()]);
        arguments.extend(["--hub".into(), hub.local_url().into(), "--host-id".into(), HOST_ID.into()]);
        // Temporary directories of confined commands too, so that a killed daemon leaves none.
        let temporary = workspace.own("tmp");
        fs::create_dir(&temporary)?;
        let mut variables = vec![
            ("XDG_STATE_HOME", workspace.own("state").into_os_string()),
            ("TMPDIR", temporary.into_os_string()),
        ];
        variables.extend(hub.authority().map(|file| ("SSL_CERT_FILE", file.as_os_str().to_owned())));
        let enrolling = [arguments.clone(), vec!["--join".into(), hub.join_code()?.into()]].concat();
        let server = spawn(&program, &enrolling, &variables)?;
        Ok(DemoDaemon { program, arguments, variables, socket, server })
    }

    /// Kills the daemon with SIGKILL and starts another.
    pub(super) fn crash_and_restart(&mut self) -> Result<(), Failure> {
        self.server.kill()?;
        self.server = spawn(&self.program, &self.arguments, &self.variables)?;
        Ok(())
    }

    /// The target that connects to the daemon on this machine.
    pub(super) fn target(&self) -> Target {
        Target::Unix(self.socket.clone())
    }

    /// The path of the daemon's binary.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Sends SIGTERM and waits for the exit.
    pub(super) fn terminate(&mut self) -> Result<(), Failure> {
        self.server.terminate()
    }
}

fn spawn(
    program: &Path,
    arguments: &[OsString],
    variables: &[(&'static str, OsString)],
) -> Result<Server, Failure> {
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().cloned()).env_remove("REXD_CONFIG");
    for name in ["HOST_ID", "HOST_TOKEN", "SERVER_BASE_URL"] {
        command.env_remove(name);
    }
    // One line for the socket.
    Ok(Server::start(command, 1)?.0)
}
