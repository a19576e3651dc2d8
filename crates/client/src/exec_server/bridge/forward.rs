//! Forwards the events of a process as REXD events, and enforces its limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::OptionFuture;
use link::Outgoing;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use wire::exec_server::v1::ExecOutputStream;
use wire::rexd::v1::{self, Encoding, OutputEvent, encode_event};

use super::processes::{BridgeProcess, ProcessEnd};
use super::{Bridge, BridgeFailure, lock};
use crate::exec_server::process::{ExecServerEvent, ExecServerProcess};

/// The limits that end a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessLimits {
    pub(super) time: Option<Duration>,
    pub(super) bytes: Option<u64>,
}

/// The task that forwards the events of one process. It may outlive the requests of the session.
pub(super) struct EventForwarder {
    record: Arc<BridgeProcess>,
    process: ExecServerProcess,
    limits: ProcessLimits,
    session_id: String,
    encoding: Encoding,
    outgoing: Outgoing,
    events: Arc<AtomicU64>,
    failure: watch::Sender<BridgeFailure>,
    seq: u64,
    code: Option<i32>,
    timed_out: bool,
    is_over_limit: bool,
}

impl EventForwarder {
    pub(super) fn new(
        bridge: &Bridge,
        record: Arc<BridgeProcess>,
        process: ExecServerProcess,
        limits: ProcessLimits,
    ) -> EventForwarder {
        EventForwarder {
            record,
            process,
            limits,
            session_id: bridge.session_id.clone(),
            encoding: *lock(&bridge.encoding),
            outgoing: bridge.outgoing.clone(),
            events: bridge.events.clone(),
            failure: bridge.failure.clone(),
            seq: 0,
            code: None,
            timed_out: false,
            is_over_limit: false,
        }
    }

    pub(super) async fn run(mut self) {
        let deadline = self.limits.time.map(|time| Instant::now() + time);
        loop {
            let deadline = deadline.filter(|_| !self.timed_out && self.code.is_none());
            tokio::select! {
                event = self.process.next() => match event {
                    Ok(Some(ExecServerEvent::Closed) | None) => break,
                    Ok(Some(event)) => self.forward(event).await,
                    Err(error) => {
                        let error = Arc::new(error);
                        self.failure.send_if_modified(|first| first.is_none() && first.replace(error).is_none());
                        return;
                    }
                },
                Some(()) = OptionFuture::from(deadline.map(sleep_until)) => {
                    self.timed_out = true;
                    self.process.terminate().await.ok();
                }
            }
        }
        self.finish().await;
    }

    async fn forward(&mut self, event: ExecServerEvent) {
        match event {
            ExecServerEvent::Output { stream, bytes } => self.output(stream, &bytes).await,
            ExecServerEvent::Exited { exit_code, .. } => self.code = Some(exit_code),
            ExecServerEvent::Lost { bytes } => {
                let lost = v1::ExecLost {
                    session_id: self.session_id.clone(),
                    process_id: self.record.id.clone(),
                    pty_id: self.record.is_terminal.then(|| self.record.id.clone()),
                    stream: None,
                    bytes: bytes.unwrap_or(0),
                    cursor: self.record.cursor(),
                    event_id: self.next_event_id(),
                };
                self.outgoing.event(encode_event(&lost).into()).await.ok();
            }
            ExecServerEvent::Closed => {}
        }
    }

    async fn output(&mut self, stream: ExecOutputStream, bytes: &[u8]) {
        let (method, counter) = match stream {
            ExecOutputStream::Stdout => ("exec.stdout", &self.record.stdout),
            ExecOutputStream::Stderr => ("exec.stderr", &self.record.stderr),
            ExecOutputStream::Pty => ("pty.output", &self.record.stdout),
        };
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.seq += 1;
        let event = OutputEvent {
            method,
            session_id: &self.session_id,
            process_id: &self.record.id,
            pty_id: self.record.is_terminal.then_some(self.record.id.as_str()),
            seq: self.seq,
            event_id: self.next_event_id(),
            cursor: Some(self.record.cursor()),
            bytes,
        };
        let line = event.encode(self.encoding);
        // Waiting here slows the process down when its output is not read.
        self.outgoing.event(line.into()).await.ok();
        if self.limits.bytes.is_some_and(|limit| self.record.cursor() > limit) && !self.is_over_limit {
            self.is_over_limit = true;
            self.process.terminate().await.ok();
        }
    }

    /// Sends the exit. It uses the queue of output events, so that no output follows it.
    async fn finish(self) {
        let code = i64::from(self.code.unwrap_or(-1));
        let (session_id, process_id) = (self.session_id.clone(), self.record.id.clone());
        let (cursor, event_id) = (Some(self.record.cursor()), self.next_event_id());
        let duration_ms = u64::try_from(self.record.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let line = match self.record.is_terminal {
            true => encode_event(&v1::PtyExit {
                pty_id: process_id.clone(),
                session_id,
                process_id,
                exit_code: code,
                timed_out: self.timed_out,
                duration_ms,
                event_id,
                cursor,
                ..v1::PtyExit::default()
            }),
            false => encode_event(&v1::ExecExit {
                session_id,
                process_id,
                exit_code: code,
                timed_out: self.timed_out,
                duration_ms,
                bytes_stdout: self.record.stdout.load(Ordering::Relaxed),
                bytes_stderr: self.record.stderr.load(Ordering::Relaxed),
                event_id,
                cursor,
                output_limit_exceeded: self.is_over_limit,
                ..v1::ExecExit::default()
            }),
        };
        self.record.end.send_replace(Some(ProcessEnd { code, timed_out: self.timed_out }));
        self.outgoing.event(line.into()).await.ok();
    }

    fn next_event_id(&self) -> u64 {
        self.events.fetch_add(1, Ordering::Relaxed) + 1
    }
}
