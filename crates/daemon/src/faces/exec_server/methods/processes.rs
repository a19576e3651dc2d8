//! `process/start`, `process/terminate`, `process/signal`, and the same of v0.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;

use engine::RootedPath;
use engine::process::{Process, ProcessSpec, Program, Signal, Stdin, TerminalSize};
use serde::Serialize;
use wire::exec_server::{v0, v1};
use wire::jsonrpc::RpcError;

use super::input::WriteIds;
use super::{Context, ExecServer, ExecServerPrepared, PrepareResult, Session, native, profile, rpc_error};
use crate::core::effects::{CommandEffects, Effects};
use crate::core::request::AuthorizedRequest;
use crate::core::sandbox::SandboxRefusal;
use crate::core::session::{Face as _, StartOptions};
use crate::faces::exec_server::convert::environment;
use crate::faces::exec_server::errors::withdrawn;
use crate::faces::exec_server::events::{ExecServerEvents, Protocol};
use crate::faces::exec_server::sandbox::{refused, restricts_network};
use crate::faces::exec_server::sequence::SequenceIndex;
use crate::faces::exec_server::session::{ManagedProcess, add_process};

/// The size of a terminal; the protocol has no parameter for it.
const TERMINAL_SIZE: TerminalSize = TerminalSize { cols: 80, rows: 24 };
/// Checks and converts a `process/start` request.
pub(crate) fn start(params: &Arc<v1::ExecParams>, context: &Context<'_>) -> PrepareResult {
    prepare(params.clone(), Protocol::V1, context)
}

/// `command/exec`: its environment is complete, and without a terminal it has no input.
pub(crate) fn start_v0(params: &Arc<v0::ExecParams>, context: &Context<'_>) -> PrepareResult {
    let v0::ExecParams { process_id, argv, cwd, env, tty, arg0, output_bytes_cap: _ } = (**params).clone();
    let params = v1::ExecParams { process_id, argv, cwd, env, tty, arg0, ..v1::ExecParams::default() };
    prepare(Arc::new(params), Protocol::V0, context)
}

fn prepare(params: Arc<v1::ExecParams>, protocol: Protocol, context: &Context<'_>) -> PrepareResult {
    if params.argv.is_empty() {
        return Err(RpcError::invalid_params("argv must not be empty"));
    }
    if params.argv.first().is_some_and(String::is_empty) {
        let kind = if params.tty { "PTY" } else { "pipe" };
        return Err(RpcError::internal(format!("missing program for {kind} spawn")));
    }
    let (session, id) = (context.session, &params.process_id);
    let directory = native(&params.cwd)?;
    let reserve = || session.state.pending_starts.reserve(id, context.request.cancel.clone());
    let reservation = if is_taken(session, &params) { None } else { reserve() };
    let exists = || RpcError::invalid_request(format!("process {id} already exists"));
    let reservation = reservation.ok_or_else(exists)?;
    let cwd = session.roots.admit(Path::new("/"), &directory).map_err(rpc_error)?;
    let cwd = context.start_directory(&cwd);
    let effects = CommandEffects {
        program: Program::Argv(params.argv.clone()),
        cwd: cwd.clone(),
        env: params.env.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect(),
        stdin: bytes::Bytes::new(),
        has_terminal: params.tty,
        is_detached: false,
    };
    Ok(ExecServerPrepared::with_effects(Effects::Command(Box::new(effects)), move |session, request| {
        if request.context.cancel.is_cancelled() {
            return session.spawn(request.reject(withdrawn()));
        }
        drop(reservation);
        match spec(session, &params, (&directory, cwd)) {
            Ok(spec) => launch(session, spec, (&params, protocol), request),
            Err(error) => session.spawn(request.reject(error)),
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

fn spec(
    session: &Session,
    params: &v1::ExecParams,
    (directory, cwd): (&Path, RootedPath),
) -> Result<ProcessSpec, RpcError> {
    let (policy, sandbox) = (session.core.policy.current(), params.sandbox.as_ref());
    if params.enforce_managed_network == Some(true) && !restricts_network(sandbox) {
        return Err(refused("a network that must go through the client's proxy is not supported"));
    }
    let profile = profile(sandbox, Some(directory), || policy.sandbox.own_files())?;
    let confined = session.sandbox.with_profile(&policy, profile).map_err(|refusal| match refusal {
        SandboxRefusal::Unknown(unknown) => RpcError::internal(unknown.to_string()),
        SandboxRefusal::Failed(error) => rpc_error(error),
    })?;
    let prescribed = &policy.policy.environment().set;
    Ok(ProcessSpec {
        program: Program::Argv(params.argv.clone()),
        arg0: params.arg0.clone(),
        name: None,
        cwd,
        env: environment(params, (&policy.environment, prescribed), confined.temp.as_deref()),
        terminal: params.tty.then_some(TERMINAL_SIZE),
        stdin: if params.pipe_stdin && !params.tty { Stdin::Open } else { Stdin::Empty },
        merges_stderr: false,
        side_pipes: None,
        end_grace: None,
        stop_after: None,
        output_limit: None,
        is_text: false,
        origin: ExecServer::NAME.into(),
        confinement: confined.confinement,
    })
}

fn launch(
    session: &mut Session,
    spec: ProcessSpec,
    (params, protocol): (&v1::ExecParams, Protocol),
    request: AuthorizedRequest,
) {
    let process_id = params.process_id.clone();
    let response = match protocol {
        Protocol::V0 => StartResponse::V0(v0::ExecResponse {
            process_id,
            running: true,
            exit_code: None,
            stdout: None,
            stderr: None,
        }),
        Protocol::V1 => {
            let sandbox_type = if spec.confinement.is_some() { "linuxSeccomp" } else { "none" };
            StartResponse::V1(v1::ExecResponse { process_id, sandbox_type: Some(sandbox_type.to_owned()) })
        }
    };
    let options =
        StartOptions { retained_bytes: session.face.kept_bytes() as u64, ..StartOptions::default() };
    let events = |session: &mut Session, process: &Process| {
        let index = Arc::new(SequenceIndex::new());
        let managed = ManagedProcess {
            process: process.clone(),
            index: index.clone(),
            protocol,
            takes_input: params.tty || params.pipe_stdin,
            write_ids: WriteIds::default(),
            fingerprint: fingerprint(params),
        };
        add_process(session, params.process_id.clone(), managed);
        ExecServerEvents { id: params.process_id.clone(), protocol, index, hold: None }
    };
    session.start_process(spec, options, request, events, |_process| response);
}

/// The response to a start of either version.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum StartResponse {
    V0(v0::ExecResponse),
    V1(v1::ExecResponse),
}

/// Tells one start from another.
fn fingerprint(params: &v1::ExecParams) -> u64 {
    let v1::ExecParams { argv, cwd, env, tty, pipe_stdin, arg0, .. } = params;
    let mut hasher = DefaultHasher::new();
    (argv, cwd, env, tty, pipe_stdin, arg0).hash(&mut hasher);
    hasher.finish()
}

/// `process/terminate`: answered when nothing of the process is left.
pub(crate) fn terminate(params: &Arc<v1::TerminateParams>, context: &Context<'_>) -> PrepareResult {
    end(params.process_id.clone(), Protocol::V1, context)
}

/// Checks and converts a `command/exec/terminate` request.
pub(crate) fn terminate_v0(params: &Arc<v0::TerminateParams>, context: &Context<'_>) -> PrepareResult {
    end(params.process_id.clone(), Protocol::V0, context)
}

fn end(id: String, protocol: Protocol, context: &Context<'_>) -> PrepareResult {
    let state = &context.session.state;
    let is_running = |managed: &&ManagedProcess| managed.process.state().exited.is_none();
    let running = state.known(&id, protocol).ok().filter(is_running).map(|managed| managed.process.clone());
    let pending = state.pending_starts.clone();
    Ok(ExecServerPrepared::response(async move {
        pending.cancel(&id);
        let running = match running {
            // It may have ended by itself at the same moment.
            Some(process) => process.kill(Signal::KILL).await.is_ok(),
            None => false,
        };
        Ok(v1::TerminateResponse { running })
    }))
}

/// `process/signal`: an unknown process is not an error.
pub(crate) fn signal(params: &Arc<v1::SignalParams>, context: &Context<'_>) -> PrepareResult {
    let v1::ProcessSignal::Interrupt = params.signal;
    let process = context.session.state.process(&params.process_id).map(|managed| managed.process.clone());
    Ok(ExecServerPrepared::response(async move {
        if let Some(process) = process {
            drop(process.kill(Signal::INT).await);
        }
        Ok(v1::Done {})
    }))
}
