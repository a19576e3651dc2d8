//! The requests of v1, named after their methods.

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::exec_server::http::{HTTP_REQUEST, HttpRequest, HttpResponse};
use wire::exec_server::v1::{self, Done};

use super::error::ExecServerError;
use super::handle::{ExecServerClient, PendingResponse};
use super::message::ProcessStart;
use super::process::ExecServerProcess;
use super::routes::ProcessEventRoute;
use crate::connection::ReplayPolicy;
use crate::queue::queue;

impl ExecServerClient {
    /// `process/start`, with the events of the process from its beginning. The process id must be new within the
    /// session: by it the server recognises a start that is sent again after a lost connection.
    pub async fn start(&self, params: v1::ExecParams) -> Result<ExecServerProcess, ExecServerError> {
        let (events, receiver) = queue(self.drained.clone());
        let route = Some(ProcessEventRoute::sequenced(events));
        let start = ProcessStart { process_id: params.process_id.clone(), route };
        let start = (ReplayPolicy::Safe, Some(start));
        let started: v1::ExecResponse = self.send(v1::PROCESS_START, &params, start).await?.wait().await?;
        Ok(ExecServerProcess::new(self.clone(), started.process_id, receiver))
    }

    /// `process/start` alone; its output is read with [`read`](ExecServerClient::read).
    pub async fn exec(&self, params: v1::ExecParams) -> Result<v1::ExecResponse, ExecServerError> {
        self.request(v1::PROCESS_START, &params, ReplayPolicy::Never).await
    }

    /// `process/read`: output after a number.
    pub async fn read(&self, params: v1::ReadParams) -> Result<v1::ReadResponse, ExecServerError> {
        self.request_safe(v1::PROCESS_READ, &params).await
    }

    /// `process/write`. A write without an id gets one, by which a server recognises it when it is sent again after a
    /// lost connection. Servers that ignore the id (0.131) do not get it twice: such a write fails as
    /// [`ExecServerError::Ambiguous`].
    pub async fn write(&self, params: v1::WriteParams) -> Result<v1::WriteResponse, ExecServerError> {
        self.send_write(params).await?.wait().await
    }

    /// Queues a write and returns its pending response.
    pub(crate) async fn send_write(
        &self,
        mut params: v1::WriteParams,
    ) -> Result<PendingResponse<v1::WriteResponse>, ExecServerError> {
        params.write_id.get_or_insert_with(|| self.unique_name());
        // Servers that ignore the id also send no environment in the handshake.
        let replay = match self.environment().is_some() {
            true => ReplayPolicy::Safe,
            false => ReplayPolicy::Never,
        };
        self.send(v1::PROCESS_WRITE, &params, (replay, None)).await
    }

    /// `process/terminate`: ends the process tree.
    pub async fn terminate(
        &self,
        params: v1::TerminateParams,
    ) -> Result<v1::TerminateResponse, ExecServerError> {
        self.request_safe(v1::PROCESS_TERMINATE, &params).await
    }

    /// `process/signal`: interrupts the process.
    pub async fn signal(&self, params: v1::SignalParams) -> Result<(), ExecServerError> {
        self.request_once(v1::PROCESS_SIGNAL, &params).await
    }

    /// `environment/info`: describes the server's machine.
    pub async fn environment_info(&self) -> Result<v1::EnvironmentInfo, ExecServerError> {
        self.request_safe(v1::ENVIRONMENT_INFO, &serde_json::json!({})).await
    }

    /// `http/request`. A streamed body arrives as [`notifications`](ExecServerClient::notifications).
    pub async fn http_request(&self, params: HttpRequest) -> Result<HttpResponse, ExecServerError> {
        self.request(HTTP_REQUEST, &params, ReplayPolicy::Never).await
    }

    /// `environment/status`: whether the server is ready.
    pub async fn environment_status(&self) -> Result<v1::EnvironmentStatus, ExecServerError> {
        self.request_safe(v1::ENVIRONMENT_STATUS, &serde_json::json!({})).await
    }

    /// Sends a request that has the same effect when it is sent twice.
    async fn request_safe<P: Serialize, R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &P,
    ) -> Result<R, ExecServerError> {
        self.request(method, params, ReplayPolicy::Safe).await
    }

    /// Sends a request that must not be sent twice.
    async fn request_once<P: Serialize>(
        &self,
        method: &'static str,
        params: &P,
    ) -> Result<(), ExecServerError> {
        self.request::<P, Done>(method, params, ReplayPolicy::Never).await.map(drop)
    }
}

/// File requests: only those that change nothing are sent again after a lost connection.
macro_rules! file_calls {
    (safe { $($(#[$doc:meta])* $name:ident($params:ty) -> $result:ty = $method:expr;)* }
     once { $($(#[$change_doc:meta])* $change:ident($change_params:ty) = $change_method:expr;)* }) => {
        impl ExecServerClient {
            $($(#[$doc])*
            pub async fn $name(&self, params: $params) -> Result<$result, ExecServerError> {
                self.request_safe($method, &params).await
            })*
            $($(#[$change_doc])*
            pub async fn $change(&self, params: $change_params) -> Result<(), ExecServerError> {
                self.request_once($change_method, &params).await
            })*
        }
    };
}

file_calls! {
    safe {
    /// `fs/readFile`: a whole file.
    fs_read_file(v1::FsReadFileParams) -> v1::FsReadFileResponse = v1::FS_READ_FILE;
    /// `fs/getMetadata`: kind, size and times.
    fs_get_metadata(v1::FsGetMetadataParams) -> v1::FsGetMetadataResponse = v1::FS_GET_METADATA;
    /// `fs/readDirectory`: the entries of a directory.
    fs_read_directory(v1::FsReadDirectoryParams) -> v1::FsReadDirectoryResponse = v1::FS_READ_DIRECTORY;
    /// `fs/canonicalize`: a path without links.
    fs_canonicalize(v1::FsCanonicalizeParams) -> v1::FsCanonicalizeResponse = v1::FS_CANONICALIZE;
    /// `fs/walk`: the files below a directory.
    fs_walk(v1::FsWalkParams) -> v1::FsWalkResponse = v1::FS_WALK;
    /// `fs/open`. Handles end with the connection, even if the session is resumed.
    fs_open(v1::FsOpenParams) -> v1::FsHandle = v1::FS_OPEN;
    /// `fs/readBlock`: a range through a handle.
    fs_read_block(v1::FsReadBlockParams) -> v1::FsReadBlockResponse = v1::FS_READ_BLOCK;
    /// `fs/watchMissing`; its reports arrive as [`notifications`](ExecServerClient::notifications).
    fs_watch_missing(v1::FsWatchMissingParams) -> v1::FsWatchMissingResponse = v1::FS_WATCH_MISSING;
    }
    once {
    /// `fs/writeFile`: replaces a whole file.
    fs_write_file(v1::FsWriteFileParams) = v1::FS_WRITE_FILE;
    /// `fs/createDirectory`: with or without parents.
    fs_create_directory(v1::FsCreateDirectoryParams) = v1::FS_CREATE_DIRECTORY;
    /// `fs/remove`: a file or directory.
    fs_remove(v1::FsRemoveParams) = v1::FS_REMOVE;
    /// `fs/copy`: a file or directory.
    fs_copy(v1::FsCopyParams) = v1::FS_COPY;
    /// `fs/writeBlock`: a range through a handle.
    fs_write_block(v1::FsWriteBlockParams) = v1::FS_WRITE_BLOCK;
    /// `fs/close`: ends a handle.
    fs_close(v1::FsHandle) = v1::FS_CLOSE;
    }
}
