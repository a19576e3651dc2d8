//! What each method does, one file per family.

pub(super) mod environment;
pub(super) mod files;
pub(super) mod handles;
pub mod http;
pub(super) mod input;
pub(super) mod metadata;
pub(super) mod missing;
pub(super) mod processes;
pub(super) mod reads;
pub(super) mod walk;

use std::path::Path;
use std::sync::Arc;

use engine::RootedPath;
use engine::sandbox::Confinement;
use serde::Serialize;
use wire::exec_server::v1::FileSystemSandboxContext;
use wire::jsonrpc::RpcError;

use super::ExecServer;
use super::errors::rpc_error;
use super::paths::native;
use super::sandbox::profile;
use super::session::Session;
use crate::core::request::{AuthorizedRequest, RequestContext};
use crate::core::table::Prepared;

/// A checked request of this face.
pub(super) type ExecServerPrepared = Prepared<ExecServer>;
/// What every function that prepares a request returns.
pub(super) type PrepareResult = Result<ExecServerPrepared, RpcError>;

/// The path of a file call, under the operator's rules and sandbox and under the client's. A rule that asks denies here:
/// clients of this protocol give up on a file call after seconds, so no person can be asked.
pub(super) fn path(
    session: &Session,
    context: &RequestContext,
    text: &str,
    sandbox: Option<&FileSystemSandboxContext>,
) -> Result<RootedPath, RpcError> {
    let admitted = session.roots.admit(Path::new("/"), &native(text)?).map_err(rpc_error)?;
    let path = session.guarded(context, &admitted);
    let protected = session.core.policy.current().sandbox.own_outside(&[]);
    let client = sandbox.map(|sandbox| profile(sandbox, None, &protected)).transpose()?.flatten();
    Ok(match client {
        Some(profile) => path.guarded(Arc::new(Confinement::new([Arc::new(profile)]))),
        None => path,
    })
}

/// Runs blocking work on a thread for it, in the request's turn, and responds.
pub(super) fn run<T: Serialize + Send + 'static>(
    session: &Session,
    request: AuthorizedRequest,
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) {
    session.spawn(async move { request.finish(off_thread(work).await).await });
}

/// Runs blocking work on a thread for it.
pub(super) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    let stopped = |_ended| Err(RpcError::internal("the operation failed inside the server"));
    tokio::task::spawn_blocking(work).await.unwrap_or_else(stopped)
}
