//! Commands: started, written to, waited for, killed and listed.

use std::time::Duration;

use engine::process::{Description, Process, ProcessId, ProcessState};
use wire::rexd::v1::{self, RpcError};

use super::frame::{ENVELOPE_BYTES, encoded_bytes, fit};
use super::processes::{
    StartRequest, StartResult, may_see, start as start_process, with_process, with_process_or,
};
use super::{Context, Params, PrepareResult, RexdPrepared};
use crate::core::request::AuthorizedRequest;
use crate::core::session::Face as _;
use crate::faces::rexd::Rexd;
use crate::faces::rexd::convert::{self, exit_code, exit_signal, pty_id, status, timestamp};
use crate::faces::rexd::errors::{process_not_found, rpc_error};
use crate::faces::rexd::peers::OtherDaemons;
use crate::faces::rexd::session::Session;

/// The characters of a command line in a list that would not fit into a frame otherwise; the rest is left out.
const SHORT_ARGV: usize = 256;

/// `exec.start`: answered when the program runs or could not be started.
pub(crate) fn start(params: &Params<v1::ExecStart>, context: &Context<'_>) -> PrepareResult {
    let timeout = convert::optional_time("timeout_ms", params.timeout_ms)?;
    let limits = &context.session.limits;
    let request = StartRequest {
        program: convert::exec_program(params)?,
        cwd: params.cwd.clone(),
        env: params.env.clone(),
        terminal: None,
        stdin: convert::stdin(params, limits.stdin_start_bytes)?,
        merges_stderr: params.merge_stderr,
        stop_after: match params.detach {
            true => limits.timeout_if_asked(timeout),
            false => limits.timeout(timeout),
        },
        output_limit: match (params.detach, params.max_output_bytes) {
            // The log of a detached process has a quota of its own.
            (true, None | Some(0)) => None,
            (_, bytes) => convert::output_limit(limits, bytes)?,
        },
        sandbox: params.sandbox.clone(),
        name: params.name.clone(),
        is_detached: params.detach,
        result: StartResult::Exec,
    };
    start_process(request, context)
}

/// `exec.wait`: delays no other request, and can be cancelled.
pub(crate) fn wait(params: &Params<v1::ExecWait>, context: &Context<'_>) -> PrepareResult {
    let limit = wait_limit(context.session, params.timeout_ms)?;
    let id = ProcessId(params.process_id.clone());
    Ok(RexdPrepared::new(move |session, request| {
        let not_found = process_not_found(&id.0);
        with_process(session, id, not_found, request, move |session, process, request| {
            let (cancel, over) = (request.responder.cancel.clone(), session.over.clone());
            session.spawn(async move {
                let wait = async {
                    match limit {
                        Some(limit) => drop(tokio::time::timeout(limit, process.closed()).await),
                        None => drop(process.closed().await),
                    }
                };
                tokio::select! {
                    biased;
                    () = wait => request.finish(Ok(wait_result(&process))).await,
                    () = cancel.cancelled() => request.reject(RpcError::cancelled()).await,
                    // A process of another session may run for ever.
                    () = over.cancelled() => request.finish(Ok(wait_result(&process))).await,
                }
            });
        });
    }))
}

/// How long to wait: without a value until the end, within the session's ceiling; 0 means not at all.
fn wait_limit(session: &Session, requested: Option<i64>) -> Result<Option<Duration>, RpcError> {
    match requested {
        None => Ok(session.limits.hard_timeout),
        Some(0) => Ok(Some(Duration::ZERO)),
        Some(_) => convert::optional_time("timeout_ms", requested),
    }
}

/// `exec.kill`: answered when the tree is empty, with the processes that were killed.
pub(crate) fn kill(params: &Params<v1::ExecKill>, _: &Context<'_>) -> PrepareResult {
    let signal = convert::signal(params.signal.as_ref());
    let params = (**params).clone();
    Ok(RexdPrepared::new(move |session, request| {
        let id = ProcessId(params.process_id.clone());
        let kill = move |session: &mut Session, process: Process, request: AuthorizedRequest| {
            let core = session.core.clone();
            session.spawn(async move {
                let signal = match signal {
                    Ok(signal) => signal,
                    Err(error) => return request.reject(error).await,
                };
                let result = match process.kill(signal).await {
                    Ok(ended) => Ok(v1::ExecKillResult {
                        ok: !signal.ends() || ended.remaining.is_empty(),
                        killed: ended.killed.into_iter().map(member).collect(),
                        left: ended.remaining.into_iter().map(member).collect(),
                        incomplete: signal.ends() && !ended.is_complete,
                    }),
                    // It has ended before: nothing that can be found was left to kill.
                    Err(engine::Error::Gone) => Ok(v1::ExecKillResult {
                        ok: false,
                        killed: Vec::new(),
                        left: Vec::new(),
                        incomplete: !core.engine.uses_cgroups(),
                    }),
                    Err(error) => Err(rpc_error(error)),
                };
                request.finish(result).await;
            });
        };
        // It may be attached to another daemon of this user.
        let kill_elsewhere = move |session: &mut Session, request: AuthorizedRequest| {
            let others = OtherDaemons::of(session);
            session.spawn(async move {
                let killed = match others {
                    Some(others) => others.kill(&params).await,
                    None => None,
                };
                let not_found = || Err(process_not_found(&params.process_id));
                request.finish(killed.unwrap_or_else(not_found)).await;
            });
        };
        with_process_or(session, id, request, kill, kill_elsewhere);
    }))
}

/// Checks and converts a `exec.input` request.
pub(crate) fn input(params: &Params<v1::ExecInput>, _: &Context<'_>) -> PrepareResult {
    let params = params.clone();
    Ok(RexdPrepared::new(move |session, request| {
        let (id, not_found) = (ProcessId(params.process_id.clone()), process_not_found(&params.process_id));
        with_process(session, id, not_found, request, move |session, process, request| {
            let text = ("data", params.data.as_str());
            match convert::payload_or_text(params.payload.as_ref(), text, params.encoding.as_deref()) {
                Ok(bytes) => write_input(session, process, (bytes, params.eof), request),
                Err(error) => session.spawn(request.reject(error)),
            }
        });
    }))
}

/// Writes to a process. The first poll queues the input, so that pipelined input keeps its order.
pub(super) fn write_input(
    session: &Session,
    process: Process,
    (bytes, is_last): (bytes::Bytes, bool),
    request: AuthorizedRequest,
) {
    let over = session.over.clone();
    session.spawn(async move {
        let result = tokio::select! {
            biased;
            result = process.input(bytes, is_last) => result,
            // A process of another session may never read.
            () = over.cancelled() => Err(engine::Error::Gone),
        };
        let result = result.map(|accepted| v1::AcceptedResult { accepted_bytes: accepted as u64 });
        request.finish(result.map_err(rpc_error)).await;
    });
}

/// `exec.list`: every process of the user's daemons and keepers.
pub(crate) fn list(_: &Params<v1::ExecList>, _: &Context<'_>) -> PrepareResult {
    Ok(RexdPrepared::new(|session, request| {
        let (core, others) = (session.core.clone(), OtherDaemons::of(session));
        let (caller, roots) = (session.requester.caller.clone(), session.roots.clone());
        let frame = session.state.client.frame_bytes;
        session.spawn(async move {
            let attached = core.engine.processes().await;
            let detached = match &core.keepers {
                Some(keepers) => keepers.list().await,
                None => Vec::new(),
            };
            let attached =
                attached.iter().map(|process| (process.id(), process.description(), process.state()));
            let detached = detached.iter().map(|kept| (&kept.id, &kept.description, kept.facts.clone()));
            let visible =
                attached.chain(detached).filter(|(_, process, _)| may_see(&caller, &roots, process));
            let mut processes: Vec<v1::ListedProcess> =
                visible.map(|(id, process, facts)| listed(id, process, &facts)).collect();
            if let Some(others) = others {
                processes.extend(others.processes().await);
            }
            request.finish(Ok(list_result(processes, frame))).await;
        });
    }))
}

/// `exec.prune`: removes the logs of ended detached processes that were started through this face.
pub(crate) fn prune(_: &Params<v1::ExecPrune>, _: &Context<'_>) -> PrepareResult {
    Ok(RexdPrepared::new(|session, request| {
        let core = session.core.clone();
        let (caller, roots) = (session.requester.caller.clone(), session.roots.clone());
        session.spawn(async move {
            let Some(keepers) = &core.keepers else {
                return request.finish(Ok(v1::ExecPruneResult { removed: Vec::new() })).await;
            };
            let mut removed = Vec::new();
            for kept in keepers.list().await {
                let is_ours =
                    kept.description.origin == Rexd::NAME && may_see(&caller, &roots, &kept.description);
                if kept.facts.closed.is_none() || !is_ours {
                    continue;
                }
                match keepers.remove(&kept.id).await {
                    Ok(true) => removed.push(kept.id.0),
                    // Its keeper still writes the end, or another daemon has removed it.
                    Ok(false) | Err(engine::Error::NoSuchProcess(_)) => {}
                    Err(error) => return request.reject(rpc_error(error)).await,
                }
            }
            request.finish(Ok(v1::ExecPruneResult { removed })).await;
        });
    }))
}

/// The list, the oldest first. If it does not fit into a frame, command lines are shortened first, then processes are left
/// out: ended ones before running ones, older ones before newer ones.
fn list_result(mut processes: Vec<v1::ListedProcess>, frame: Option<usize>) -> v1::ExecListResult {
    let mut truncated = false;
    if let Some(frame) = frame {
        let fits = |processes: &[v1::ListedProcess]| {
            processes.iter().map(encoded_bytes).sum::<usize>() <= frame.saturating_sub(ENVELOPE_BYTES)
        };
        if !fits(&processes) {
            processes.iter_mut().for_each(shorten_argv);
        }
        processes.sort_by(|one, other| {
            let rank = |process: &v1::ListedProcess| process.exit_code.is_some() || process.signal.is_some();
            rank(one).cmp(&rank(other)).then_with(|| other.started_at.cmp(&one.started_at))
        });
        (processes, truncated) = fit(processes.into_iter(), Some(frame), encoded_bytes);
    }
    processes.sort_by(|one, other| one.started_at.cmp(&other.started_at));
    v1::ExecListResult { processes, truncated }
}

/// Shortens a command line to [`SHORT_ARGV`] characters.
fn shorten_argv(process: &mut v1::ListedProcess) {
    let mut left = SHORT_ARGV;
    let mut kept = Vec::new();
    for argument in &process.argv {
        let short: String = argument.chars().take(left).collect();
        left -= short.chars().count();
        let is_whole = short.len() == argument.len();
        if is_whole || !short.is_empty() {
            kept.push(short);
        }
        if !is_whole || left == 0 {
            break;
        }
    }
    process.argv_truncated = kept != process.argv;
    process.argv = kept;
}

fn wait_result(process: &Process) -> v1::ExecWaitResult {
    let facts = process.state();
    let exit = facts.closed.as_ref().map(|closed| closed.exit);
    // A detached process may have written more than was read here; its end has the total.
    let (stdout, stderr) = match &facts.closed {
        Some(closed) => (closed.stdout_bytes, closed.stderr_bytes),
        None => (facts.stdout_bytes, facts.stderr_bytes),
    };
    v1::ExecWaitResult {
        status: status(&facts).to_owned(),
        exit_code: exit.map(exit_code),
        signal: exit.and_then(exit_signal),
        bytes_stdout: stdout,
        bytes_stderr: stderr,
    }
}

fn listed(id: &ProcessId, description: &Description, facts: &ProcessState) -> v1::ListedProcess {
    let exit = facts.closed.as_ref().map(|closed| closed.exit);
    v1::ListedProcess {
        process_id: id.0.clone(),
        name: description.name.clone(),
        pty_id: description.has_terminal.then(|| pty_id(id)),
        argv: description.argv.clone(),
        cwd: description.cwd.to_string_lossy().into_owned(),
        pid: facts.pid.map(i64::from),
        status: status(facts).to_owned(),
        exit_code: exit.map(exit_code),
        signal: exit.and_then(exit_signal),
        started_at: timestamp(description.started_at),
        detached: description.is_detached,
        face: description.origin.to_string(),
        cursor: facts.end.0,
        argv_truncated: false,
    }
}

fn member(member: engine::process::TreeMember) -> v1::KilledProcess {
    v1::KilledProcess { pid: i64::from(member.pid), name: member.name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(number: usize, argument: &str, exit_code: Option<i64>) -> v1::ListedProcess {
        v1::ListedProcess {
            process_id: format!("p_{number:012x}"),
            name: None,
            pty_id: None,
            argv: vec!["sh".to_owned(), "-c".to_owned(), argument.to_owned(), "last".to_owned()],
            cwd: "/work".to_owned(),
            pid: Some(1),
            status: "running".to_owned(),
            exit_code,
            signal: None,
            started_at: format!("2026-01-01T00:00:00.{number:06}Z"),
            detached: true,
            face: "rexd".to_owned(),
            cursor: u64::MAX,
            argv_truncated: false,
        }
    }

    /// ARCHITECTURE.md, invariant 27.
    #[test]
    fn a_list_fits_into_a_frame_with_short_command_lines_first_and_fewer_processes_then() {
        let long = "\u{1}\"é".repeat(20_000);
        for (count, argument, frame, shortened, truncated) in [
            (3, long.as_str(), None, false, false),
            (3, "true", Some(16_384), false, false),
            (3, long.as_str(), Some(950_000), false, false),
            (3, long.as_str(), Some(100_000), true, false),
            (1000, long.as_str(), Some(950_000), true, true),
            (1000, "true", Some(16_384), true, true),
        ] {
            let even = |number: usize| number.is_multiple_of(2).then_some(0);
            let all = (0..count).map(|number| process(number, argument, even(number))).rev().collect();
            let result = list_result(all, frame);
            let case = (count, frame, argument.len());
            assert!(serde_json::to_string(&result).unwrap().len() <= frame.unwrap_or(usize::MAX), "{case:?}");
            assert_eq!(result.truncated, truncated, "{case:?}");
            assert_eq!(result.processes.len() < count, truncated, "{case:?}");
            assert!(result.processes.iter().all(|one| one.argv_truncated == (shortened && argument == long)));
            assert!(result.processes.is_sorted_by_key(|one| one.started_at.clone()), "{case:?}");
            let is_running = |one: &&v1::ListedProcess| one.exit_code.is_none();
            let running = result.processes.iter().filter(is_running).count();
            assert!(running == result.processes.len() || running == count / 2, "{case:?}: {running}");
        }
    }

    #[test]
    fn a_command_line_is_shortened_from_its_end_in_whole_characters() {
        let short = |argv: &[&str]| {
            let mut process = process(1, "", None);
            process.argv = argv.iter().map(|&argument| argument.to_owned()).collect();
            shorten_argv(&mut process);
            (process.argv, process.argv_truncated)
        };
        let long = "é".repeat(300);
        assert_eq!(short(&["a", "", "b"]), (vec!["a".to_owned(), String::new(), "b".to_owned()], false));
        assert_eq!(short(&["ab", &long, "c"]), (vec!["ab".to_owned(), "é".repeat(254)], true));
        assert_eq!(short(&[&"a".repeat(256), "b"]), (vec!["a".repeat(256)], true));
    }
}
