//! What each method does, one file per family.

pub(super) mod approvals;
pub(super) mod attach;
mod content;
pub(super) mod exec;
pub(super) mod files;
mod frame;
mod mode_string;
mod names;
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
use crate::core::prepare::PrepareContext;
use crate::core::table::Prepared;

/// A checked request of this face.
pub(super) type RexdPrepared = Prepared<Rexd>;
/// What every function that prepares a request returns.
pub(super) type PrepareResult = Result<RexdPrepared, RpcError>;
/// What every function that prepares a request receives besides the parameters.
pub(super) type Context<'a> = PrepareContext<'a, Rexd>;

/// A path of a request, checked against the roots. While no root is configured, the error names the setting to add.
fn admit(context: &Context<'_>, path: &str) -> Result<engine::RootedPath, RpcError> {
    context.admit(path).map_err(|error| hint(context.session, rpc_error(error)))
}

/// Adds the missing setting to an error that comes from an empty configuration.
fn hint(session: &Session, error: RpcError) -> RpcError {
    with_hint(error, session.core.no_roots.as_deref())
}

/// The wire parameters of a request.
type Params<P> = Arc<P>;
