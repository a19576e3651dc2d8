//! The bridge: serves REXD v1 in front of an exec-server, so that a Codex executor is a target like any other.
//!
//! It translates the requests of a session into those of exec-server. Operations that exec-server has no method for and
//! a command can perform (rename, permissions, append) run one; all others return an explicit error. The bridge has no
//! sessions to resume: the client behind it reconnects by itself, and when that fails, the bridge ends.

mod command;
mod edit;
mod errors;
mod file_cache;
mod files;
mod forward;
mod list;
mod processes;
mod read;
mod session;
mod start;
mod write;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::rpc::{Request, Requests, RpcLimits};
use link::{Limits, Link, Outgoing};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use wire::exec_server::code;
use wire::exec_server::v1::EnvironmentInfo;
use wire::rexd::v1::{Encoding, Method, RpcError};

use super::error::ExecServerError;
use super::handle::ExecServerClient;
use super::path_uri;
use crate::error::Disconnect;
use file_cache::CachedFile;
use processes::BridgeProcess;

/// Time limit for the end of a bridge whose link was dropped.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a bridge ended, once it has.
type BridgeFailure = Option<Arc<ExecServerError>>;

/// The state that the requests of the session share.
#[derive(Debug)]
struct Bridge {
    client: ExecServerClient,
    info: Option<EnvironmentInfo>,
    session_id: String,
    cwd: Mutex<String>,
    encoding: Mutex<Encoding>,
    processes: Mutex<HashMap<String, Arc<BridgeProcess>>>,
    /// The file that is being read in chunks from a server that reads only whole files.
    cached_file: Mutex<Option<Arc<CachedFile>>>,
    events: Arc<AtomicU64>,
    outgoing: Outgoing,
    failure: watch::Sender<BridgeFailure>,
    /// The tasks that forward the events of processes.
    forwarders: TaskTracker,
}

/// The owner of a bridge's task.
#[derive(Debug)]
pub(crate) struct BridgeHandle {
    failure: watch::Receiver<BridgeFailure>,
    tasks: TaskTracker,
}

impl BridgeHandle {
    /// Why the bridge ended.
    pub(crate) fn disconnect(&self) -> Disconnect {
        self.failure.borrow().clone().map_or(Disconnect::Closed, Disconnect::ExecServer)
    }

    /// Waits until the bridge has ended the processes of its session. Its link must have been dropped.
    pub(crate) async fn finish(self) {
        tokio::time::timeout(FINISH_TIMEOUT, self.tasks.wait()).await.ok();
    }
}

/// Opens a link that serves REXD in front of an exec-server. Must be called within a tokio runtime.
pub(crate) async fn open(client: ExecServerClient) -> Result<(Link, BridgeHandle), ExecServerError> {
    let info = match client.environment().cloned() {
        Some(info) => Some(info),
        None => match client.environment_info().await {
            Ok(info) => Some(info),
            Err(error) if error.code() == Some(code::METHOD_NOT_FOUND) => None,
            Err(error) => return Err(error),
        },
    };
    let (ours, theirs) = link::memory::pair(&Limits::default());
    let (failure, failed) = watch::channel(None);
    let cwd = info.as_ref().and_then(|info| info.cwd.as_deref()).and_then(path_uri::from_uri);
    let bridge = Bridge {
        session_id: format!("exec-server-{}", client.unique_name()),
        client,
        info,
        cwd: Mutex::new(cwd.unwrap_or_else(|| "/".to_owned())),
        encoding: Mutex::new(Encoding::default()),
        processes: Mutex::new(HashMap::new()),
        cached_file: Mutex::default(),
        events: Arc::default(),
        outgoing: ours.outgoing.clone(),
        failure,
        forwarders: TaskTracker::new(),
    };
    let tasks = TaskTracker::new();
    tasks.spawn(serve(Arc::new(bridge), ours, failed.clone()));
    tasks.close();
    Ok((theirs, BridgeHandle { failure: failed, tasks }))
}

/// Handles requests until the session ends or the exec-server is lost.
async fn serve(bridge: Arc<Bridge>, link: Link, mut failed: watch::Receiver<BridgeFailure>) {
    let mut requests = Requests::new(link.incoming, link.outgoing, RpcLimits::default());
    let mut running = JoinSet::new();
    // Changes of files run one after the other, so that chunks of a file that are sent ahead keep their order.
    let (_, mut last_change) = oneshot::channel::<()>();
    loop {
        let request = tokio::select! {
            request = requests.next() => request,
            _ = failed.wait_for(Option::is_some) => None,
            Some(_) = running.join_next(), if !running.is_empty() => continue,
        };
        let Some(request) = request else { break };
        if processes::is_input(&request.method) {
            // Input is queued here, so that it keeps its order; a task waits for the response.
            processes::input(&bridge, request, &mut running).await;
            continue;
        }
        let changes = wire::rexd::v1::method(&request.method).is_some_and(|info| info.changes);
        let (bridge, mut turn) = (bridge.clone(), None);
        if changes && request.method.starts_with("fs.") {
            let (done, next) = oneshot::channel::<()>();
            turn = Some((std::mem::replace(&mut last_change, next), done));
        }
        running.spawn(async move {
            let mut done = None;
            if let Some((previous, ours)) = turn {
                previous.await.ok();
                done = Some(ours);
            }
            let cancel = request.cancel.clone();
            tokio::select! {
                () = bridge.handle(request) => {}
                // A change is not cancelled: it would be left half done.
                () = cancel.cancelled(), if !changes => {}
            }
            drop(done);
        });
    }
    running.shutdown().await;
    // The forwarders must not wait for a reader of their events.
    drop(requests);
    bridge.end_all().await;
    bridge.client.close().await.ok();
    bridge.forwarders.close();
    bridge.forwarders.wait().await;
}

impl Bridge {
    async fn handle(&self, request: Request) {
        match request.method.as_str() {
            "session.open" => self.reply(request, async |params| self.session_open(params)).await,
            "session.info" => self.reply(request, async |params| self.session_info(params)).await,
            "session.set_cwd" => self.reply(request, async |params| self.session_set_cwd(params).await).await,
            "session.close" => self.reply(request, async |params| self.session_close(params).await).await,
            "server.ping" => self.reply(request, async |params| self.server_ping(params)).await,
            "exec.start" => self.reply(request, async |params| self.exec_start(params).await).await,
            "exec.wait" => self.reply(request, async |params| self.exec_wait(params).await).await,
            "exec.kill" => self.reply(request, async |params| self.exec_kill(params).await).await,
            "exec.list" => self.reply(request, async |params| self.exec_list(params)).await,
            "pty.open" => self.reply(request, async |params| self.pty_open(params).await).await,
            "pty.resize" => self.reply(request, async |params| self.pty_resize(&params)).await,
            "pty.close" => self.reply(request, async |params| self.pty_close(params).await).await,
            "fs.read" => self.reply(request, async |params| self.fs_read(params).await).await,
            "fs.write" => self.reply(request, async |params| self.fs_write(params).await).await,
            "fs.edit" => self.reply(request, async |params| self.fs_edit(params).await).await,
            "fs.list" => self.reply(request, async |params| self.fs_list(params).await).await,
            "fs.stat" => self.reply(request, async |params| self.fs_stat(params).await).await,
            "fs.mkdir" => self.reply(request, async |params| self.fs_mkdir(params).await).await,
            "fs.remove" => self.reply(request, async |params| self.fs_remove(params).await).await,
            "fs.rename" => self.reply(request, async |params| self.fs_rename(params).await).await,
            "fs.copy" => self.reply(request, async |params| self.fs_copy(params).await).await,
            other => {
                let error = errors::unsupported_method(other);
                request.reply.error(error).await;
            }
        }
    }

    async fn reply<M: Method>(
        &self,
        request: Request,
        run: impl AsyncFnOnce(M) -> Result<M::Result, RpcError>,
    ) {
        let result = match request.params.decode::<M>() {
            Ok(params) => run(params).await,
            Err(error) => Err(error),
        };
        request.reply.send(result).await;
    }

    /// The absolute path of a path that may be relative to the session's directory.
    fn path(&self, path: &str) -> String {
        let cwd = lock(&self.cwd).clone();
        let absolute = match path {
            "" | "." => cwd,
            path if path.starts_with('/') => path.to_owned(),
            path => format!("{}/{path}", cwd.trim_end_matches('/')),
        };
        normalize(&absolute)
    }

    /// A path in the form that this server accepts: servers without environment info accept no URIs.
    fn remote_path(&self, path: &str) -> String {
        match self.info {
            Some(_) => path_uri::to_uri(path),
            None => path.to_owned(),
        }
    }

    /// Translates an error of the exec-server. The loss of its connection ends the bridge.
    fn translate(&self, error: ExecServerError) -> RpcError {
        let error = Arc::new(error);
        if matches!(*error, ExecServerError::Lost(_) | ExecServerError::Closed) {
            // The first failure is the cause; requests after it fail with `Closed`.
            self.failure
                .send_if_modified(|failure| failure.is_none() && failure.replace(error.clone()).is_none());
        }
        errors::rpc_error(&error)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An absolute path without `.`, `..` and doubled slashes.
fn normalize(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
