//! The method table of the host: commands of hub users, and `rpc.*` requests.

use engine::audit::RecordPriority;
use wire::hub::v1::{self, kind, rpc};

use super::Host;
use super::methods::{approvals, commands, files, machine, runs};
use crate::core::request::Details;
use crate::core::table::{Admission, Method, Row, Schedule, detail, no_details, with_size};
use crate::net::auth::Scope;

/// One row per message type.
pub static TABLE: &[&dyn Method<Host>] = &[
    &row(kind::RUN_SEND_INPUT, Scope::Exec, Schedule::Immediate, input_details, runs::send_input),
    &row(kind::RUN_SEND_STDIN, Scope::Exec, Schedule::Immediate, keys_details, runs::send_keys),
    &row(kind::RUN_RESIZE, Scope::Exec, Schedule::Immediate, no_details, runs::resize),
    &row(kind::RUN_STOP, Scope::Exec, Schedule::Immediate, stop_details, runs::stop).releasing(),
    &row(
        kind::RUN_PERMISSION_APPROVE,
        Scope::Exec,
        Schedule::Immediate,
        decision_details,
        approvals::approve,
    ),
    &row(kind::RUN_PERMISSION_DENY, Scope::Exec, Schedule::Immediate, decision_details, approvals::deny),
    &row(rpc::FS_READ, Scope::Read, Schedule::Read, read_details, files::read),
    &row(rpc::FS_SEARCH, Scope::Read, Schedule::Scan, search_details, files::search),
    &row(rpc::FS_LIST, Scope::Read, Schedule::Scan, path_details, files::list),
    &row(rpc::FS_WRITE, Scope::Exec, Schedule::Exclusive, write_details, files::write),
    &row(rpc::BASH, Scope::Exec, Schedule::Scan, bash_details, commands::bash),
    &row(rpc::GIT_STATUS, Scope::Read, Schedule::Scan, path_details, commands::git_status),
    &row(rpc::GIT_DIFF, Scope::Read, Schedule::Scan, diff_details, commands::git_diff),
    &row(rpc::APPROVAL_SHOW, Scope::Exec, Schedule::Immediate, show_details, approvals::show),
    &row(rpc::HOST_INFO, Scope::Read, Schedule::Immediate, no_details, machine::info),
    &row(rpc::HOST_DOCTOR, Scope::Read, Schedule::Immediate, no_details, machine::doctor),
    &row(rpc::HOST_CAPABILITIES, Scope::Read, Schedule::Immediate, no_details, machine::capabilities),
    &row(rpc::HOST_LOGS_TAIL, Scope::Read, Schedule::Immediate, no_details, machine::logs_tail),
    &row(rpc::HOST_DIRECTORIES, Scope::Exec, Schedule::Scan, path_details, files::directories),
    &row(rpc::RUN_START, Scope::Exec, Schedule::Read, start_details, runs::start),
    &row(rpc::RUN_STOP, Scope::Exec, Schedule::Immediate, stop_details, runs::stop).releasing(),
    &row(rpc::RUN_SCREEN, Scope::Read, Schedule::Immediate, no_details, runs::screen),
    &row(rpc::RUNS_LIST, Scope::Read, Schedule::Immediate, no_details, runs::list),
];

type PrepareFn<P> = fn(
    &std::sync::Arc<P>,
    &crate::core::prepare::PrepareContext<'_, Host>,
) -> Result<crate::core::table::Prepared<Host>, wire::jsonrpc::RpcError>;

/// A row. Requests are recognised by their ids before they get here, so that a repeated one gets the same answer.
const fn row<P>(
    name: &'static str,
    scope: Scope,
    schedule: Schedule,
    audit: fn(&P) -> Details,
    prepare: PrepareFn<P>,
) -> Row<Host, P> {
    let admission = Admission::Unlimited;
    let record_priority = RecordPriority::Normal;
    Row {
        name,
        scope,
        schedule,
        admission,
        record_priority,
        session: |_| None,
        audit,
        key: None,
        payload: None,
        prepare,
    }
}

fn input_details(params: &v1::SendInput) -> Details {
    with_size(detail("input_id", &params.input_id), "text", params.text.len())
}

fn keys_details(params: &v1::SendStdin) -> Details {
    with_size(Vec::new(), "text", params.text.len())
}

fn stop_details(params: &v1::Stop) -> Details {
    detail("signal", params.signal.as_deref().unwrap_or("term"))
}

fn start_details(params: &v1::RunStart) -> Details {
    [
        detail("tool", &params.tool),
        detail("command", &params.cmd),
        detail("cwd", params.cwd.as_deref().unwrap_or_default()),
    ]
    .concat()
}

fn decision_details(params: &v1::PermissionDecision) -> Details {
    let decision = params.decision.as_deref().unwrap_or_default();
    [detail("request_id", &params.request_id), detail("decision", decision)].concat()
}

fn path_details(params: &v1::PathParams) -> Details {
    detail("path", params.path.as_deref().unwrap_or_default())
}

fn diff_details(params: &v1::GitDiff) -> Details {
    detail("path", params.path.as_deref().unwrap_or_default())
}

fn read_details(params: &v1::FsRead) -> Details {
    detail("path", params.path.as_deref().unwrap_or_default())
}

fn search_details(params: &v1::FsSearch) -> Details {
    detail("q", &params.q)
}

fn write_details(params: &v1::FsWrite) -> Details {
    with_size(detail("path", &params.path), "content", params.content.len())
}

fn bash_details(params: &v1::Bash) -> Details {
    detail("command", &params.cmd)
}

fn show_details(params: &approvals::ApprovalShow) -> Details {
    detail("approval_id", &params.approval_id)
}
