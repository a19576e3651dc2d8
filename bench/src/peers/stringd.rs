//! `rexd stringd`: a daemon, and a client of it on one kept-alive connection.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use client::stringd::{ExecRequest, StringdClient};
use tokio::runtime::Runtime;

use super::rexd::Setup;
use crate::watchdog::{Server, tied};

/// A daemon with one user, and its client.
#[derive(Debug)]
pub(crate) struct Stringd {
    server: Server,
    runtime: Runtime,
    client: StringdClient,
}

impl Stringd {
    /// Starts a daemon, waits until it listens, and registers the user.
    pub(crate) fn start(setup: &Setup) -> Result<Self> {
        let mut server = Server::start(
            tied(&setup.program)
                .args(["stringd", "0", "--config"])
                .arg(setup.configured()?)
                .env("XDG_STATE_HOME", setup.directory.join("state"))
                .env("STRINGD_DATA_DIR", setup.directory.join("stringd"))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(fs::File::create(setup.directory.join("stringd.stderr"))?),
        )?
        .ends_with_signal();
        let mut lines = BufReader::new(server.stdout()?).lines();
        let listening = |line: &String| line.starts_with("stringd listening on http://127.0.0.1:");
        let line = lines.by_ref().map_while(Result::ok).find(listening).with_context(|| setup.complaint())?;
        let port = line.rsplit(':').next().and_then(|port| port.parse().ok()).context("no port")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut client = StringdClient::new(port, "bench");
        runtime.block_on(client.ensure_user(&setup.directory.to_string_lossy()))?;
        Ok(Self { server, runtime, client })
    }

    /// The process of the daemon.
    pub(crate) fn id(&self) -> u32 {
        self.server.id()
    }

    /// Requests `/health` and waits for the response.
    pub(crate) fn health(&mut self) -> Result<()> {
        self.runtime.block_on(self.client.health())?;
        Ok(())
    }

    /// Runs a command that succeeds.
    pub(crate) fn exec(&mut self, topic: &str, cmd: &str) -> Result<()> {
        let request = ExecRequest { cmd: cmd.to_owned(), topic: topic.to_owned(), request_id: None };
        let result = self.runtime.block_on(self.client.exec(&request))?;
        ensure!(result.ok, "{cmd}: {}", result.content);
        Ok(())
    }
}
