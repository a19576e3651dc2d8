//! The requests of v0. Its processes belong to the connection and end with it.

use wire::exec_server::v0::{self, method};

use super::error::ExecServerError;
use super::handle::ExecServerClient;
use super::message::ProcessStart;
use super::process::ExecServerProcess;
use super::routes::ProcessEventRoute;
use crate::connection::ReplayPolicy;
use crate::queue::queue;

impl ExecServerClient {
    /// `command/exec`, with the events of the process from its beginning; they end after `Exited`. Use
    /// [`command_write`](ExecServerClient::command_write) and
    /// [`command_terminate`](ExecServerClient::command_terminate) to control it.
    pub async fn command_start(&self, params: v0::ExecParams) -> Result<ExecServerProcess, ExecServerError> {
        let (events, receiver) = queue(self.drained.clone());
        let route = Some(ProcessEventRoute::unsequenced(events));
        let start = ProcessStart { process_id: params.process_id.clone(), route };
        let start = (ReplayPolicy::Never, Some(start));
        let started: v0::ExecResponse = self.send(method::EXEC, &params, start).await?.wait().await?;
        Ok(ExecServerProcess::new(self.clone(), started.process_id, receiver))
    }

    /// `command/exec/write`: writes to the terminal.
    pub async fn command_write(&self, params: v0::WriteParams) -> Result<v0::WriteResponse, ExecServerError> {
        self.request(method::WRITE, &params, ReplayPolicy::Never).await
    }

    /// `command/exec/terminate`: ends the process.
    pub async fn command_terminate(
        &self,
        params: v0::TerminateParams,
    ) -> Result<v0::TerminateResponse, ExecServerError> {
        self.request(method::TERMINATE, &params, ReplayPolicy::Safe).await
    }
}
