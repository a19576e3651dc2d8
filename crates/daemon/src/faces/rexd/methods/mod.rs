//! What each method does, one file per family.

pub(super) mod approvals;
pub(super) mod attach;
mod content;
pub(super) mod exec;
pub(super) mod files;
mod mode_string;
pub(super) mod processes;
pub(super) mod pty;
pub(super) mod scans;
pub(super) mod session;
pub(super) mod watches;

use std::sync::Arc;

use wire::rexd::v1::RpcError;

use super::Rexd;
use super::errors::{rpc_error, with_hint};
use super::session::Session;
use crate::core::request::RequestContext;
use crate::core::table::Prepared;

/// A checked request of this face.
pub(super) type RexdPrepared = Prepared<Rexd>;
/// What every function that prepares a request returns.
pub(super) type PrepareResult = Result<RexdPrepared, RpcError>;

/// A path of a request, checked against the roots. While no root is configured, the error names the setting to add.
pub(super) fn admit(
    session: &Session,
    context: &RequestContext,
    path: &str,
) -> Result<engine::RootedPath, RpcError> {
    session.admit(context, path).map_err(|error| hint(session, rpc_error(error)))
}

/// Adds the missing setting to an error that comes from an empty configuration.
pub(super) fn hint(session: &Session, error: RpcError) -> RpcError {
    with_hint(error, session.core.no_roots.as_deref())
}

/// Runs blocking work on a thread for it.
pub(super) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    let finished = tokio::task::spawn_blocking(work).await;
    finished.unwrap_or_else(|_panicked| Err(RpcError::internal("the operation failed inside the server")))
}

/// The wire parameters of a request.
type Params<P> = Arc<P>;
