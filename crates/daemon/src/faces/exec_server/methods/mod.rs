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
use super::paths::{native, uri};
use super::sandbox::profile;
use super::session::Session;
use crate::core::effects::Effects;
use crate::core::prepare::PrepareContext;
use crate::core::table::Prepared;

/// A checked request of this face.
pub(super) type ExecServerPrepared = Prepared<ExecServer>;
/// What every function that prepares a request returns.
pub(super) type PrepareResult = Result<ExecServerPrepared, RpcError>;
/// What every function that prepares a request receives besides the parameters.
pub(super) type Context<'a> = PrepareContext<'a, ExecServer>;

/// The path of a file call, under the operator's rules and sandbox and under the client's. A rule that asks denies here:
/// clients of this protocol give up on a file call after seconds, so no person can be asked.
fn path(
    context: &Context<'_>,
    text: &str,
    sandbox: Option<&FileSystemSandboxContext>,
) -> Result<RootedPath, RpcError> {
    let Session { roots, core, .. } = context.session;
    let path = context.guarded(&roots.admit(Path::new("/"), &native(text)?).map_err(rpc_error)?);
    Ok(match profile(sandbox, None, || core.policy.current().sandbox.own_files())? {
        Some(profile) => path.guarded(Arc::new(Confinement::new([Arc::new(profile)]))),
        None => path,
    })
}

/// A request without effects whose response is the result of work that may block.
fn blocking<T: Serialize + Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> PrepareResult {
    Ok(Prepared::blocking(Effects::None, work))
}
