//! Runs: started, written to, resized, stopped and listed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use engine::process::{ProcessSpec, Program, Stdin};
use engine::{Error, RootedPath};
use serde_json::json;
use tokio::sync::oneshot;
use wire::hub::v1::{self, RunStartResult, RunSummary, RunsListResult};
use wire::jsonrpc::RpcError;

use super::{HostContext, HostPrepareResult, actor, run_of, user_of};
use crate::core::effects::{CommandEffects, Effects};
use crate::core::request::off_thread;
use crate::core::sandbox::SandboxRefusal;
use crate::core::session::Face as _;
use crate::core::table::Prepared;
use crate::faces::host::Host;
use crate::faces::host::convert::{signal, size, start_size};
use crate::faces::host::errors::rpc_error;
use crate::faces::host::identity::uuid;
use crate::faces::host::input::{InputCommand, InputPurpose, Typist};
use crate::faces::host::journal::RunRecord;
use crate::faces::host::run::{Run, now};
use crate::faces::host::session::Session;
use crate::keeper::{Keepers, boot_id};

/// The tool of a run that names none.
const DEFAULT_TOOL: &str = "shell";

/// `run.send_input`: takes effect once per id.
pub(crate) fn send_input(params: &Arc<v1::SendInput>, context: &HostContext<'_>) -> HostPrepareResult {
    if params.input_id.is_empty() {
        return Err(RpcError::invalid_params("missing input_id"));
    }
    let purpose = InputPurpose::Once(params.input_id.clone());
    input(context, purpose, params.text.clone(), params.actor.as_deref())
}

/// `run.send_stdin`: keys, without an id.
pub(crate) fn send_keys(params: &Arc<v1::SendStdin>, context: &HostContext<'_>) -> HostPrepareResult {
    input(context, InputPurpose::Keys, params.text.clone(), params.actor.as_deref())
}

/// Types into the run of a request.
pub(super) fn input(
    context: &HostContext<'_>,
    purpose: InputPurpose,
    text: String,
    named: Option<&str>,
) -> HostPrepareResult {
    let run = run_of(context)?;
    check_typing(&run)?;
    let by = Typist { actor: actor(named), user: user_of(context) };
    Ok(Prepared::new(move |session, request| {
        let (done, written) = oneshot::channel();
        // Queued here, in the order of the requests.
        let queued = run.queue_input(InputCommand { purpose, text, by, done });
        session.spawn(async move {
            let result = match queued {
                Ok(()) => written.await.unwrap_or(Err(Error::Gone)),
                Err(error) => Err(error),
            };
            request.finish(result.map_err(rpc_error).map(|()| json!({}))).await;
        });
    }))
}

/// Processes of stringd take input only from the user of this machine.
fn check_typing(run: &Run) -> Result<(), RpcError> {
    match run.record.is_own || run.record.tool != "stringd" {
        true => Ok(()),
        false => Err(RpcError::invalid_request("a process of stringd takes no input from a hub")),
    }
}

/// `run.resize`: the size of the terminal.
pub(crate) fn resize(params: &Arc<v1::Resize>, context: &HostContext<'_>) -> HostPrepareResult {
    let (run, size) = (run_of(context)?, size(**params));
    check_typing(&run)?;
    Ok(Prepared::response(async move { run.resize(size).await.map_err(rpc_error).map(|()| json!({})) }))
}

/// `run.stop` and `rpc.run.stop`: `term` and `kill` end the whole tree.
pub(crate) fn stop(params: &Arc<v1::Stop>, context: &HostContext<'_>) -> HostPrepareResult {
    let (run, signal) = (run_of(context)?, signal(params.signal.as_deref())?);
    let name = params.signal.clone().unwrap_or_else(|| "term".to_owned());
    Ok(Prepared::response(async move {
        match run.stop(signal).await {
            Ok(()) => Ok(json!({ "signal": name })),
            Err(Error::Gone) => Err(RpcError::invalid_request("the run has ended")),
            Err(error) => Err(rpc_error(error)),
        }
    }))
}

/// `rpc.run.screen`: the screen as escape sequences, also of an ended run.
pub(crate) fn screen(_: &Arc<v1::RpcHeader>, context: &HostContext<'_>) -> HostPrepareResult {
    let run = run_of(context)?;
    Ok(Prepared::blocking(Effects::None, move || {
        run.rendered_screen().ok_or_else(|| RpcError::invalid_request("the run has no terminal"))
    }))
}

/// `rpc.runs.list`: the runs that have not ended.
pub(crate) fn list(_: &Arc<v1::RpcHeader>, context: &HostContext<'_>) -> HostPrepareResult {
    let face = &context.session.face;
    let runs = face.runs.all();
    let summary = |run: &Arc<Run>| {
        let prompt = run.journal().prompt().filter(|prompt| prompt.answered_at.is_none()).cloned();
        let awaiting_input = prompt.is_some();
        RunSummary {
            run_id: run.record.run_id.clone(),
            pid: run.process().ok().and_then(|process| process.pid()).map(i64::from),
            tool: run.record.tool.clone(),
            cwd: run.record.cwd.clone(),
            awaiting_input,
            pending_request_id: face
                .questions
                .of_run(&run.record.run_id)
                .or_else(|| prompt.and_then(|prompt| prompt.request_id)),
        }
    };
    let runs = runs.iter().filter(|run| !run.is_over()).map(summary).collect();
    let result = RunsListResult { runs };
    Ok(Prepared::response(async move { Ok(result) }))
}

/// `rpc.run.start`: a command on a terminal, under a keeper.
pub(crate) fn start(params: &Arc<v1::RunStart>, context: &HostContext<'_>) -> HostPrepareResult {
    let face = &context.session.face;
    let tool = if params.tool.trim().is_empty() { DEFAULT_TOOL } else { params.tool.trim() }.to_owned();
    let argv = match params.cmd.trim() {
        "" => vec![tool_program(face, &tool)?],
        _ => vec!["bash".to_owned(), "-lc".to_owned(), params.cmd.clone()],
    };
    if argv.iter().any(|argument| argument.contains('\0')) {
        return Err(RpcError::invalid_params("cmd contains NUL"));
    }
    let cwd = params.cwd.as_deref().filter(|cwd| !cwd.is_empty());
    let admitted = context.admit(cwd.unwrap_or_default()).map_err(rpc_error)?;
    let cwd = context.start_directory(&admitted);
    let env: BTreeMap<String, Option<String>> =
        params.env.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
    let effects = CommandEffects {
        program: Program::Argv(argv.clone()),
        cwd: cwd.clone(),
        env: env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        stdin: bytes::Bytes::new(),
        has_terminal: true,
        is_detached: true,
    };
    let command = if params.cmd.trim().is_empty() { argv.join(" ") } else { params.cmd.clone() };
    let params = params.clone();
    Ok(Prepared::with_effects(Effects::Command(Box::new(effects)), move |session, request| {
        let record = match record((tool, command), &cwd, request.context.request_id.as_deref()) {
            Ok(record) => record,
            Err(error) => return session.spawn(request.reject(error)),
        };
        let spec = match spec(session, (Program::Argv(argv), cwd.clone()), env, (&record, &params)) {
            Ok(spec) => spec,
            Err(error) => return session.spawn(request.reject(error)),
        };
        let (face, by) = (session.face.clone(), request.context.requester.caller.name.clone());
        session.spawn(async move {
            let result = async {
                off_thread(move || check_directory(&cwd)).await?;
                let run = face.runs.start(face.core(), (record, spec), &by).await.map_err(rpc_error)?;
                Ok(RunStartResult { run_id: run.record.run_id.clone() })
            };
            let result = result.await;
            request.finish(result).await;
        });
    }))
}

fn tool_program(face: &Host, tool: &str) -> Result<String, RpcError> {
    if tool == DEFAULT_TOOL {
        return Ok("bash".to_owned());
    }
    let program = face.settings.tools.find(tool).ok_or_else(|| {
        let variable = tool.to_ascii_uppercase().replace('-', "_");
        let message = format!("unsupported tool {tool}: no such program; set RELAY_{variable}_BIN");
        RpcError::invalid_params(message)
    })?;
    let text = program.to_str().map(str::to_owned);
    text.ok_or_else(|| RpcError::invalid_params("the path of the tool is not UTF-8"))
}

fn check_directory(cwd: &RootedPath) -> Result<(), RpcError> {
    let missing = || RpcError::invalid_params(format!("run cwd does not exist: {}", cwd.as_path().display()));
    match engine::files::stat_followed(cwd).map_err(rpc_error)? {
        Some((found, _)) if found.kind == engine::files::FileKind::Dir => Ok(()),
        _ => Err(missing()),
    }
}

fn record(
    (tool, command): (String, String),
    cwd: &RootedPath,
    request_id: Option<&str>,
) -> Result<RunRecord, RpcError> {
    let random = |error: std::io::Error| RpcError::internal(format!("no randomness: {error}"));
    Ok(RunRecord {
        run_id: format!("run-{}", uuid().map_err(random)?),
        process: Keepers::new_id().map_err(rpc_error)?.0,
        is_kept: true,
        tool,
        cwd: cwd.as_path().display().to_string(),
        command,
        has_terminal: true,
        is_own: true,
        started_at: now(),
        boot: boot_id(),
        request_id: request_id.map(str::to_owned),
    })
}

fn spec(
    session: &Session,
    (program, cwd): (Program, RootedPath),
    env: BTreeMap<String, Option<String>>,
    (record, params): (&RunRecord, &v1::RunStart),
) -> Result<ProcessSpec, RpcError> {
    let policy = session.core.policy.current();
    let confined = session.sandbox.of_process(&policy, None, true).map_err(|refusal| match refusal {
        SandboxRefusal::Unknown(unknown) => RpcError::invalid_request(unknown.to_string()),
        SandboxRefusal::Failed(error) => rpc_error(error),
    })?;
    let mut variables: Vec<(OsString, OsString)> =
        policy.policy.environment().apply(policy.environment.iter().cloned(), &env);
    let mut set = |name: &str, value: OsString| {
        variables.retain(|(known, _)| known != name);
        variables.push((name.into(), value));
    };
    set("PWD", cwd.as_path().into());
    if let Some(temp) = confined.temp {
        set("TMPDIR", temp.into());
    }
    set("RELAY_RUN_ID", (&record.run_id).into());
    set("RELAY_TOOL", (&record.tool).into());
    set("RELAY_CWD", cwd.as_path().into());
    if let Some(socket) = &session.face.settings.socket {
        set("RELAY_HOSTD_SOCK", socket.into());
    }
    if !variables.iter().any(|(name, _)| name == "TERM") {
        variables.push(("TERM".into(), "xterm-256color".into()));
    }
    Ok(ProcessSpec {
        program,
        arg0: None,
        name: None,
        cwd,
        env: variables,
        terminal: Some(start_size(params)),
        stdin: Stdin::Open,
        merges_stderr: false,
        side_pipes: None,
        end_grace: None,
        stop_after: None,
        output_limit: None,
        is_text: true,
        origin: Host::NAME.into(),
        confinement: confined.confinement,
    })
}
