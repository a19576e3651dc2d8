//! Processes: started, interrupted, ended.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use engine::process::{Cursor, ProcessSpec, Signal};
use futures_util::FutureExt as _;
use serde::Serialize;
use wire::exec_server::{ErrorObject, v0, v1};

use super::answer::Answer;
use super::convert;
use super::errors::{failed, not_started};
use super::numbers::Numbers;
use super::pump::{Pump, Words};
use super::session::{Managed, Session};
use super::writes::WriteIds;
use crate::observe::metrics::ProcessOwner;

/// How much of what was told is kept so that it can be told again: more than can be on its way to a client.
const KEPT_BYTES: u64 = 6 * 1024 * 1024;

/// What is to be started, in whichever words it was asked for.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) params: v1::ExecParams,
    pub(super) words: Words,
    /// Where, as a path of this machine.
    pub(super) cwd: PathBuf,
}

impl Session {
    /// `process/start`.
    pub(super) fn start(&mut self, params: v1::ExecParams, answer: Answer) {
        self.begin(params, Words::V1, answer);
    }

    /// `command/exec`: its environment is what it says, and without a terminal it reads nothing.
    pub(super) fn start_v0(&mut self, params: v0::ExecParams, answer: Answer) {
        let v0::ExecParams { process_id, argv, cwd, env, tty, arg0, output_bytes_cap: _ } = params;
        let params = v1::ExecParams { process_id, argv, cwd, env, tty, arg0, ..v1::ExecParams::default() };
        self.begin(params, Words::V0, answer);
    }

    fn begin(&mut self, params: v1::ExecParams, words: Words, answer: Answer) {
        match self.check(params, words) {
            Ok(start) => self.judge(start, answer),
            Err(error) => self.reply(answer, Err::<(), _>(error)),
        }
    }

    fn check(&mut self, params: v1::ExecParams, words: Words) -> Result<Start, ErrorObject> {
        let id = &params.process_id;
        if params.argv.is_empty() {
            return Err(ErrorObject::invalid_params("argv must not be empty"));
        }
        let cwd = super::paths::native(&params.cwd)?;
        if self.asked.contains_key(id) || self.is_taken(&params) {
            return Err(ErrorObject::invalid_request(format!("process {id:?} already exists")));
        }
        Ok(Start { params, words, cwd })
    }

    /// Whether the id of a start belongs to another process. Clients draw ids by lot and give them back when a process is
    /// over, so one that is over makes way; not for the same command, which is its own start asked for again.
    pub(super) fn is_taken(&mut self, params: &v1::ExecParams) -> bool {
        let mark = mark(params);
        self.managed(&params.process_id)
            .is_some_and(|managed| managed.mark == mark || managed.numbers.state().closed_at.is_none())
    }

    /// Starts what may be started. From now on it is known by its id.
    pub(super) fn launch(&mut self, start: Start, answer: Answer) {
        match self.launched(&start) {
            Ok((pump, starting)) => {
                let counted = self.service.metrics.process_started(ProcessOwner::Attached);
                let sandbox_type = convert::sandbox_type(starting.1);
                let response = Started::new(&start, sandbox_type);
                self.tasks.spawn(async move {
                    match starting.0.running().await {
                        Ok(process) => {
                            pump.numbers.running();
                            answer.send(Ok::<_, ErrorObject>(response)).await;
                            pump.run().await;
                            if let Some(closed) = process.state().closed {
                                counted.ended(closed.cause);
                            }
                        }
                        Err(error) => {
                            pump.numbers.never_ran();
                            answer.send(Err::<(), _>(not_started(error))).await;
                        }
                    }
                });
            }
            Err(error) => self.reply(answer, Err::<(), _>(error)),
        }
    }

    fn launched(
        &mut self,
        start: &Start,
    ) -> Result<(Pump, (engine::process::PendingStart, bool)), ErrorObject> {
        let spec = self.spec(start)?;
        let (is_confined, takes_input) =
            (spec.confinement.is_some(), start.params.tty || start.params.pipe_stdin);
        let starting = self.engine()?.start(spec).map_err(failed)?;
        let process = starting.process().clone();
        // Before the program runs: what it writes while its start is still being answered is kept for it.
        let reader = process.primary_reader_retaining(Cursor(0), KEPT_BYTES);
        let numbers = Arc::new(Numbers::new());
        let id = start.params.process_id.clone();
        let managed = Managed {
            process: process.clone(),
            numbers: numbers.clone(),
            words: start.words,
            takes_input,
            write_ids: WriteIds::default(),
            mark: mark(&start.params),
        };
        self.know(id.clone(), managed);
        let pump = Pump {
            service: self.service.clone(),
            asker: self.asker.clone(),
            id,
            words: start.words,
            process,
            reader,
            numbers,
            listener: self.listener(),
            has_changed: false,
        };
        Ok((pump, (starting, is_confined)))
    }

    fn spec(&mut self, start: &Start) -> Result<ProcessSpec, ErrorObject> {
        let runtime_policy = self.service.runtime_policy.current();
        let confined = self.confined(&runtime_policy, start)?;
        let temp = confined.temp.as_deref();
        let prescribed = &runtime_policy.policy.environment().set;
        let env = convert::environment(&start.params, (&runtime_policy.environment, prescribed), temp);
        let cwd = self.start_path(&runtime_policy, &start.cwd)?;
        Ok(convert::spec(start, (cwd, env), confined.confinement))
    }

    /// `process/terminate`: answered when nothing is left of it.
    pub(super) fn terminate(&mut self, params: v1::TerminateParams, answer: Answer) {
        self.end(&params.process_id, Words::V1, answer);
    }

    /// `command/exec/terminate`.
    pub(super) fn terminate_v0(&mut self, params: v0::TerminateParams, answer: Answer) {
        self.end(&params.process_id, Words::V0, answer);
    }

    fn end(&mut self, id: &str, words: Words, answer: Answer) {
        if let Some(cancel) = self.asked.remove(id) {
            cancel.cancel();
        }
        let managed = self.managed(id).filter(|managed| managed.words == words);
        let is_running = |managed: &&mut Managed| managed.process.state().exited.is_none();
        let Some(process) = managed.filter(is_running).map(|managed| managed.process.clone()) else {
            return self.reply(answer, Ok(v1::TerminateResponse { running: false }));
        };
        self.spawn(async move {
            // It may have ended by itself in this very moment.
            let ended = process.kill(Signal::KILL).await;
            answer.send(Ok::<_, ErrorObject>(v1::TerminateResponse { running: ended.is_ok() })).await;
        });
    }

    /// `process/signal`: of one that is gone nobody wants to know.
    pub(super) fn signal(&mut self, params: v1::SignalParams, answer: Answer) {
        let v1::ProcessSignal::Interrupt = params.signal;
        let Some(process) = self.managed(&params.process_id).map(|managed| managed.process.clone()) else {
            return self.reply(answer, Ok(v1::Done {}));
        };
        self.spawn(async move {
            let _sent = process.kill(Signal::INT).await;
            answer.send(Ok::<_, ErrorObject>(v1::Done {})).await;
        });
    }

    /// Goes on with a piece of work: here if it is done at once, else in a task. What it waits for first it waits for
    /// in the order of requests.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(work);
        if work.as_mut().now_or_never().is_none() {
            self.tasks.spawn(work);
        }
    }

    /// Answers with what is at hand.
    pub(super) fn reply<T: Serialize + Send + 'static>(
        &self,
        answer: Answer,
        result: Result<T, ErrorObject>,
    ) {
        self.spawn(answer.send(result));
    }
}

/// What a start is answered with.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Started {
    V0(v0::ExecResponse),
    V1(v1::ExecResponse),
}

impl Started {
    fn new(start: &Start, sandbox_type: &str) -> Started {
        let process_id = start.params.process_id.clone();
        match start.words {
            Words::V0 => Started::V0(v0::ExecResponse {
                process_id,
                running: true,
                exit_code: None,
                stdout: None,
                stderr: None,
            }),
            Words::V1 => {
                Started::V1(v1::ExecResponse { process_id, sandbox_type: Some(sandbox_type.to_owned()) })
            }
        }
    }
}

/// What tells one start from another.
fn mark(params: &v1::ExecParams) -> u64 {
    let v1::ExecParams { argv, cwd, env, tty, pipe_stdin, arg0, .. } = params;
    let mut hasher = DefaultHasher::new();
    (argv, cwd, env, tty, pipe_stdin, arg0).hash(&mut hasher);
    hasher.finish()
}
