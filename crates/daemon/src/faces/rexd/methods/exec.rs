//! Commands: started, fed, waited for, ended and listed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use engine::files::RootedPath;
use engine::process::{
    Description, LogReader, PendingStart, Process, ProcessId, ProcessSpec, ProcessState, Program,
};
use tokio::time::Instant;
use wire::rexd::v1::{self, RpcError, encode_event};

use super::super::FACE;
use super::super::answer::Answer;
use super::super::call::Call;
use super::super::confining::{Confined, Refused};
use super::super::convert::{self, exit_code, exit_signal, pty_id, status, timestamp};
use super::super::errors::{invalid, rpc_error};
use super::super::events::{EventOrder, Events, Follow};
use super::super::keys::Kept;
use super::super::order::Turn;
use super::super::session::Session;
use super::attach::may_see;
use super::detached::Detaching;
use super::launch::{Saying, remember};
use crate::config::OFF;
use crate::observe::metrics::{ProcessGauge, ProcessOwner};

impl Session {
    /// `exec.start`: answered when the program runs or could not be started.
    pub(super) fn exec_start(&mut self, params: v1::ExecStart, answer: Answer, turn: Turn) {
        let key = params.idempotency_key.clone();
        let Some((answer, kept)) = self.once(answer, key.as_deref(), &params) else { return };
        let spec = match self.exec_spec(&params) {
            Ok(spec) if params.detach => {
                return self.start_detached(spec, Detaching { answer, turn, key: kept });
            }
            spec => spec,
        };
        let starting = match spec.and_then(|spec| self.begin(spec)) {
            Ok(starting) => starting,
            Err(error) => return self.refuse(answer, error),
        };
        let launch = self.launch(starting);
        let (events, metrics) = (self.events(), self.service.metrics.clone());
        self.spawn(async move {
            let result = |process: &Process| v1::ExecStartResult {
                process_id: process.id().0.clone(),
                started_at: timestamp(process.description().started_at),
            };
            if let Some(running) = launch.running(answer, turn, kept, result, Saying::Queued).await {
                let counted = metrics.process_started(ProcessOwner::Attached);
                follow(&events, running, None, Some(counted)).await;
            }
        });
    }

    fn exec_spec(&self, params: &v1::ExecStart) -> Result<ProcessSpec, RpcError> {
        let program = convert::exec_program(params)?;
        no_nul(&program)?;
        let cwd = self.start_path(params.cwd.as_deref())?;
        let confined = self.confined(params.sandbox.as_deref(), params.detach)?;
        let stdin = convert::stdin(
            params.stdin.as_deref(),
            params.stdin_encoding.as_deref(),
            self.limits.stdin_start_bytes,
        )?;
        let asked = convert::optional_time("timeout_ms", params.timeout_ms)?;
        Ok(ProcessSpec {
            program,
            arg0: None,
            env: self.environment(&params.env, &cwd, (false, confined.temp.as_deref()))?,
            confinement: confined.confinement,
            cwd,
            terminal: None,
            stdin,
            stop_after: match params.detach {
                true => self.limits.timeout_if_asked(asked),
                false => self.limits.timeout(asked),
            },
            output_limit: match (params.detach, params.max_output_bytes) {
                // Its log has a quota of its own.
                (true, None | Some(0)) => None,
                (_, asked) => convert::output_limit(&self.limits, asked)?,
            },
            origin: FACE.into(),
        })
    }

    /// Whether a command can be started as it was asked for, before somebody is asked about it.
    pub(in super::super) fn check(&self, call: &Call) -> Result<(), RpcError> {
        match call {
            // As if it were attached: nothing that outlives the session is made for it yet.
            Call::ExecStart(params) => {
                self.exec_spec(&v1::ExecStart { detach: false, ..params.clone() }).map(drop)
            }
            Call::PtyOpen(params) => {
                self.pty_spec(&v1::PtyOpen { detach: false, ..params.clone() }).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// What confines a process that asks for this profile.
    pub(super) fn confined(&self, wish: Option<&str>, is_detached: bool) -> Result<Confined, RpcError> {
        let runtime_policy = self.service.runtime_policy.current();
        let wish = wish.filter(|wish| *wish != OFF);
        self.confining.of_process(&runtime_policy, wish, is_detached).map_err(|refused| match refused {
            Refused::Unknown(unknown) => invalid("sandbox", &unknown.to_string()),
            Refused::Failed(error) => rpc_error(error),
        })
    }

    /// What a command inherits, with what the request sets or takes away.
    pub(super) fn environment(
        &self,
        asked: &BTreeMap<String, Option<String>>,
        cwd: &RootedPath,
        (has_terminal, temp): (bool, Option<&Path>),
    ) -> Result<Vec<(OsString, OsString)>, RpcError> {
        if let Some(name) = asked.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(invalid(&format!("env.{name}"), "no variable can have this name"));
        }
        if let Some((name, _)) =
            asked.iter().find(|(_, value)| value.as_ref().is_some_and(|value| value.contains('\0')))
        {
            return Err(invalid(&format!("env.{name}"), "a value cannot contain NUL"));
        }
        let runtime_policy = self.service.runtime_policy.current();
        let inherited = runtime_policy.environment.iter().cloned();
        let mut env = if asked.is_empty() {
            inherited.collect()
        } else {
            runtime_policy.policy.environment().apply(inherited, asked)
        };
        if !asked.contains_key("PWD") {
            env.retain(|(name, _)| name != "PWD");
            env.push(("PWD".into(), cwd.as_path().into()));
        }
        if let Some(temp) = temp.filter(|_| !asked.contains_key("TMPDIR")) {
            env.retain(|(name, _)| name != "TMPDIR");
            env.push(("TMPDIR".into(), temp.into()));
        }
        if has_terminal && !env.iter().any(|(name, _)| name == "TERM") {
            env.push(("TERM".into(), "xterm-256color".into()));
        }
        Ok(env)
    }

    /// Registers a process and begins to start it, if the session may have another one.
    pub(super) fn begin(&mut self, spec: ProcessSpec) -> Result<PendingStart, RpcError> {
        let limit = self.limits.max_processes_per_session;
        if !self.engine.has_capacity(limit) {
            let error = engine::Error::LimitReached { what: "processes per session", limit: limit as u64 };
            return Err(rpc_error(error));
        }
        self.engine.start(spec).map_err(rpc_error)
    }

    /// `exec.wait`: passes everything else by, and may be cancelled.
    pub(super) fn exec_wait(&self, params: v1::ExecWait, answer: Answer) {
        let (process, limit) = match self
            .process(&params.process_id)
            .and_then(|process| Ok((process, self.wait_limit(params.timeout_ms)?)))
        {
            Ok(found) => found,
            Err(error) => return self.refuse(answer, error),
        };
        let (cancel, over) = (answer.cancel.clone(), self.over.clone());
        self.spawn(async move {
            let wait = async {
                match limit {
                    Some(limit) => drop(tokio::time::timeout(limit, process.closed()).await),
                    None => drop(process.closed().await),
                }
            };
            tokio::select! {
                biased;
                () = wait => answer.send(Ok(waited(&process))).await,
                () = cancel.cancelled() => answer.send(Err::<(), _>(RpcError::cancelled())).await,
                // What the session does not own may run on for ever.
                () = over.cancelled() => answer.send(Ok(waited(&process))).await,
            }
        });
    }

    /// How long to wait: nothing asked means until the end, within the ceiling; 0 means not at all.
    fn wait_limit(&self, asked: Option<i64>) -> Result<Option<Duration>, RpcError> {
        match asked {
            None => Ok(self.limits.hard_timeout),
            Some(0) => Ok(Some(Duration::ZERO)),
            Some(asked) => convert::optional_time("timeout_ms", Some(asked)),
        }
    }

    /// `exec.kill`: answered when the tree is empty, saying who died.
    pub(super) fn exec_kill(&self, params: v1::ExecKill, answer: Answer) {
        let (process, signal) = match self
            .process(&params.process_id)
            .and_then(|process| Ok((process, convert::signal(params.signal.as_ref())?)))
        {
            Ok(found) => found,
            Err(error) => return self.refuse(answer, error),
        };
        self.spawn(async move {
            let result = match process.kill(signal).await {
                Ok(ended) => Ok(v1::ExecKillResult {
                    ok: !signal.ends() || ended.remaining.is_empty(),
                    killed: ended.killed.into_iter().map(member).collect(),
                    left: ended.remaining.into_iter().map(member).collect(),
                }),
                // It ended before: there was nothing left to kill.
                Err(engine::Error::Gone) => {
                    Ok(v1::ExecKillResult { ok: false, killed: Vec::new(), left: Vec::new() })
                }
                // A keeper that does not answer: nobody knows what is left.
                Err(error) => Err(rpc_error(error)),
            };
            answer.send(result).await;
        });
    }

    /// `exec.input`.
    pub(super) fn exec_input(&self, params: v1::ExecInput, answer: Answer) {
        let key = params.idempotency_key.as_deref();
        let Some((answer, kept)) = self.once(answer, key, &params) else { return };
        let bytes = convert::data("data", &params.data, params.encoding.as_deref(), "encoding");
        match self.process(&params.process_id).and_then(|process| Ok((process, bytes?))) {
            Ok((process, bytes)) => self.feed(process, (bytes, params.eof), answer, kept),
            Err(error) => self.refuse(answer, error),
        }
    }

    /// Gives a process input. The first poll queues it, so that pipelined input keeps its order.
    pub(super) fn feed(
        &self,
        process: Process,
        (bytes, is_last): (bytes::Bytes, bool),
        answer: Answer,
        kept: Option<Kept>,
    ) {
        let over = self.over.clone();
        self.spawn(async move {
            let result = tokio::select! {
                biased;
                result = process.input(bytes, is_last) => result,
                // What the session does not own may never read.
                () = over.cancelled() => Err(engine::Error::Gone),
            };
            let result = result.map(|accepted| v1::AcceptedResult { accepted_bytes: accepted as u64 });
            let result = result.map_err(rpc_error);
            remember(kept, &result);
            answer.send(result).await;
        });
    }

    /// `exec.list`: every process of this daemon, and those that keepers have.
    pub(super) fn exec_list(&self, answer: Answer) {
        let (engine, keepers) = (self.service.engine.clone(), self.service.keepers.clone());
        let (caller, roots) = (self.asker.caller.clone(), self.roots.clone());
        self.spawn(async move {
            let here = engine.processes().await;
            let kept = match &keepers {
                Some(keepers) => keepers.list().await,
                None => Vec::new(),
            };
            let here = here.iter().map(|process| (process.id(), process.description(), process.state()));
            let kept = kept.iter().map(|kept| (&kept.id, &kept.description, kept.facts.clone()));
            let visible = here.chain(kept).filter(|(_, process, _)| may_see(&caller, &roots, process));
            let mut processes: Vec<v1::ListedProcess> =
                visible.map(|(id, process, facts)| listed(id, process, &facts)).collect();
            processes.sort_by(|one, other| one.started_at.cmp(&other.started_at));
            answer.send(Ok(v1::ExecListResult { processes })).await;
        });
    }
}

/// An argument with a NUL inside would reach the program as a shorter one.
pub(super) fn no_nul(program: &Program) -> Result<(), RpcError> {
    match program.argv().iter().any(|argument| argument.contains('\0')) {
        true => Err(invalid("argv", "an argument cannot contain NUL")),
        false => Ok(()),
    }
}

/// Lets a session's events tell of a process.
pub(super) async fn follow(
    events: &Events,
    (process, reader): (Process, LogReader),
    not_before: Option<Instant>,
    counted: Option<ProcessGauge>,
) {
    let order = EventOrder::Follow(Box::new(Follow { process, reader, not_before, counted }));
    // A session that is gone tells nothing any more.
    events.send(order).await.ok();
}

/// Tells of a process that never ran.
pub(super) async fn tell_failure(events: &Events, session_id: String, process_id: String, error: RpcError) {
    let encode = move |event_id| {
        let RpcError { code, message, data } = error;
        encode_event(&v1::ExecError { session_id, process_id, code, message, data, event_id })
    };
    events.send(EventOrder::Tell(Box::new(encode))).await.ok();
}

fn waited(process: &Process) -> v1::ExecWaitResult {
    let facts = process.state();
    let exit = facts.closed.as_ref().map(|closed| closed.exit);
    // A process that somebody else keeps may have written more than was read here; its end tells all of it.
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
    }
}

fn member(member: engine::process::TreeMember) -> v1::KilledProcess {
    v1::KilledProcess { pid: i64::from(member.pid), name: member.name }
}
