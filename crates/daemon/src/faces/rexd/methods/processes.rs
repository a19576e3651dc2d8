//! Processes of a session: started attached or under a keeper, and found again among detached ones.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use engine::process::{
    Cursor, Description, KeptProcess, LogReader, OutputLimit, Process, ProcessId, ProcessSpec, Program,
    Stdin, TerminalSize,
};
use engine::{RootedPath, Roots};
use serde::Serialize;
use wire::rexd::v1::{self, Encoding, RpcError};

use super::names;
use super::{Context, PrepareResult, RexdPrepared, admit};
use crate::config::OFF;
use crate::core::effects::{CommandEffects, Effects};
use crate::core::events::{Follow, PublisherMessage};
use crate::core::request::AuthorizedRequest;
use crate::core::responder::{Responder, to_json};
use crate::core::sandbox::SandboxRefusal;
use crate::core::session::{Face as _, SessionMessage, StartOptions};
use crate::faces::rexd::Rexd;
use crate::faces::rexd::convert::{process_of_pty, pty_id, timestamp};
use crate::faces::rexd::errors::{invalid, pty_not_found, rpc_error, unsupported, with_hint};
use crate::faces::rexd::events::RexdEvents;
use crate::faces::rexd::peers::OtherDaemons;
use crate::faces::rexd::session::{ProcessLookup, Session};
use crate::keeper::{Keepers, NameLock};
use crate::net::auth::Caller;
use crate::observe::metrics::{ProcessGauge, ProcessOwner};

/// A command to start, as its request wants it.
pub(super) struct StartRequest {
    pub(super) program: Program,
    pub(super) cwd: Option<String>,
    pub(super) env: BTreeMap<String, Option<String>>,
    pub(super) terminal: Option<TerminalSize>,
    pub(super) stdin: Stdin,
    pub(super) merges_stderr: bool,
    pub(super) stop_after: Option<Duration>,
    pub(super) output_limit: Option<OutputLimit>,
    pub(super) sandbox: Option<String>,
    pub(super) name: Option<String>,
    pub(super) is_detached: bool,
    pub(super) result: StartResult,
}

/// The result of a start: of `exec.start` or of `pty.open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartResult {
    Exec,
    Pty,
}

/// A result of either method.
#[derive(Serialize)]
#[serde(untagged)]
enum Started {
    Exec(v1::ExecStartResult),
    Pty(v1::PtyOpenResult),
}

impl StartResult {
    fn of(self, id: &ProcessId, started_at: SystemTime) -> Started {
        let process_id = id.0.clone();
        match self {
            StartResult::Exec => {
                Started::Exec(v1::ExecStartResult { process_id, started_at: timestamp(started_at) })
            }
            StartResult::Pty => Started::Pty(v1::PtyOpenResult {
                pty_id: pty_id(id),
                process_id,
                started_at: Some(timestamp(started_at)),
            }),
        }
    }
}

/// Checks a start. The environment and the sandbox are the operator's and are taken from the policy when it runs.
pub(super) fn start(request: StartRequest, context: &Context<'_>) -> PrepareResult {
    if request.program.argv().iter().any(|argument| argument.contains('\0')) {
        return Err(invalid("argv", "an argument cannot contain NUL"));
    }
    check_env(&request.env)?;
    request.name.as_deref().map_or(Ok(()), names::check)?;
    if let Some(profile) = request.sandbox.as_deref().filter(|profile| *profile != OFF) {
        let sandbox = &context.session.core.policy.current().sandbox;
        sandbox.check(profile).map_err(|unknown| invalid("sandbox", &unknown.to_string()))?;
    }
    let cwd = context.start_directory(&admit(context, request.cwd.as_deref().unwrap_or_default())?);
    let effects = CommandEffects {
        program: request.program.clone(),
        cwd: cwd.clone(),
        env: request.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        stdin: match &request.stdin {
            Stdin::Given(bytes) => bytes.clone(),
            Stdin::Open | Stdin::Empty => bytes::Bytes::new(),
        },
        has_terminal: request.terminal.is_some(),
        is_detached: request.is_detached,
    };
    Ok(RexdPrepared::with_effects(Effects::Command(Box::new(effects)), move |session, pending| {
        let options = (request.result, request.is_detached);
        match spec(session, request, cwd) {
            Ok(spec) if spec.name.is_some() => start_named(session, spec, options, pending),
            Ok(spec) => start_either(session, (spec, None), options, pending),
            Err(error) => session.spawn(pending.reject(error)),
        }
    }))
}

/// Reserves the name first: it is free from then until the process is registered.
fn start_named(
    session: &mut Session,
    spec: ProcessSpec,
    options: (StartResult, bool),
    request: AuthorizedRequest,
) {
    let (core, others, handle) = (session.core.clone(), OtherDaemons::of(session), session.handle());
    session.spawn(async move {
        let name = spec.name.clone().unwrap_or_default();
        match names::reserve(&core, others, &name).await {
            Ok(reservation) => {
                let start = move |session: &mut Session| {
                    start_either(session, (spec, reservation), options, request);
                };
                handle.send(SessionMessage::update(start)).await;
            }
            Err(error) => request.reject(error).await,
        }
    });
}

fn start_either(
    session: &mut Session,
    (spec, reservation): (ProcessSpec, Option<NameLock>),
    (result, is_detached): (StartResult, bool),
    request: AuthorizedRequest,
) {
    match is_detached {
        true => start_detached(session, (spec, reservation), result, request),
        // It is registered when this returns.
        false => start_attached(session, spec, result, request),
    }
}

fn spec(session: &Session, request: StartRequest, cwd: RootedPath) -> Result<ProcessSpec, RpcError> {
    let policy = session.core.policy.current();
    let profile = request.sandbox.as_deref().filter(|profile| *profile != OFF);
    let confined =
        session.sandbox.of_process(&policy, profile, request.is_detached).map_err(
            |refusal| match refusal {
                SandboxRefusal::Unknown(unknown) => invalid("sandbox", &unknown.to_string()),
                SandboxRefusal::Failed(error) => rpc_error(error),
            },
        )?;
    let inherited = policy.environment.iter().cloned();
    let mut env: Vec<(OsString, OsString)> = match request.env.is_empty() {
        true => inherited.collect(),
        false => policy.policy.environment().apply(inherited, &request.env),
    };
    let mut set = |name: &str, value: OsString| {
        env.retain(|(known, _)| known != name);
        env.push((name.into(), value));
    };
    if !request.env.contains_key("PWD") {
        set("PWD", cwd.as_path().into());
    }
    if let Some(temp) = confined.temp.filter(|_| !request.env.contains_key("TMPDIR")) {
        set("TMPDIR", temp.into());
    }
    if request.terminal.is_some() && !env.iter().any(|(name, _)| name == "TERM") {
        env.push(("TERM".into(), "xterm-256color".into()));
    }
    Ok(ProcessSpec {
        program: request.program,
        arg0: None,
        name: request.name,
        cwd,
        env,
        terminal: request.terminal,
        stdin: request.stdin,
        merges_stderr: request.merges_stderr,
        side_pipes: None,
        end_grace: None,
        stop_after: request.stop_after,
        output_limit: request.output_limit,
        is_text: session.state.client.encoding == Encoding::Utf8,
        origin: Rexd::NAME.into(),
        confinement: confined.confinement,
    })
}

fn check_env(env: &BTreeMap<String, Option<String>>) -> Result<(), RpcError> {
    if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(invalid(&format!("env.{name}"), "not a valid variable name"));
    }
    let has_nul = |value: &Option<String>| value.as_ref().is_some_and(|value| value.contains('\0'));
    match env.iter().find(|(_, value)| has_nul(value)) {
        Some((name, _)) => Err(invalid(&format!("env.{name}"), "a value cannot contain NUL")),
        None => Ok(()),
    }
}

fn start_attached(session: &mut Session, spec: ProcessSpec, result: StartResult, request: AuthorizedRequest) {
    let limit = session.limits.max_processes_per_session;
    if !session.engine.has_capacity(limit) {
        let error = engine::Error::LimitReached { what: "processes per session", limit: limit as u64 };
        return session.spawn(request.reject(rpc_error(error)));
    }
    let output_delay = session.state.client.quirks.terminal_hold.filter(|_| spec.terminal.is_some());
    let options = StartOptions { output_delay, ..StartOptions::default() };
    let events = |session: &mut Session, process: &Process| RexdEvents::new(session, process);
    let result = move |process: &Process| result.of(process.id(), process.description().started_at);
    session.start_process(spec, options, request, events, result);
}

/// The user's keepers.
fn keepers(session: &Session) -> Result<Keepers, RpcError> {
    let reason = "there is no state directory: set HOME or XDG_STATE_HOME";
    session.core.keepers.clone().ok_or_else(|| unsupported("detach", reason))
}

/// Starts a process under a keeper, and follows it.
fn start_detached(
    session: &mut Session,
    (spec, reservation): (ProcessSpec, Option<NameLock>),
    result: StartResult,
    request: AuthorizedRequest,
) {
    let keepers = match keepers(session) {
        Ok(keepers) => keepers,
        Err(error) => return session.spawn(request.reject(error)),
    };
    let (handle, by) = (session.handle(), session.requester.caller.name.clone());
    let no_roots = session.core.no_roots.clone();
    session.spawn(async move {
        let started = keepers.start(spec, &by).await;
        drop(reservation);
        let started = match started {
            Ok(started) => started,
            Err(error) => {
                let error = with_hint(rpc_error(error), no_roots.as_deref());
                return request.reject(error).await;
            }
        };
        let started_at = started.started_at;
        match keepers.kept(&started.id, Cursor(0)).await {
            Ok((kept, _)) => {
                let AuthorizedRequest { responder, guard, key, .. } = request;
                let adopt = move |session: &mut Session, responder: Responder| {
                    let (process, reader) = session.engine.adopt(kept);
                    let gauge = Some(session.core.metrics.process_started(ProcessOwner::Detached));
                    let follow = follow(session, (process, reader), gauge);
                    let result = to_json(Ok(result.of(&started.id, started_at)));
                    key.into_iter().for_each(|key| key.complete(&result));
                    session.spawn(async move {
                        responder.send(result).await;
                        follow.await;
                    });
                };
                handle.send(SessionMessage::complete(responder, adopt)).await;
                // Only now: a session that ends meanwhile still receives the message, and responds.
                drop(guard);
            }
            // It runs, or has run, although it cannot be followed from here.
            Err(_unreachable) => request.finish(Ok(result.of(&started.id, started_at))).await,
        }
    });
}

/// Publishes the output of a process from now on.
pub(super) fn follow(
    session: &mut Session,
    (process, reader): (Process, LogReader),
    gauge: Option<ProcessGauge>,
) -> impl Future<Output = ()> + Send + 'static {
    let events = RexdEvents::new(session, &process);
    let follow = Follow { process, reader, events, not_before: None, gauge };
    session.events().send(PublisherMessage::Follow(Box::new(follow)))
}

/// Runs `then` with a process of this session, or one that it has attached to. An unknown process is looked up among
/// the detached ones first; requests for the same process wait for that in order.
pub(super) fn with_process(
    session: &mut Session,
    id: ProcessId,
    not_found: RpcError,
    request: AuthorizedRequest,
    then: impl FnOnce(&mut Session, Process, AuthorizedRequest) + Send + 'static,
) {
    let reject =
        move |session: &mut Session, request: AuthorizedRequest| session.spawn(request.reject(not_found));
    with_process_or(session, id, request, then, reject);
}

/// As [`with_process`], and runs `otherwise` if there is no such process.
pub(super) fn with_process_or(
    session: &mut Session,
    id: ProcessId,
    request: AuthorizedRequest,
    then: impl FnOnce(&mut Session, Process, AuthorizedRequest) + Send + 'static,
    otherwise: impl FnOnce(&mut Session, AuthorizedRequest) + Send + 'static,
) {
    let known = session.engine.process(&id).ok().or_else(|| session.state.attached(&id)).cloned();
    if let Some(process) = known {
        return then(session, process, request);
    }
    if names::is_name(&id.0) {
        let lookup = ProcessLookup { request, then: Box::new(then), otherwise: Box::new(otherwise) };
        return with_name(session, id, lookup);
    }
    let Some(keepers) = session.core.keepers.clone() else {
        return otherwise(session, request);
    };
    let lookups = session.state.lookups.entry(id.clone()).or_default();
    lookups.push(ProcessLookup { request, then: Box::new(then), otherwise: Box::new(otherwise) });
    if lookups.len() > 1 {
        return;
    }
    let (handle, caller, roots) = (session.handle(), session.requester.caller.clone(), session.roots.clone());
    session.spawn(async move {
        let kept = match keepers.find(&id).await {
            Ok(listed) if may_see(&caller, &roots, &listed.description) => {
                keepers.kept(&id, listed.facts.end).await.ok().map(|(kept, _)| kept)
            }
            _ => None,
        };
        handle.send(SessionMessage::update(move |session| looked_up(session, &id, kept))).await;
    });
}

/// Looks up the id of a named process; requests for the same name wait for that in order.
fn with_name(session: &mut Session, name: ProcessId, lookup: ProcessLookup) {
    let lookups = session.state.lookups.entry(name.clone()).or_default();
    lookups.push(lookup);
    if lookups.len() > 1 {
        return;
    }
    let (core, handle) = (session.core.clone(), session.handle());
    let (caller, roots) = (session.requester.caller.clone(), session.roots.clone());
    session.spawn(async move {
        let found = names::resolve(&core, &name.0, |process| may_see(&caller, &roots, process)).await;
        let continue_lookups = move |session: &mut Session| {
            for lookup in session.state.lookups.remove(&name).unwrap_or_default() {
                match found.clone() {
                    Some(id) => with_process_or(session, id, lookup.request, lookup.then, lookup.otherwise),
                    None => (lookup.otherwise)(session, lookup.request),
                }
            }
        };
        handle.send(SessionMessage::update(continue_lookups)).await;
    });
}

/// Continues the requests that waited for a process.
fn looked_up(session: &mut Session, id: &ProcessId, kept: Option<KeptProcess>) {
    if let Some(kept) = kept
        && session.engine.process(id).is_err()
    {
        // Only to control it: its output is not read here.
        drop(session.engine.adopt(kept));
    }
    for lookup in session.state.lookups.remove(id).unwrap_or_default() {
        match session.engine.process(id).cloned() {
            Ok(process) => (lookup.then)(session, process, lookup.request),
            Err(_unknown) => (lookup.otherwise)(session, lookup.request),
        }
    }
}

/// As [`with_process`], for the process of a terminal.
pub(super) fn with_terminal(
    session: &mut Session,
    id: &str,
    request: AuthorizedRequest,
    then: impl FnOnce(&mut Session, Process, AuthorizedRequest) + Send + 'static,
) {
    let not_found = pty_not_found(id);
    let name = || names::is_name(id).then(|| ProcessId(id.to_owned()));
    let Some(process) = process_of_pty(id).or_else(name) else {
        return session.spawn(request.reject(not_found));
    };
    let no_terminal = not_found.clone();
    with_process(session, process, not_found, request, move |session, process, request| {
        match process.description().has_terminal {
            true => then(session, process, request),
            false => session.spawn(request.reject(no_terminal)),
        }
    });
}

/// Whether a caller that is confined to some directories may see a process.
pub(super) fn may_see(caller: &Caller, roots: &Roots, process: &Description) -> bool {
    caller.roots.is_none() || roots.paths().iter().any(|root| process.cwd.starts_with(root))
}
