//! What each method does, one file per family.

pub(super) mod approvals;
pub(super) mod commands;
pub(super) mod files;
pub(super) mod machine;
pub(super) mod runs;

use std::sync::Arc;

use wire::jsonrpc::RpcError;

use super::Host;
use super::errors::unknown_run;
use super::gated::RunningMark;
use super::run::Run;
use crate::core::prepare::PrepareContext;
use crate::core::table::Prepared;

/// What a method returns before it is authorized.
pub(super) type HostPrepareResult = Result<Prepared<Host>, RpcError>;
/// The context of a method.
pub(super) type HostContext<'a> = PrepareContext<'a, Host>;

/// The run of a request.
fn run_of(context: &HostContext<'_>) -> Result<Arc<Run>, RpcError> {
    context.session.state.run.clone().ok_or_else(unknown_run)
}

/// The user of a request as events show it; `None` if the hub does not name its users.
fn user_of(context: &HostContext<'_>) -> Option<String> {
    context.request.requester.caller.name.strip_prefix("user:").map(str::to_owned)
}

/// Who makes a request, in the protocol's words.
pub(super) fn actor(named: Option<&str>) -> String {
    named.unwrap_or("web").to_owned()
}

/// What marks the operation of a request as begun.
fn running_mark(context: &HostContext<'_>) -> RunningMark {
    RunningMark {
        host: context.session.face.clone(),
        run_id: context.session.id.to_string(),
        request_id: context.request.request_id.as_deref().unwrap_or_default().to_owned(),
    }
}
