//! Processes of the session: what is known of them, their input and their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use link::rpc::Request;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wire::exec_server::ByteChunk;
use wire::exec_server::v1::{ProcessSignal, SignalParams, TerminateParams, WriteParams, WriteStatus};
use wire::rexd::v1::{self, RpcError, Signal};

use super::{Bridge, hold, refusal};

/// How long the end of a process is waited for after it was asked for.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Ctrl-C, as a terminal hears it.
const INTERRUPT: &[u8] = &[3];

/// What is known of a process.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) id: String,
    pub(super) argv: Vec<String>,
    pub(super) cwd: String,
    pub(super) is_terminal: bool,
    /// Whether it can be written to; if not, its input has ended already.
    pub(super) has_input: bool,
    pub(super) started_at: String,
    pub(super) since: Instant,
    pub(super) stdout: AtomicU64,
    pub(super) stderr: AtomicU64,
    pub(super) end: watch::Sender<Option<End>>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) code: i64,
    pub(super) timed_out: bool,
}

impl Known {
    pub(super) fn new(
        id: &str,
        argv: Vec<String>,
        cwd: String,
        (is_terminal, has_input): (bool, bool),
    ) -> Known {
        Known {
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

    async fn ended(&self, within: Duration) -> Option<End> {
        let mut end = self.end.subscribe();
        let ended = tokio::time::timeout(within, end.wait_for(Option::is_some)).await;
        ended.ok().and_then(|end| end.ok().and_then(|end| *end))
    }

    fn status(&self) -> &'static str {
        match *self.end.borrow() {
            None => "running",
            Some(End { timed_out: true, .. }) => "timed_out",
            Some(_) => "exited",
        }
    }

    fn listed(&self) -> v1::ListedProcess {
        v1::ListedProcess {
            process_id: self.id.clone(),
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
            cursor: self.stdout.load(Ordering::Relaxed) + self.stderr.load(Ordering::Relaxed),
        }
    }
}

impl Bridge {
    pub(super) fn known(&self, id: &str) -> Result<Arc<Known>, RpcError> {
        hold(&self.processes).get(id).cloned().ok_or_else(|| refusal::no_process(id))
    }

    pub(super) fn exec_list(&self, _ask: v1::ExecList) -> Result<v1::ExecListResult, RpcError> {
        let mut processes = hold(&self.processes).values().map(|known| known.listed()).collect::<Vec<_>>();
        processes.sort_by(|one, other| one.started_at.cmp(&other.started_at));
        Ok(v1::ExecListResult { processes })
    }

    pub(super) async fn exec_wait(&self, ask: v1::ExecWait) -> Result<v1::ExecWaitResult, RpcError> {
        let known = self.known(&ask.process_id)?;
        let within = ask.timeout_ms.and_then(|time| u64::try_from(time).ok()).map(Duration::from_millis);
        let end = known.ended(within.unwrap_or(Duration::MAX)).await;
        Ok(v1::ExecWaitResult {
            status: known.status().to_owned(),
            exit_code: end.map(|end| end.code),
            signal: None,
            bytes_stdout: known.stdout.load(Ordering::Relaxed),
            bytes_stderr: known.stderr.load(Ordering::Relaxed),
        })
    }

    pub(super) async fn exec_kill(&self, ask: v1::ExecKill) -> Result<v1::ExecKillResult, RpcError> {
        let known = self.known(&ask.process_id)?;
        let ok = match name(ask.signal.as_ref()).as_str() {
            "TERM" | "KILL" => self.end(&known).await?,
            "INT" => self.interrupt(&known).await?,
            other => {
                let reason = "an exec-server knows no signals but INT, and KILL for the end";
                return Err(refusal::unsupported(&format!("the signal {other}"), reason));
            }
        };
        Ok(v1::ExecKillResult { ok, killed: Vec::new(), left: Vec::new() })
    }

    async fn end(&self, known: &Known) -> Result<bool, RpcError> {
        let params = TerminateParams { process_id: known.id.clone() };
        let ended = self.client.terminate(params).await.map_err(|error| self.wrong(error))?;
        known.ended(END_WITHIN).await;
        Ok(ended.running)
    }

    async fn interrupt(&self, known: &Known) -> Result<bool, RpcError> {
        let process_id = known.id.clone();
        let done = match known.is_terminal {
            true => {
                let chunk = ByteChunk::from(INTERRUPT.to_vec());
                self.client.write(WriteParams { process_id, chunk, write_id: None }).await.map(drop)
            }
            false => self.client.signal(SignalParams { process_id, signal: ProcessSignal::Interrupt }).await,
        };
        done.map_err(|error| self.wrong(error))?;
        Ok(known.is_running())
    }

    /// Nothing of the session runs on.
    pub(super) async fn end_all(&self) {
        let running = || hold(&self.processes).values().filter(|known| known.is_running()).cloned().collect();
        let running: Vec<Arc<Known>> = running();
        let ends = running.iter().map(|known| self.end(known));
        // What cannot be ended now, the server ends itself when nobody comes back.
        tokio::time::timeout(END_WITHIN, futures_util::future::join_all(ends)).await.ok();
    }

    /// A terminal has the size it began with: exec-server has no word for another.
    pub(super) fn pty_resize(&self, ask: &v1::PtyResize) -> Result<v1::OkResult, RpcError> {
        self.known(&ask.pty_id)?;
        Ok(v1::OkResult { ok: false })
    }

    pub(super) async fn pty_close(&self, ask: v1::PtyClose) -> Result<v1::OkResult, RpcError> {
        let known = self.known(&ask.pty_id)?;
        if ask.kill == Some(false) {
            return Err(refusal::unsupported(
                "kill: false",
                "what an exec-server runs ends with its session",
            ));
        }
        Ok(v1::OkResult { ok: self.end(&known).await? })
    }

    /// Bytes to a process, in line now; what came of it later.
    async fn put(
        &self,
        id: &str,
        (data, encoding): (String, Option<String>),
        eof: bool,
    ) -> Result<impl Future<Output = Result<v1::AcceptedResult, RpcError>> + use<>, RpcError> {
        let known = self.known(id)?;
        let bytes = match encoding.as_deref() {
            None | Some("utf8") => data.into_bytes(),
            Some("base64") => {
                wire::base64::decode(&data).map_err(|_| refusal::invalid("data", "it is not base64"))?
            }
            Some(_) => return Err(refusal::invalid("encoding", "it is utf8 or base64")),
        };
        let accepted_bytes = bytes.len() as u64;
        let mut posted = None;
        if !bytes.is_empty() {
            let (process_id, chunk) = (known.id.clone(), ByteChunk::from(bytes));
            let params = WriteParams { process_id, chunk, write_id: None };
            posted = Some(self.client.post_write(params).await.map_err(|error| self.wrong(error))?);
        }
        Ok(async move {
            if let Some(posted) = posted {
                match posted.wait().await.map_err(refusal::of)?.status {
                    WriteStatus::Accepted => {}
                    WriteStatus::UnknownProcess => return Err(refusal::no_process(&known.id)),
                    WriteStatus::StdinClosed | WriteStatus::Starting => {
                        return Err(RpcError::invalid_params("the process takes no input"));
                    }
                }
            }
            match eof && known.has_input && known.is_running() {
                true => Err(refusal::unsupported(
                    "the end of input",
                    "exec-server has no word for it; a command that reads to the end of its input waits on",
                )),
                false => Ok(v1::AcceptedResult { accepted_bytes }),
            }
        })
    }
}

/// Whether a request brings input.
pub(super) fn is_input(method: &str) -> bool {
    matches!(method, "exec.input" | "pty.input")
}

/// Input: in line now, answered later.
pub(super) async fn input(bridge: &Bridge, request: Request, running: &mut JoinSet<()>) {
    let asked = match request.method.as_str() {
        "exec.input" => request
            .params
            .decode()
            .map(|ask: v1::ExecInput| (ask.process_id, (ask.data, ask.encoding), ask.eof)),
        _ => request.params.decode().map(|ask: v1::PtyInput| (ask.pty_id, (ask.data, ask.encoding), false)),
    };
    let put = match asked {
        Ok((id, data, eof)) => bridge.put(&id, data, eof).await,
        Err(error) => Err(error),
    };
    match put {
        Ok(put) => drop(running.spawn(async move { request.reply.send(put.await).await })),
        Err(error) => request.reply.error(error).await,
    }
}

/// A signal's plain name; nothing is the end.
fn name(signal: Option<&Signal>) -> String {
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
                Ok(number) => self::name(Some(&Signal::Number(number))),
                Err(_) => name.strip_prefix("SIG").unwrap_or(&name).to_owned(),
            }
        }
    }
}
