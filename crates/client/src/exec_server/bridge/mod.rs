//! The bridge: REXD v1 in front of an exec-server, so that a Codex executor is a target like any other.
//!
//! It answers what a session asks with what exec-server offers. What its methods cannot do and a command there can
//! (renaming, permissions, appending) is done by one; what neither can do is refused by a message that says so. There is
//! nothing to resume: the client behind it hides cuts itself, and when it cannot, the bridge ends.

mod edit;
mod events;
mod files;
mod list;
mod look;
mod processes;
mod refusal;
mod session;
mod start;
mod tool;
mod whole;
mod write;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use link::rpc::{Request, Requests, RpcLimits};
use link::{Limits, Link, Outgoing};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use wire::exec_server::code;
use wire::exec_server::v1::EnvironmentInfo;
use wire::rexd::v1::{Encoding, Method, RpcError};

use super::error::ExecServerError;
use super::handle::ExecServerClient;
use super::place;
use processes::Known;
use whole::Whole;

/// What a session's requests share.
#[derive(Debug)]
struct Bridge {
    client: ExecServerClient,
    info: Option<EnvironmentInfo>,
    session_id: String,
    cwd: Mutex<String>,
    encoding: Mutex<Encoding>,
    processes: Mutex<HashMap<String, Arc<Known>>>,
    /// A file that is being read piece by piece from a server that reads only whole ones.
    whole: Mutex<Option<Arc<Whole>>>,
    events: Arc<AtomicU64>,
    outgoing: Outgoing,
    fate: watch::Sender<Option<String>>,
}

/// Why a bridge ended, once it has.
#[derive(Debug, Clone)]
pub(crate) struct Fate(watch::Receiver<Option<String>>);

impl Fate {
    /// What is known about the end.
    pub(crate) fn text(&self) -> String {
        self.0.borrow().clone().unwrap_or_else(|| "the bridge to the exec-server ended".to_owned())
    }
}

/// A link that speaks REXD, in front of an exec-server. Must be called within a tokio runtime.
pub(crate) async fn open(client: ExecServerClient) -> Result<(Link, Fate), ExecServerError> {
    let info = match client.environment().cloned() {
        Some(info) => Some(info),
        None => match client.environment_info().await {
            Ok(info) => Some(info),
            Err(error) if error.code() == Some(code::METHOD_NOT_FOUND) => None,
            Err(error) => return Err(error),
        },
    };
    let (ours, theirs) = link::memory::pair(&Limits::default());
    let (fate, ended) = watch::channel(None);
    let cwd = info.as_ref().and_then(|info| info.cwd.as_deref()).and_then(place::from_uri);
    let bridge = Bridge {
        session_id: format!("codex-{}", client.fresh_name()),
        client,
        info,
        cwd: Mutex::new(cwd.unwrap_or_else(|| "/".to_owned())),
        encoding: Mutex::new(Encoding::default()),
        processes: Mutex::new(HashMap::new()),
        whole: Mutex::default(),
        events: Arc::default(),
        outgoing: ours.outgoing.clone(),
        fate,
    };
    tokio::spawn(serve(Arc::new(bridge), ours, ended.clone()));
    Ok((theirs, Fate(ended)))
}

/// Answers until the session ends or the exec-server is lost.
async fn serve(bridge: Arc<Bridge>, link: Link, mut ended: watch::Receiver<Option<String>>) {
    let mut requests = Requests::new(link.incoming, link.outgoing, RpcLimits::default());
    let mut running = JoinSet::new();
    // Changes are made one after the other: pieces of a file that are sent ahead keep their order.
    let (_, mut turn) = oneshot::channel::<()>();
    loop {
        let request = tokio::select! {
            request = requests.next() => request,
            _ = ended.wait_for(Option::is_some) => None,
            Some(_) = running.join_next(), if !running.is_empty() => continue,
        };
        let Some(request) = request else { break };
        if processes::is_input(&request.method) {
            // Inputs are put in line here, so that they keep their order, and waited for elsewhere.
            processes::input(&bridge, request, &mut running).await;
            continue;
        }
        let changes = wire::rexd::v1::method(&request.method).is_some_and(|info| info.changes);
        let (bridge, mut mine) = (bridge.clone(), None);
        if changes && request.method.starts_with("fs.") {
            let (done, next) = oneshot::channel::<()>();
            mine = Some((std::mem::replace(&mut turn, next), done));
        }
        running.spawn(async move {
            let mut done = None;
            if let Some((before, ours)) = mine {
                before.await.ok();
                done = Some(ours);
            }
            let cancel = request.cancel.clone();
            tokio::select! {
                () = bridge.answer(request) => {}
                // What changes something is brought to its end: nobody would know how far it came.
                () = cancel.cancelled(), if !changes => {}
            }
            drop(done);
        });
    }
    running.shutdown().await;
    bridge.end_all().await;
    bridge.client.close().await.ok();
}

impl Bridge {
    async fn answer(&self, request: Request) {
        match request.method.as_str() {
            "session.open" => self.reply(request, async |ask| self.session_open(ask)).await,
            "session.info" => self.reply(request, async |ask| self.session_info(ask)).await,
            "session.set_cwd" => self.reply(request, async |ask| self.session_set_cwd(ask).await).await,
            "session.close" => self.reply(request, async |ask| self.session_close(ask).await).await,
            "server.ping" => self.reply(request, async |ask| self.server_ping(ask)).await,
            "exec.start" => self.reply(request, async |ask| self.exec_start(ask).await).await,
            "exec.wait" => self.reply(request, async |ask| self.exec_wait(ask).await).await,
            "exec.kill" => self.reply(request, async |ask| self.exec_kill(ask).await).await,
            "exec.list" => self.reply(request, async |ask| self.exec_list(ask)).await,
            "pty.open" => self.reply(request, async |ask| self.pty_open(ask).await).await,
            "pty.resize" => self.reply(request, async |ask| self.pty_resize(&ask)).await,
            "pty.close" => self.reply(request, async |ask| self.pty_close(ask).await).await,
            "fs.read" => self.reply(request, async |ask| self.fs_read(ask).await).await,
            "fs.write" => self.reply(request, async |ask| self.fs_write(ask).await).await,
            "fs.edit" => self.reply(request, async |ask| self.fs_edit(ask).await).await,
            "fs.list" => self.reply(request, async |ask| self.fs_list(ask).await).await,
            "fs.stat" => self.reply(request, async |ask| self.fs_stat(ask).await).await,
            "fs.mkdir" => self.reply(request, async |ask| self.fs_mkdir(ask).await).await,
            "fs.remove" => self.reply(request, async |ask| self.fs_remove(ask).await).await,
            "fs.rename" => self.reply(request, async |ask| self.fs_rename(ask).await).await,
            "fs.copy" => self.reply(request, async |ask| self.fs_copy(ask).await).await,
            other => {
                let error = refusal::unknown(other);
                request.reply.error(error).await;
            }
        }
    }

    async fn reply<M: Method>(
        &self,
        request: Request,
        work: impl AsyncFnOnce(M) -> Result<M::Result, RpcError>,
    ) {
        let answer = match request.params.decode::<M>() {
            Ok(ask) => work(ask).await,
            Err(error) => Err(error),
        };
        request.reply.send(answer).await;
    }

    /// The absolute path that is meant by one that may be relative.
    fn path(&self, path: &str) -> String {
        let cwd = hold(&self.cwd).clone();
        let whole = match path {
            "" | "." => cwd,
            path if path.starts_with('/') => path.to_owned(),
            path => format!("{}/{path}", cwd.trim_end_matches('/')),
        };
        clean(&whole)
    }

    /// A path as this server wants it: those before the current protocol know no URIs.
    fn there(&self, path: &str) -> String {
        match self.info {
            Some(_) => place::to_uri(path),
            None => path.to_owned(),
        }
    }

    /// An error of the exec-server as the session hears it. One that nothing survives ends the bridge.
    fn wrong(&self, error: ExecServerError) -> RpcError {
        if matches!(error, ExecServerError::Lost(_) | ExecServerError::Closed) {
            self.fate.send_replace(Some(error.to_string()));
        }
        refusal::of(error)
    }
}

fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An absolute path without `.`, `..` and doubled slashes.
fn clean(path: &str) -> String {
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
