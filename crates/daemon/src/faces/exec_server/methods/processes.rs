//! `process/start`, `process/terminate`, `process/signal`, and the same of v0.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::RootedPath;
use engine::process::{Cursor, PendingStart, ProcessSpec, Program, Signal};
use serde::Serialize;
use wire::exec_server::{v0, v1};
use wire::jsonrpc::RpcError;

use super::input::WriteIds;
use super::{ExecServerPrepared, PrepareResult};
use crate::core::effects::{CommandEffects, Effects};
use crate::core::events::{Follow, PublisherMessage};
use crate::core::request::{AuthorizedRequest, RequestContext};
use crate::core::sandbox::SandboxRefusal;
use crate::faces::exec_server::convert;
use crate::faces::exec_server::errors::{rpc_error, start_error, withdrawn};
use crate::faces::exec_server::events::{ExecServerEvents, Protocol};
use crate::faces::exec_server::paths::native;
use crate::faces::exec_server::sandbox::{profile, restricts_network};
use crate::faces::exec_server::sequence::SequenceIndex;
use crate::faces::exec_server::session::{ManagedProcess, Session, add_process};
use crate::observe::metrics::ProcessOwner;

/// Sent output that is kept so that it can be read again: more than can be on its way to a client.
const KEEP_SENT: u64 = 6 * 1024 * 1024;

/// A start with its directory resolved.
struct Start {
    params: Arc<v1::ExecParams>,
    protocol: Protocol,
    directory: PathBuf,
    cwd: RootedPath,
}

/// Checks and converts a `process/start` request.
pub(crate) fn start(
    params: &Arc<v1::ExecParams>,
    session: &Session,
    context: &RequestContext,
) -> PrepareResult {
    prepare(params.clone(), Protocol::V1, session, context)
}

/// `command/exec`: its environment is complete, and without a terminal it has no input.
pub(crate) fn start_v0(
    params: &Arc<v0::ExecParams>,
    session: &Session,
    context: &RequestContext,
) -> PrepareResult {
    let v0::ExecParams { process_id, argv, cwd, env, tty, arg0, output_bytes_cap: _ } = (**params).clone();
    let params = v1::ExecParams { process_id, argv, cwd, env, tty, arg0, ..v1::ExecParams::default() };
    prepare(Arc::new(params), Protocol::V0, session, context)
}

fn prepare(
    params: Arc<v1::ExecParams>,
    protocol: Protocol,
    session: &Session,
    context: &RequestContext,
) -> PrepareResult {
    let id = &params.process_id;
    if params.argv.is_empty() {
        return Err(RpcError::invalid_params("argv must not be empty"));
    }
    let directory = native(&params.cwd)?;
    if session.state.pending_starts.contains(id) || is_taken(session, &params) {
        return Err(RpcError::invalid_request(format!("process {id:?} already exists")));
    }
    let admitted = session.roots.admit(Path::new("/"), &directory).map_err(rpc_error)?;
    let cwd = session.start_directory(&admitted);
    let effects = CommandEffects {
        program: Program::Argv(params.argv.clone()),
        cwd: cwd.clone(),
        env: params.env.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect(),
        stdin: bytes::Bytes::new(),
        has_terminal: params.tty,
        is_detached: false,
    };
    let reservation = session.state.pending_starts.reserve(id, context.cancel.clone());
    let start = Start { params, protocol, directory, cwd };
    Ok(ExecServerPrepared::with_effects(Effects::Command(Box::new(effects)), move |session, request| {
        if request.context.cancel.is_cancelled() {
            return session.spawn(request.finish(Err::<(), _>(withdrawn())));
        }
        drop(reservation);
        match launch(session, &start) {
            Ok(launch) => session.spawn(launch.run(start.response(), request)),
            Err(error) => session.spawn(request.finish(Err::<(), _>(error))),
        }
    }))
}

/// Whether the id of a start belongs to another process. Clients reuse the id of an ended process for another command;
/// the same command under the same id is a repeated start.
fn is_taken(session: &Session, params: &v1::ExecParams) -> bool {
    let fingerprint = fingerprint(params);
    session.state.process(&params.process_id).is_some_and(|managed| {
        managed.fingerprint == fingerprint || managed.index.state().closed_at.is_none()
    })
}

/// A process while it starts.
struct Launch {
    starting: PendingStart,
    /// Created before the program runs, so that output during the start is kept for it.
    follow: Follow<ExecServerEvents>,
    index: Arc<SequenceIndex>,
    publisher: crate::core::events::PublisherHandle<crate::faces::exec_server::ExecServer>,
    core: Arc<crate::core::Core>,
    is_confined: bool,
}

fn launch(session: &mut Session, start: &Start) -> Result<Launch, RpcError> {
    let params = &start.params;
    let spec = spec(session, start)?;
    let is_confined = spec.confinement.is_some();
    let starting = session.engine.start(spec).map_err(rpc_error)?;
    let process = starting.process().clone();
    let index = Arc::new(SequenceIndex::new());
    let managed = ManagedProcess {
        process: process.clone(),
        index: index.clone(),
        protocol: start.protocol,
        takes_input: params.tty || params.pipe_stdin,
        write_ids: WriteIds::default(),
        fingerprint: fingerprint(params),
    };
    add_process(session, params.process_id.clone(), managed);
    let follow = Follow {
        reader: process.primary_reader_retaining(Cursor(0), KEEP_SENT),
        events: ExecServerEvents::new(params.process_id.clone(), start.protocol, index.clone()),
        not_before: None,
        gauge: None,
        process,
    };
    let (publisher, core) = (session.events().clone(), session.core.clone());
    Ok(Launch { starting, follow, index, publisher, core, is_confined })
}

impl Launch {
    async fn run(self, response: impl FnOnce(bool) -> StartResponse, request: AuthorizedRequest) {
        let Launch { starting, mut follow, index, publisher, core, is_confined } = self;
        let gauge = core.metrics.process_started(ProcessOwner::Attached);
        match starting.running().await {
            Ok(_process) => {
                index.running();
                request.finish(Ok(response(is_confined))).await;
                follow.gauge = Some(gauge);
                publisher.send(PublisherMessage::Follow(Box::new(follow))).await;
            }
            Err(error) => {
                index.failed();
                request.finish(Err::<(), _>(start_error(error))).await;
            }
        }
    }
}

fn spec(session: &Session, start: &Start) -> Result<ProcessSpec, RpcError> {
    let (params, policy) = (&start.params, session.core.policy.current());
    let sandbox = params.sandbox.as_ref();
    if params.enforce_managed_network == Some(true) && !restricts_network(sandbox) {
        let reason = "a network that must go through the client's proxy is not supported";
        return Err(RpcError::invalid_request(format!(
            "the sandbox cannot be enforced as requested: {reason}"
        )));
    }
    let protected = policy.sandbox.own_outside(&[]);
    let profile =
        sandbox.map(|sandbox| profile(sandbox, Some(&start.directory), &protected)).transpose()?.flatten();
    let confined = session.sandbox.with_profile(&policy, profile).map_err(|refusal| match refusal {
        SandboxRefusal::Unknown(unknown) => RpcError::internal(unknown.to_string()),
        SandboxRefusal::Failed(error) => rpc_error(error),
    })?;
    let prescribed = &policy.policy.environment().set;
    let env = convert::environment(params, (&policy.environment, prescribed), confined.temp.as_deref());
    Ok(convert::spec(params, (start.cwd.clone(), env), confined.confinement))
}

/// `process/terminate`: answered when nothing of the process is left.
pub(crate) fn terminate(params: &Arc<v1::TerminateParams>, _: &Session, _: &RequestContext) -> PrepareResult {
    let id = params.process_id.clone();
    Ok(ExecServerPrepared::new(move |session, request| end(session, &id, Protocol::V1, request)))
}

/// Checks and converts a `command/exec/terminate` request.
pub(crate) fn terminate_v0(
    params: &Arc<v0::TerminateParams>,
    _: &Session,
    _: &RequestContext,
) -> PrepareResult {
    let id = params.process_id.clone();
    Ok(ExecServerPrepared::new(move |session, request| end(session, &id, Protocol::V0, request)))
}

fn end(session: &Session, id: &str, protocol: Protocol, request: AuthorizedRequest) {
    session.state.pending_starts.cancel(id);
    let managed = session.state.process(id).filter(|managed| managed.protocol == protocol);
    let running = managed.filter(|managed| managed.process.state().exited.is_none());
    let Some(process) = running.map(|managed| managed.process.clone()) else {
        return session.spawn(request.finish(Ok(v1::TerminateResponse { running: false })));
    };
    session.spawn(async move {
        // It may have ended by itself at the same moment.
        let killed = process.kill(Signal::KILL).await;
        request.finish(Ok(v1::TerminateResponse { running: killed.is_ok() })).await;
    });
}

/// `process/signal`: an unknown process is not an error.
pub(crate) fn signal(params: &Arc<v1::SignalParams>, _: &Session, _: &RequestContext) -> PrepareResult {
    let v1::ProcessSignal::Interrupt = params.signal;
    let id = params.process_id.clone();
    Ok(ExecServerPrepared::new(move |session, request| {
        let process = session.state.process(&id).map(|managed| managed.process.clone());
        session.spawn(async move {
            if let Some(process) = process {
                drop(process.kill(Signal::INT).await);
            }
            request.finish(Ok(v1::Done {})).await;
        });
    }))
}

/// The response to a start of either version.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum StartResponse {
    V0(v0::ExecResponse),
    V1(v1::ExecResponse),
}

impl Start {
    fn response(&self) -> impl FnOnce(bool) -> StartResponse + Send + 'static {
        let (process_id, protocol) = (self.params.process_id.clone(), self.protocol);
        move |is_confined| match protocol {
            Protocol::V0 => StartResponse::V0(v0::ExecResponse {
                process_id,
                running: true,
                exit_code: None,
                stdout: None,
                stderr: None,
            }),
            Protocol::V1 => {
                let sandbox_type = Some(convert::sandbox_type(is_confined).to_owned());
                StartResponse::V1(v1::ExecResponse { process_id, sandbox_type })
            }
        }
    }
}

/// Tells one start from another.
fn fingerprint(params: &v1::ExecParams) -> u64 {
    let v1::ExecParams { argv, cwd, env, tty, pipe_stdin, arg0, .. } = params;
    let mut hasher = DefaultHasher::new();
    (argv, cwd, env, tty, pipe_stdin, arg0).hash(&mut hasher);
    hasher.finish()
}
