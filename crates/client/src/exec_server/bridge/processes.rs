//! The processes of the session: their state, input and signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use link::rpc::Request;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wire::exec_server::ByteChunk;
use wire::exec_server::v1::{ProcessSignal, SignalParams, TerminateParams, WriteParams, WriteStatus};
use wire::rexd::v1::{self, RpcError, Signal};

use super::{Bridge, errors, lock};

/// Time limit for the exit of a process that was terminated.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Ctrl-C as typed into a terminal.
const INTERRUPT: &[u8] = &[3];

/// A process that the session started.
#[derive(Debug)]
pub(super) struct BridgeProcess {
    pub(super) id: String,
    pub(super) argv: Vec<String>,
    pub(super) cwd: String,
    pub(super) is_terminal: bool,
    /// Whether its input is open.
    pub(super) has_input: bool,
    pub(super) started_at: String,
    pub(super) since: Instant,
    pub(super) stdout: AtomicU64,
    pub(super) stderr: AtomicU64,
    pub(super) end: watch::Sender<Option<ProcessEnd>>,
}

/// The exit of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessEnd {
    pub(super) code: i64,
    pub(super) timed_out: bool,
}

impl BridgeProcess {
    pub(super) fn new(
        id: &str,
        argv: Vec<String>,
        cwd: String,
        (is_terminal, has_input): (bool, bool),
    ) -> BridgeProcess {
        BridgeProcess {
            id: id.to_owned(),
            argv,
            cwd,
            is_terminal,
            has_input,
            started_at: jiff::Timestamp::now().to_string(),
            since: Instant::now(),
            stdout: AtomicU64::new(0),
            stderr: AtomicU64::new(0),
            end: watch::channel(None).0,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.end.borrow().is_none()
    }

    /// The bytes of output so far.
    pub(super) fn cursor(&self) -> u64 {
        self.stdout.load(Ordering::Relaxed) + self.stderr.load(Ordering::Relaxed)
    }

    /// Waits for the exit, at most this long.
    async fn wait(&self, timeout: Duration) -> Option<ProcessEnd> {
        let mut end = self.end.subscribe();
        let ended = tokio::time::timeout(timeout, end.wait_for(Option::is_some)).await;
        ended.ok().and_then(|end| end.ok().and_then(|end| *end))
    }

    fn status(&self) -> &'static str {
        match *self.end.borrow() {
            None => "running",
            Some(ProcessEnd { timed_out: true, .. }) => "timed_out",
            Some(_) => "exited",
        }
    }

    fn to_listed(&self) -> v1::ListedProcess {
        v1::ListedProcess {
            process_id: self.id.clone(),
            name: None,
            pty_id: self.is_terminal.then(|| self.id.clone()),
            argv: self.argv.clone(),
            cwd: self.cwd.clone(),
            pid: None,
            status: self.status().to_owned(),
            exit_code: self.end.borrow().map(|end| end.code),
            signal: None,
            started_at: self.started_at.clone(),
            detached: false,
            face: "codex".to_owned(),
            cursor: self.cursor(),
            argv_truncated: false,
        }
    }
}

impl Bridge {
    pub(super) fn process(&self, id: &str) -> Result<Arc<BridgeProcess>, RpcError> {
        lock(&self.processes).get(id).cloned().ok_or_else(|| errors::process_not_found(id))
    }

    pub(super) fn exec_list(&self, _params: v1::ExecList) -> Result<v1::ExecListResult, RpcError> {
        let mut processes =
            lock(&self.processes).values().map(|process| process.to_listed()).collect::<Vec<_>>();
        processes.sort_by(|one, other| one.started_at.cmp(&other.started_at));
        Ok(v1::ExecListResult { processes, truncated: false })
    }

    pub(super) async fn exec_wait(&self, params: v1::ExecWait) -> Result<v1::ExecWaitResult, RpcError> {
        let process = self.process(&params.process_id)?;
        let timeout = params.timeout_ms.and_then(|time| u64::try_from(time).ok()).map(Duration::from_millis);
        let end = process.wait(timeout.unwrap_or(Duration::MAX)).await;
        Ok(v1::ExecWaitResult {
            status: process.status().to_owned(),
            exit_code: end.map(|end| end.code),
            signal: None,
            bytes_stdout: process.stdout.load(Ordering::Relaxed),
            bytes_stderr: process.stderr.load(Ordering::Relaxed),
        })
    }

    pub(super) async fn exec_kill(&self, params: v1::ExecKill) -> Result<v1::ExecKillResult, RpcError> {
        let process = self.process(&params.process_id)?;
        let ok = match signal_name(params.signal.as_ref()).as_str() {
            "TERM" | "KILL" => self.terminate(&process).await?,
            "INT" => self.interrupt(&process).await?,
            other => {
                let reason = "an exec-server has only INT and KILL";
                return Err(errors::unsupported(&format!("the signal {other}"), reason));
            }
        };
        // An exec-server reports no process of the tree.
        Ok(v1::ExecKillResult { ok, killed: Vec::new(), left: Vec::new(), incomplete: true })
    }

    async fn terminate(&self, process: &BridgeProcess) -> Result<bool, RpcError> {
        let params = TerminateParams { process_id: process.id.clone() };
        let response = self.client.terminate(params).await.map_err(|error| self.translate(error))?;
        process.wait(EXIT_TIMEOUT).await;
        Ok(response.running)
    }

    async fn interrupt(&self, process: &BridgeProcess) -> Result<bool, RpcError> {
        let process_id = process.id.clone();
        let done = match process.is_terminal {
            true => {
                let chunk = ByteChunk::from(INTERRUPT.to_vec());
                self.client.write(WriteParams { process_id, chunk, write_id: None }).await.map(drop)
            }
            false => self.client.signal(SignalParams { process_id, signal: ProcessSignal::Interrupt }).await,
        };
        done.map_err(|error| self.translate(error))?;
        Ok(process.is_running())
    }

    /// Ends all processes of the session.
    pub(super) async fn end_all(&self) {
        let running =
            || lock(&self.processes).values().filter(|process| process.is_running()).cloned().collect();
        let running: Vec<Arc<BridgeProcess>> = running();
        let ends = running.iter().map(|process| self.terminate(process));
        // The server ends the remaining processes when the session is not resumed.
        tokio::time::timeout(EXIT_TIMEOUT, futures_util::future::join_all(ends)).await.ok();
    }

    /// Changes nothing: exec-server cannot resize a terminal.
    pub(super) fn pty_resize(&self, params: &v1::PtyResize) -> Result<v1::OkResult, RpcError> {
        self.process(&params.pty_id)?;
        Ok(v1::OkResult { ok: false })
    }

    pub(super) async fn pty_close(&self, params: v1::PtyClose) -> Result<v1::OkResult, RpcError> {
        let process = self.process(&params.pty_id)?;
        if params.kill == Some(false) {
            return Err(errors::unsupported(
                "kill: false",
                "the processes of an exec-server end with its session",
            ));
        }
        Ok(v1::OkResult { ok: self.terminate(&process).await? })
    }

    /// Queues input for a process; returns the future of its result.
    async fn queue_input(
        &self,
        id: &str,
        (data, encoding): (String, Option<String>),
        eof: bool,
    ) -> Result<impl Future<Output = Result<v1::AcceptedResult, RpcError>> + use<>, RpcError> {
        let process = self.process(id)?;
        let bytes = match encoding.as_deref() {
            None | Some("utf8") => data.into_bytes(),
            Some("base64") => {
                wire::base64::decode(&data).map_err(|_| errors::invalid_field("data", "invalid base64"))?
            }
            Some(_) => return Err(errors::invalid_field("encoding", "expected utf8 or base64")),
        };
        let accepted_bytes = bytes.len() as u64;
        let mut pending = None;
        if !bytes.is_empty() {
            let (process_id, chunk) = (process.id.clone(), ByteChunk::from(bytes));
            let params = WriteParams { process_id, chunk, write_id: None };
            pending = Some(self.client.send_write(params).await.map_err(|error| self.translate(error))?);
        }
        Ok(async move {
            if let Some(pending) = pending {
                match pending.wait().await.map_err(|error| errors::rpc_error(&error))?.status {
                    WriteStatus::Accepted => {}
                    WriteStatus::UnknownProcess => return Err(errors::process_not_found(&process.id)),
                    WriteStatus::StdinClosed | WriteStatus::Starting => {
                        return Err(RpcError::invalid_params("the input of the process is closed"));
                    }
                }
            }
            match eof && process.has_input && process.is_running() {
                true => Err(errors::unsupported(
                    "closing the input",
                    "exec-server has no method for it; a command that reads to the end of its input keeps waiting",
                )),
                false => Ok(v1::AcceptedResult { accepted_bytes }),
            }
        })
    }
}

/// Whether a method writes input.
pub(super) fn is_input(method: &str) -> bool {
    matches!(method, "exec.input" | "pty.input")
}

/// Queues the input of a request; a task sends the response.
pub(super) async fn input(bridge: &Bridge, request: Request, running: &mut JoinSet<()>) {
    let input = match request.method.as_str() {
        "exec.input" => request
            .params
            .decode()
            .map(|params: v1::ExecInput| (params.process_id, (params.data, params.encoding), params.eof)),
        _ => request
            .params
            .decode()
            .map(|params: v1::PtyInput| (params.pty_id, (params.data, params.encoding), false)),
    };
    let queued = match input {
        Ok((id, data, eof)) => bridge.queue_input(&id, data, eof).await,
        Err(error) => Err(error),
    };
    match queued {
        Ok(result) => drop(running.spawn(async move { request.reply.send(result.await).await })),
        Err(error) => request.reply.error(error).await,
    }
}

/// The name of a signal without `SIG`; `TERM` by default.
fn signal_name(signal: Option<&Signal>) -> String {
    match signal {
        None => "TERM".to_owned(),
        Some(Signal::Number(number)) => match number {
            2 => "INT".to_owned(),
            9 => "KILL".to_owned(),
            15 => "TERM".to_owned(),
            number => number.to_string(),
        },
        Some(Signal::Name(name)) => {
            let name = name.to_ascii_uppercase();
            match name.parse() {
                Ok(number) => signal_name(Some(&Signal::Number(number))),
                Err(_) => name.strip_prefix("SIG").unwrap_or(&name).to_owned(),
            }
        }
    }
}
