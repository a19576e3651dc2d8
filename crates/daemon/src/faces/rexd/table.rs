//! The method table of REXD v1.

use super::fingerprint::Fingerprint as _;
use super::methods::{approvals, attach, exec, files, pty, scans, session, watches};
use super::{ConnectionCall, Rexd};
use crate::core::request::Details;
use crate::core::table::{Admission, ConnectionRow, Method, Row, Schedule, detail, no_details, with_size};
use crate::net::auth::Scope;
use bytes::Bytes;
use engine::audit::{Detail, RecordPriority};
use wire::rexd::v1::{self, Method as _};

/// One row per method: parameters, scope, schedule, kind, audit details, and the function that checks and converts the parameters
/// into effects and an action. The kind is `plain`, `keyed` (it takes an idempotency key), `payload` (it also takes a payload),
/// `releases` (it only ends or releases something, so that it runs while the audit file cannot be written) or `unrecorded` (the same,
/// without an audit record unless it fails).
macro_rules! rows {
    ($($params:ident $scope:ident $schedule:ident $kind:ident $audit:expr => $prepare:path;)*) => {
        &[$(&Row::<Rexd, v1::$params> {
            name: v1::$params::NAME,
            scope: Scope::$scope,
            schedule: Schedule::$schedule,
            admission: Admission::Unlimited,
            record_priority: rows!(@record $kind),
            session: |params| Some(&params.session_id),
            audit: $audit,
            key: rows!(@key $kind),
            payload: rows!(@payload $kind),
            prepare: $prepare,
        }),*,
        &ConnectionRow::<Rexd, v1::SessionOpen> {
            name: v1::SessionOpen::NAME,
            scope: Scope::Read,
            record_priority: RecordPriority::Normal,
            audit: opened,
            call: |params| ConnectionCall::Open(Box::new(params)),
        },
        &ConnectionRow::<Rexd, v1::SessionResume> {
            name: v1::SessionResume::NAME,
            scope: Scope::Read,
            record_priority: RecordPriority::Reserved,
            audit: |params| detail("session_id", &params.session_id),
            call: ConnectionCall::Resume,
        },
        &ConnectionRow::<Rexd, v1::ServerPing> {
            name: v1::ServerPing::NAME,
            scope: Scope::Read,
            record_priority: RecordPriority::Unrecorded,
            audit: no_details,
            call: |_params| ConnectionCall::Ping,
        }]
    };
    (@key keyed) => { Some(|params| params.idempotency_key.as_deref().map(|key| (key, params.fingerprint()))) };
    (@key payload) => { rows!(@key keyed) };
    (@key $none:ident) => { None };
    (@payload payload) => { Some(|params, payload| params.payload = Some(payload)) };
    (@payload $none:ident) => { None };
    (@record releases) => { RecordPriority::Reserved };
    (@record unrecorded) => { RecordPriority::Unrecorded };
    (@record $normal:ident) => { RecordPriority::Normal };
}

/// Every method of REXD v1.
pub static TABLE: &[&dyn Method<Rexd>] = rows! {
    SessionClose   Read Exclusive releases no_details => session::close;
    SessionInfo    Read Immediate plain no_details => session::info;
    SessionAck     Read Immediate unrecorded no_details => session::acknowledge;
    SessionSetCwd  Read Exclusive plain |params| detail("path", &params.path) => session::set_cwd;
    ExecStart      Exec Read      keyed exec_started => exec::start;
    ExecWait       Read Immediate plain |params| detail("process_id", &params.process_id) => exec::wait;
    ExecKill       Exec Immediate releases killed => exec::kill;
    ExecInput      Exec Immediate payload |params| {
        with_size(detail("process_id", &params.process_id), "data", size(&params.data, &params.payload))
    } => exec::input;
    ExecList       Read Immediate plain no_details => exec::list;
    ExecPrune      Exec Immediate plain no_details => exec::prune;
    ExecAttach     Read Immediate plain |params| detail("process_id", &params.process_id) => attach::attach;
    PtyOpen        Exec Read      keyed |params| {
        command(&params.argv, params.command.as_deref(), params.cwd.as_deref(), params.env.keys())
    } => pty::open;
    PtyInput       Exec Immediate payload |params| {
        with_size(detail("pty_id", &params.pty_id), "data", size(&params.data, &params.payload))
    } => pty::input;
    PtyResize      Exec Immediate plain |params| detail("pty_id", &params.pty_id) => pty::resize;
    PtyClose       Exec Immediate releases |params| detail("pty_id", &params.pty_id) => pty::close;
    FsRead         Read Read      plain |params| detail("path", &params.path) => files::read;
    FsWrite        Exec Write     payload |params| {
        with_size(detail("path", &params.path), "content", size(&params.content, &params.payload))
    } => files::write;
    FsEdit         Exec Write     keyed |params| {
        with_size(detail("path", &params.path), "new_string", params.new_string.len())
    } => files::edit;
    FsPatch        Exec Write     keyed |params| {
        with_size(Vec::new(), "patch_text", params.patch_text.len())
    } => files::patch;
    FsStat         Read Read      plain |params| detail("path", &params.path) => files::stat;
    FsMkdir        Exec Write     keyed |params| detail("path", &params.path) => files::mkdir;
    FsSymlink      Exec Write     keyed |params| linked(&params.path, &params.target) => files::symlink;
    FsRemove       Exec Write     keyed |params| detail("path", &params.path) => files::remove;
    FsRename       Exec Write     keyed |params| from_to(&params.from, &params.to) => files::rename;
    FsCopy         Exec Write     keyed |params| from_to(&params.from, &params.to) => files::copy;
    FsList         Read Scan      plain |params| detail("path", &params.path) => scans::list;
    FsGlob         Read Scan      plain |params| detail("pattern", &params.pattern) => scans::glob;
    FsGrep         Read Scan      plain |params| detail("pattern", &params.pattern) => scans::grep;
    FsWatch        Read Read      plain |params| detail("path", &params.path) => watches::watch;
    FsUnwatch      Read Immediate releases |params| detail("watch_id", &params.watch_id) => watches::unwatch;
    ApprovalList   Read Immediate plain no_details => approvals::list;
    ApprovalAnswer Exec Immediate plain |params| detail("approval_id", &params.approval_id) => approvals::answer;
};

/// The length of text or of the payload in its place.
fn size(text: &str, payload: &Option<Bytes>) -> usize {
    payload.as_ref().map_or(text.len(), Bytes::len)
}

fn opened(params: &v1::SessionOpen) -> Details {
    let mut details = Vec::new();
    push(&mut details, "client_name", params.client_name.as_deref());
    push(&mut details, "client_version", params.client_version.as_deref());
    if let Some(roots) = &params.workspace_roots {
        details.push(("workspace_roots".into(), Detail::List(roots.clone())));
    }
    details
}

fn exec_started(params: &v1::ExecStart) -> Details {
    let details = command(&params.argv, params.command.as_deref(), params.cwd.as_deref(), params.env.keys());
    match &params.stdin {
        Some(stdin) => with_size(details, "stdin", stdin.len()),
        None => details,
    }
}

fn command<'a>(
    argv: &[String],
    line: Option<&str>,
    cwd: Option<&str>,
    env: impl Iterator<Item = &'a String>,
) -> Details {
    let mut details = Details::new();
    if !argv.is_empty() {
        details.push(("argv".into(), Detail::Argv(argv.to_vec())));
    }
    if let Some(line) = line {
        details.push(("command".into(), Detail::Shell(line.to_owned())));
    }
    push(&mut details, "cwd", cwd);
    let names: Vec<String> = env.cloned().collect();
    if !names.is_empty() {
        details.push(("env".into(), Detail::List(names)));
    }
    details
}

fn killed(params: &v1::ExecKill) -> Details {
    let signal = params.signal.as_ref().map(|signal| match signal {
        v1::Signal::Name(name) => name.clone(),
        v1::Signal::Number(number) => number.to_string(),
    });
    let mut details = detail("process_id", &params.process_id);
    push(&mut details, "signal", signal.as_deref());
    details
}

fn from_to(from: &str, to: &str) -> Details {
    [detail("from", from), detail("to", to)].concat()
}

fn linked(path: &str, target: &str) -> Details {
    [detail("path", path), detail("target", target)].concat()
}

fn push(details: &mut Details, name: &'static str, value: Option<&str>) {
    details.extend(value.into_iter().flat_map(|value| detail(name, value)));
}
