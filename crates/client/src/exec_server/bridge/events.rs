//! Events: what happens to a process, as REXD tells it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use link::Outgoing;
use tokio::time::{Instant, sleep_until};
use wire::exec_server::v1::ExecOutputStream;
use wire::rexd::v1::{self, Encoding, OutputEvent, encode_event};

use super::processes::{End, Known};
use super::{Bridge, hold};
use crate::exec_server::process::{ExecServerEvent, ExecServerProcess};

/// What ends a process that goes too far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) time: Option<Duration>,
    pub(super) bytes: Option<u64>,
}

/// The task that tells about one process.
pub(super) struct Pump {
    known: Arc<Known>,
    process: ExecServerProcess,
    bounds: Bounds,
    bridge: Shared,
    seq: u64,
    code: Option<i32>,
    timed_out: bool,
    is_over_limit: bool,
}

/// What a pump needs of the bridge, which may end before it.
struct Shared {
    session_id: String,
    encoding: Encoding,
    outgoing: Outgoing,
    events: Arc<std::sync::atomic::AtomicU64>,
    fate: tokio::sync::watch::Sender<Option<String>>,
}

impl Pump {
    pub(super) fn new(
        bridge: &Bridge,
        known: Arc<Known>,
        process: ExecServerProcess,
        bounds: Bounds,
    ) -> Pump {
        let bridge = Shared {
            session_id: bridge.session_id.clone(),
            encoding: *hold(&bridge.encoding),
            outgoing: bridge.outgoing.clone(),
            events: bridge.events.clone(),
            fate: bridge.fate.clone(),
        };
        Pump { known, process, bounds, bridge, seq: 0, code: None, timed_out: false, is_over_limit: false }
    }

    pub(super) async fn run(mut self) {
        let ends_at = self.bounds.time.map(|time| Instant::now() + time);
        loop {
            let is_timed = ends_at.is_some() && !self.timed_out && self.code.is_none();
            tokio::select! {
                event = self.process.next() => match event {
                    Ok(Some(ExecServerEvent::Closed) | None) => break,
                    Ok(Some(event)) => self.tell(event).await,
                    Err(error) => {
                        self.bridge.fate.send_replace(Some(error.to_string()));
                        return;
                    }
                },
                () = sleep_until(ends_at.unwrap_or_else(Instant::now)), if is_timed => {
                    self.timed_out = true;
                    self.process.terminate().await.ok();
                }
            }
        }
        self.close().await;
    }

    async fn tell(&mut self, event: ExecServerEvent) {
        match event {
            ExecServerEvent::Output { stream, bytes } => self.output(stream, &bytes).await,
            ExecServerEvent::Exited { exit_code, .. } => self.code = Some(exit_code),
            ExecServerEvent::Lost { bytes } => {
                let lost = v1::ExecLost {
                    session_id: self.bridge.session_id.clone(),
                    process_id: self.known.id.clone(),
                    pty_id: self.known.is_terminal.then(|| self.known.id.clone()),
                    stream: None,
                    bytes: bytes.unwrap_or(0),
                    cursor: self.cursor(),
                    event_id: self.bridge.next_event(),
                };
                self.bridge.outgoing.event(encode_event(&lost).into()).await.ok();
            }
            ExecServerEvent::Closed => {}
        }
    }

    async fn output(&mut self, stream: ExecOutputStream, bytes: &[u8]) {
        let (method, counter) = match stream {
            ExecOutputStream::Stdout => ("exec.stdout", &self.known.stdout),
            ExecOutputStream::Stderr => ("exec.stderr", &self.known.stderr),
            ExecOutputStream::Pty => ("pty.output", &self.known.stdout),
        };
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.seq += 1;
        let mut line = Vec::new();
        let event = OutputEvent {
            method,
            session_id: &self.bridge.session_id,
            process_id: &self.known.id,
            pty_id: self.known.is_terminal.then_some(self.known.id.as_str()),
            seq: self.seq,
            event_id: self.bridge.next_event(),
            cursor: Some(self.cursor()),
            bytes,
        };
        event.encode(&mut line, self.bridge.encoding);
        // Waiting here is what slows the process down when nobody reads.
        self.bridge.outgoing.event(line.into()).await.ok();
        if self.bounds.bytes.is_some_and(|most| self.cursor() > most) && !self.is_over_limit {
            self.is_over_limit = true;
            self.process.terminate().await.ok();
        }
    }

    fn cursor(&self) -> u64 {
        self.known.stdout.load(Ordering::Relaxed) + self.known.stderr.load(Ordering::Relaxed)
    }

    /// The last event. It goes the way of output, so that nothing comes after it.
    async fn close(self) {
        let code = i64::from(self.code.unwrap_or(-1));
        let end = End { code, timed_out: self.timed_out };
        let (session_id, process_id) = (self.bridge.session_id.clone(), self.known.id.clone());
        let (cursor, event_id) = (Some(self.cursor()), self.bridge.next_event());
        let duration_ms = u64::try_from(self.known.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let line = match self.known.is_terminal {
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
                bytes_stdout: self.known.stdout.load(Ordering::Relaxed),
                bytes_stderr: self.known.stderr.load(Ordering::Relaxed),
                event_id,
                cursor,
                output_limit_exceeded: self.is_over_limit,
                ..v1::ExecExit::default()
            }),
        };
        self.known.end.send_replace(Some(end));
        self.bridge.outgoing.event(line.into()).await.ok();
    }
}

impl Shared {
    fn next_event(&self) -> u64 {
        self.events.fetch_add(1, Ordering::Relaxed) + 1
    }
}
