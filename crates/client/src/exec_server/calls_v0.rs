//! Every request of v0. Its processes belong to the connection and end with it.

use wire::exec_server::v0::{self, method};

use super::error::ExecServerError;
use super::handle::ExecServerClient;
use super::letter::Again;
use super::process::ExecServerProcess;
use super::routes::Route;
use crate::queue::queue;

impl ExecServerClient {
    /// `command/exec`, with everything that happens to the process from its beginning; its events end after `Exited`.
    /// What is to be done to it goes through [`command_write`](ExecServerClient::command_write) and
    /// [`command_terminate`](ExecServerClient::command_terminate).
    pub async fn command_start(&self, params: v0::ExecParams) -> Result<ExecServerProcess, ExecServerError> {
        let (events, receiver) = queue(self.drained.clone());
        let again = Again::Starts(params.process_id.clone(), Some(Route::plain(events)));
        let started: v0::ExecResponse = self.ask(method::EXEC, &params, again).await?;
        Ok(ExecServerProcess::new(self.clone(), started.process_id, receiver))
    }

    /// `command/exec/write`.
    pub async fn command_write(&self, params: v0::WriteParams) -> Result<v0::WriteResponse, ExecServerError> {
        self.ask(method::WRITE, &params, Again::Never).await
    }

    /// `command/exec/terminate`.
    pub async fn command_terminate(
        &self,
        params: v0::TerminateParams,
    ) -> Result<v0::TerminateResponse, ExecServerError> {
        self.ask(method::TERMINATE, &params, Again::Safe).await
    }
}
