//! Every request of v1, by its name in the protocol.

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::exec_server::http::{HTTP_REQUEST, HttpRequest, HttpResponse};
use wire::exec_server::v1::{self, Done};

use super::error::ExecServerError;
use super::handle::{Answer, ExecServerClient};
use super::letter::Again;
use super::process::ExecServerProcess;
use super::routes::Route;
use crate::queue::queue;

impl ExecServerClient {
    /// `process/start`, with everything that happens to the process from its beginning. Its name must be new within
    /// the session: by it the server knows a start whose answer was cut off, and starts nothing twice.
    pub async fn start(&self, params: v1::ExecParams) -> Result<ExecServerProcess, ExecServerError> {
        let (events, receiver) = queue(self.drained.clone());
        let again = Again::Starts(params.process_id.clone(), Some(Route::numbered(events)));
        let started: v1::ExecResponse = self.ask(v1::PROCESS_START, &params, again).await?;
        Ok(ExecServerProcess::new(self.clone(), started.process_id, receiver))
    }

    /// `process/start` alone; what it writes is asked for with [`read`](ExecServerClient::read).
    pub async fn exec(&self, params: v1::ExecParams) -> Result<v1::ExecResponse, ExecServerError> {
        self.ask(v1::PROCESS_START, &params, Again::Never).await
    }

    /// `process/read`.
    pub async fn read(&self, params: v1::ReadParams) -> Result<v1::ReadResponse, ExecServerError> {
        self.look(v1::PROCESS_READ, &params).await
    }

    /// `process/write`. A write without a name gets one, by which a server knows it when it is asked again after a cut.
    /// One that is too old to know names (0.131) is not asked again: the write is then [`ExecServerError::Ambiguous`].
    pub async fn write(&self, params: v1::WriteParams) -> Result<v1::WriteResponse, ExecServerError> {
        self.post_write(params).await?.wait().await
    }

    /// The same, waiting only for its turn.
    pub(crate) async fn post_write(
        &self,
        mut params: v1::WriteParams,
    ) -> Result<Answer<v1::WriteResponse>, ExecServerError> {
        params.write_id.get_or_insert_with(|| self.fresh_name());
        // Servers that do not know the name take it twice. They are older than those that say what the machine is like.
        let again = match self.environment().is_some() {
            true => Again::Safe,
            false => Again::Never,
        };
        self.post(v1::PROCESS_WRITE, &params, again).await
    }

    /// `process/terminate`.
    pub async fn terminate(
        &self,
        params: v1::TerminateParams,
    ) -> Result<v1::TerminateResponse, ExecServerError> {
        // To end a process twice is to end it once.
        self.look(v1::PROCESS_TERMINATE, &params).await
    }

    /// `process/signal`.
    pub async fn signal(&self, params: v1::SignalParams) -> Result<(), ExecServerError> {
        self.change(v1::PROCESS_SIGNAL, &params).await
    }

    /// `environment/info`.
    pub async fn environment_info(&self) -> Result<v1::EnvironmentInfo, ExecServerError> {
        self.look(v1::ENVIRONMENT_INFO, &serde_json::json!({})).await
    }

    /// `http/request`. A body that is streamed comes among the [`notifications`](ExecServerClient::notifications).
    pub async fn http_request(&self, params: HttpRequest) -> Result<HttpResponse, ExecServerError> {
        self.ask(HTTP_REQUEST, &params, Again::Never).await
    }

    /// `environment/status`.
    pub async fn environment_status(&self) -> Result<v1::EnvironmentStatus, ExecServerError> {
        self.look(v1::ENVIRONMENT_STATUS, &serde_json::json!({})).await
    }

    async fn look<P: Serialize, R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &P,
    ) -> Result<R, ExecServerError> {
        self.ask(method, params, Again::Safe).await
    }

    async fn change<P: Serialize>(&self, method: &'static str, params: &P) -> Result<(), ExecServerError> {
        self.ask::<P, Done>(method, params, Again::Never).await.map(drop)
    }
}

/// Requests about files: those that only look are asked again after a cut, the others are not.
macro_rules! file_calls {
    (looks { $($(#[$doc:meta])* $name:ident($params:ty) -> $result:ty = $method:expr;)* }
     changes { $($(#[$change_doc:meta])* $change:ident($change_params:ty) = $change_method:expr;)* }) => {
        impl ExecServerClient {
            $($(#[$doc])*
            pub async fn $name(&self, params: $params) -> Result<$result, ExecServerError> {
                self.look($method, &params).await
            })*
            $($(#[$change_doc])*
            pub async fn $change(&self, params: $change_params) -> Result<(), ExecServerError> {
                self.change($change_method, &params).await
            })*
        }
    };
}

file_calls! {
    looks {
    /// `fs/readFile`.
    fs_read_file(v1::FsReadFileParams) -> v1::FsReadFileResponse = v1::FS_READ_FILE;
    /// `fs/getMetadata`.
    fs_get_metadata(v1::FsGetMetadataParams) -> v1::FsGetMetadataResponse = v1::FS_GET_METADATA;
    /// `fs/readDirectory`.
    fs_read_directory(v1::FsReadDirectoryParams) -> v1::FsReadDirectoryResponse = v1::FS_READ_DIRECTORY;
    /// `fs/canonicalize`.
    fs_canonicalize(v1::FsCanonicalizeParams) -> v1::FsCanonicalizeResponse = v1::FS_CANONICALIZE;
    /// `fs/walk`.
    fs_walk(v1::FsWalkParams) -> v1::FsWalkResponse = v1::FS_WALK;
    /// `fs/open`. Handles end with the connection, also if it is resumed.
    fs_open(v1::FsOpenParams) -> v1::FsHandle = v1::FS_OPEN;
    /// `fs/readBlock`.
    fs_read_block(v1::FsReadBlockParams) -> v1::FsReadBlockResponse = v1::FS_READ_BLOCK;
    /// `fs/watchMissing`; what it tells is among the [`notifications`](ExecServerClient::notifications).
    fs_watch_missing(v1::FsWatchMissingParams) -> v1::FsWatchMissingResponse = v1::FS_WATCH_MISSING;
    }
    changes {
    /// `fs/writeFile`.
    fs_write_file(v1::FsWriteFileParams) = v1::FS_WRITE_FILE;
    /// `fs/createDirectory`.
    fs_create_directory(v1::FsCreateDirectoryParams) = v1::FS_CREATE_DIRECTORY;
    /// `fs/remove`.
    fs_remove(v1::FsRemoveParams) = v1::FS_REMOVE;
    /// `fs/copy`.
    fs_copy(v1::FsCopyParams) = v1::FS_COPY;
    /// `fs/writeBlock`.
    fs_write_block(v1::FsWriteBlockParams) = v1::FS_WRITE_BLOCK;
    /// `fs/close`.
    fs_close(v1::FsHandle) = v1::FS_CLOSE;
    }
}
