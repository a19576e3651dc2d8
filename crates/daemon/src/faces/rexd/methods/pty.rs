//! Terminals: opened at their size, typed into, resized and closed.

use engine::process::{Process, ProcessSpec, Signal, Stdin};
use tokio::time::Instant;
use wire::rexd::v1::{self, RpcError};

use super::super::FACE;
use super::super::answer::Answer;
use super::super::convert::{self, process_of_pty, pty_id, timestamp};
use super::super::errors::{pty_not_found, rpc_error};
use super::super::order::Turn;
use super::super::session::Session;
use super::detached::Detaching;
use super::exec::{follow, no_nul};
use super::launch::Saying;
use crate::observe::metrics::ProcessOwner;

impl Session {
    /// `pty.open`. Clients that lose early output get it a little later.
    pub(super) fn pty_open(&mut self, params: v1::PtyOpen, answer: Answer, turn: Turn) {
        let key = params.idempotency_key.clone();
        let Some((answer, kept)) = self.once(answer, key.as_deref(), &params) else { return };
        let spec = match self.pty_spec(&params) {
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
        let hold = self.manners.quirks.terminal_hold;
        self.spawn(async move {
            let result = |process: &Process| v1::PtyOpenResult {
                pty_id: pty_id(process.id()),
                process_id: process.id().0.clone(),
                started_at: Some(timestamp(process.description().started_at)),
            };
            let saying = if hold.is_some() { Saying::Written } else { Saying::Queued };
            if let Some(running) = launch.running(answer, turn, kept, result, saying).await {
                let counted = metrics.process_started(ProcessOwner::Attached);
                let not_before = hold.map(|hold| Instant::now() + hold);
                follow(&events, running, not_before, Some(counted)).await;
            }
        });
    }

    pub(super) fn pty_spec(&self, params: &v1::PtyOpen) -> Result<ProcessSpec, RpcError> {
        let program = convert::pty_program(params)?;
        no_nul(&program)?;
        let cwd = self.start_path(params.cwd.as_deref())?;
        let confined = self.confined(params.sandbox.as_deref(), params.detach)?;
        let size = convert::new_size(params.cols, params.rows)?;
        let asked = convert::optional_time("timeout_ms", params.timeout_ms)?;
        Ok(ProcessSpec {
            program,
            arg0: None,
            env: self.environment(&params.env, &cwd, (true, confined.temp.as_deref()))?,
            confinement: confined.confinement,
            cwd,
            terminal: Some(size),
            stdin: Stdin::Open,
            // A terminal runs until it is closed, unless its opener says otherwise.
            stop_after: self.limits.timeout_if_asked(asked),
            output_limit: None,
            origin: FACE.into(),
        })
    }

    /// `pty.input`.
    pub(super) fn pty_input(&self, params: v1::PtyInput, answer: Answer) {
        let key = params.idempotency_key.as_deref();
        let Some((answer, kept)) = self.once(answer, key, &params) else { return };
        let bytes = convert::data("data", &params.data, params.encoding.as_deref(), "encoding");
        match self.terminal(&params.pty_id).and_then(|process| Ok((process, bytes?))) {
            Ok((process, bytes)) => self.feed(process, (bytes, false), answer, kept),
            Err(error) => self.refuse(answer, error),
        }
    }

    /// `pty.resize`.
    pub(super) fn pty_resize(&self, params: v1::PtyResize, answer: Answer) {
        let size = convert::size(params.cols, params.rows);
        let (process, size) = match self.terminal(&params.pty_id).and_then(|process| Ok((process, size?))) {
            Ok(found) => found,
            Err(error) => return self.refuse(answer, error),
        };
        self.spawn(async move {
            let resized = process.resize(size).await.map(|()| v1::OkResult::DONE);
            answer.send(resized.map_err(rpc_error)).await;
        });
    }

    /// `pty.close`: ends the process too, unless only the hang-up is wanted.
    pub(super) fn pty_close(&self, params: v1::PtyClose, answer: Answer) {
        let process = match self.terminal(&params.pty_id) {
            Ok(process) => process,
            Err(error) => return self.refuse(answer, error),
        };
        let signal = if params.kill.unwrap_or(true) { Signal::KILL } else { Signal::HUP };
        self.spawn(async move {
            // A process that has ended already is closed as well.
            drop(process.kill(signal).await);
            answer.send(Ok(v1::OkResult::DONE)).await;
        });
    }

    /// The process behind a terminal of this session.
    fn terminal(&self, id: &str) -> Result<Process, RpcError> {
        let process = process_of_pty(id).and_then(|process| self.process(&process.0).ok());
        process.filter(|process| process.description().has_terminal).ok_or_else(|| pty_not_found(id))
    }
}
