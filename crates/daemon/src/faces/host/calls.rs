//! Requests of hub users and of the local API: each runs once, also if it is repeated, and leaves its traces in the run.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use engine::approval::ApprovalIdentity;
use link::rpc::{Dialect, Params, Reply, Request};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wire::hub::v1::{RpcHeader, RunStartResult, ToolCall, ToolResult, kind, rpc};
use wire::jsonrpc::{Id, RpcError};

use super::Host;
use super::gated::{self, is_gated, is_interrupted};
use super::pending::PendingCall;
use super::run::Run;
use super::session::session;
use crate::core::dispatch::{Dispatch, dispatch};
use crate::core::request::{ConnectionContext, Requester};
use crate::core::session::Face as _;

/// Answers that are remembered for repeated requests; beyond it the oldest is dropped.
const MAX_ANSWERS: usize = 1_024;
/// Bytes of remembered answers; beyond it the oldest are dropped.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// The result of a request, encoded, or its error.
pub(super) type Answer = Result<Box<RawValue>, RpcError>;

/// A request for a run or for the host.
#[derive(Debug)]
pub(super) struct HostRequest {
    /// The type of the message.
    pub(super) kind: String,
    /// The run, if it names one.
    pub(super) run_id: Option<String>,
    /// Its data, encoded.
    pub(super) data: Bytes,
    /// Who makes it.
    pub(super) context: ConnectionContext,
}

/// The requests that run, and the answers of earlier ones.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<KnownCalls>);

#[derive(Debug, Default)]
struct KnownCalls {
    by_key: HashMap<CallKey, watch::Receiver<Option<Arc<Answer>>>>,
    oldest: VecDeque<CallKey>,
    bytes: usize,
}

/// The run, the type and the id of a request.
type CallKey = (String, String, String);

/// What is known of a request.
enum KnownCall {
    New(watch::Sender<Option<Arc<Answer>>>),
    Repeated(watch::Receiver<Option<Arc<Answer>>>),
}

impl Calls {
    fn enter(&self, key: &CallKey) -> KnownCall {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A call whose task was dropped has no answer and never gets one.
        if let Some(answer) =
            known.by_key.get(key).filter(|answer| answer.borrow().is_some() || answer.has_changed().is_ok())
        {
            return KnownCall::Repeated(answer.clone());
        }
        let (sender, receiver) = watch::channel(None);
        if known.by_key.insert(key.clone(), receiver).is_none() {
            known.oldest.push_back(key.clone());
        }
        KnownCall::New(sender)
    }

    fn complete(&self, answer: &Answer) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.bytes += size(answer);
        while known.oldest.len() > MAX_ANSWERS || known.bytes > MAX_ANSWER_BYTES {
            let is_complete =
                |key: &CallKey| known.by_key.get(key).is_none_or(|answer| answer.borrow().is_some());
            let Some(index) = known.oldest.iter().position(is_complete) else { return };
            let Some(key) = known.oldest.remove(index) else { return };
            let freed =
                known.by_key.remove(&key).map_or(0, |answer| answer.borrow().as_deref().map_or(0, size));
            known.bytes = known.bytes.saturating_sub(freed);
        }
    }
}

fn size(answer: &Answer) -> usize {
    answer.as_ref().map_or(0, |result| result.get().len())
}

/// Runs an `rpc.*` request, or waits for the same one that runs already, and returns the answer.
pub(super) async fn call(host: &Arc<Host>, request: HostRequest) -> Arc<Answer> {
    let header: RpcHeader = serde_json::from_slice(&request.data).unwrap_or_default();
    let key = (request.run_id.clone().unwrap_or_default(), request.kind.clone(), header.request_id.clone());
    let sender = match host.calls.enter(&key) {
        KnownCall::New(sender) => sender,
        KnownCall::Repeated(mut answer) => {
            return match answer.wait_for(Option::is_some).await {
                Ok(answer) => answer.clone().unwrap_or_else(|| Arc::new(Err(abandoned()))),
                Err(_dropped) => Arc::new(Err(abandoned())),
            };
        }
    };
    let answer = Arc::new(run_call(host, request, header).await);
    host.calls.complete(&answer);
    sender.send_replace(Some(answer.clone()));
    answer
}

fn abandoned() -> RpcError {
    RpcError::internal("request abandoned")
}

async fn run_call(host: &Arc<Host>, request: HostRequest, header: RpcHeader) -> Answer {
    if request.kind == rpc::RUN_START
        && let Some(run) = host.runs.started_by(&header.request_id)
    {
        // An earlier daemon has started it.
        let result = RunStartResult { run_id: run.record.run_id.clone() };
        return serde_json::value::to_raw_value(&result)
            .map_err(|error| RpcError::internal(error.to_string()));
    }
    let is_gated = is_gated(&request.kind) && !header.request_id.is_empty();
    if is_gated && let Some(answer) = gated::enter(host, &request, &header.request_id).await {
        // An earlier daemon has answered it.
        return answer;
    }
    trace_call(host, request, header, (is_gated, None)).await
}

/// Continues an operation whose approval an earlier daemon has requested.
pub(super) async fn resume(host: Arc<Host>, request: HostRequest, earlier: Option<ApprovalIdentity>) {
    let header: RpcHeader = serde_json::from_slice(&request.data).unwrap_or_default();
    let key = (request.run_id.clone().unwrap_or_default(), request.kind.clone(), header.request_id.clone());
    let KnownCall::New(sender) = host.calls.enter(&key) else { return };
    let answer = Arc::new(trace_call(&host, request, header, (true, earlier)).await);
    host.calls.complete(&answer);
    sender.send_replace(Some(answer));
}

/// Whether a request is an operation in its run. Looking at the screen or at a question changes nothing, and must not store
/// what they show.
fn leaves_trace(kind: &str) -> bool {
    !rpc::is_for_host(kind) && !matches!(kind, rpc::RUN_SCREEN | rpc::APPROVAL_SHOW)
}

/// Runs a request between its two events.
async fn trace_call(
    host: &Arc<Host>,
    request: HostRequest,
    header: RpcHeader,
    (is_gated, earlier): (bool, Option<ApprovalIdentity>),
) -> Answer {
    let run_id = request.run_id.clone().unwrap_or_default();
    let run = host.runs.get(&run_id).filter(|_| leaves_trace(&request.kind));
    let trace = run.as_ref().map(|run| ToolTrace::new(host, run, &request, &header));
    if let Some(trace) = &trace {
        trace.begin().await;
    }
    let answer = match begin_again(host, request, Some(&header.request_id), earlier).await {
        Ok(waiting) => waiting.answer().await,
        Err(error) => Err(error),
    };
    if is_gated && is_interrupted(host, &run_id, &header.request_id) {
        // The next daemon continues it.
        return answer;
    }
    if is_gated {
        gated::finish(host, &run_id, &header.request_id, &answer).await;
    }
    if let Some(trace) = trace {
        trace.end(&answer).await;
    }
    if is_gated {
        gated::leave(host, &run_id, &header.request_id).await;
    }
    answer
}

/// Appends the result of an operation that an earlier daemon has begun.
pub(super) async fn append_result(host: &Arc<Host>, run: &Arc<Run>, call: &PendingCall, answer: &Answer) {
    let header: RpcHeader = serde_json::from_str(call.data.get()).unwrap_or_default();
    let trace = ToolTrace {
        host: host.clone(),
        run: run.clone(),
        request_id: call.request_id.clone(),
        tool: call.kind.clone(),
        actor: super::methods::actor(header.actor.as_deref()),
        args: Value::Null,
        since: Instant::now(),
    };
    trace.end(answer).await;
}

/// A request that was given to its session, in the order of arrival.
#[derive(Debug)]
pub(super) struct WaitingCall {
    answers: link::Answers,
    /// Dropping this withdraws the request.
    _withdraw: tokio_util::sync::DropGuard,
}

impl WaitingCall {
    /// Waits for the answer.
    pub(super) async fn answer(mut self) -> Answer {
        #[derive(Deserialize)]
        struct Response {
            result: Option<Box<RawValue>>,
            error: Option<RpcError>,
        }
        let line = self.answers.next().await.ok_or_else(abandoned)?;
        match serde_json::from_slice(&line) {
            Ok(Response { result: Some(result), error: None }) => Ok(result),
            Ok(Response { error: Some(error), .. }) => Err(error),
            Ok(_) | Err(_) => Err(abandoned()),
        }
    }
}

/// Gives a request to the session of its run.
pub(super) async fn begin(host: &Arc<Host>, request: HostRequest) -> Result<WaitingCall, RpcError> {
    begin_again(host, request, None, None).await
}

async fn begin_again(
    host: &Arc<Host>,
    request: HostRequest,
    request_id: Option<&str>,
    earlier: Option<ApprovalIdentity>,
) -> Result<WaitingCall, RpcError> {
    let HostRequest { kind, run_id, data, context } = request;
    let run = match run_id.filter(|_| !rpc::is_for_host(&kind)) {
        Some(id) => Some(host.runs.get(&id).ok_or_else(super::errors::unknown_run)?),
        None => None,
    };
    let handle = session(host, run.as_ref(), &context.caller)?;
    let (_, outgoing, answers) = link::posted(Bytes::new(), &link::Limits::default());
    let cancel = CancellationToken::new();
    let waiting = WaitingCall { answers, _withdraw: cancel.clone().drop_guard() };
    let reply = Reply::new(Dialect::Versioned, Id::from(1), outgoing);
    let request = Request { method: kind, params: Params::new(Some(data)), reply, cancel };
    let requester = Requester::new(Host::NAME, context.caller.clone());
    match dispatch::<Host>(host.core(), &context, requester, request, |_| Some(handle)) {
        Ok(Dispatch::Session(mut request, handle)) => {
            request.request_id = request_id.filter(|id| !id.is_empty()).map(Arc::from);
            request.earlier_approval = earlier;
            if let Err(request) = handle.request(request).await {
                request.responder.reject(Host::session_closed(&handle.id)).await;
            }
        }
        Ok(Dispatch::NoSession(_, responder)) => responder.reject(super::errors::unknown_run()).await,
        Ok(Dispatch::Connection(never, _)) => match never {},
        Err(rejected) => rejected.respond().await,
    }
    Ok(waiting)
}

/// The events of one operation in its run.
struct ToolTrace {
    host: Arc<Host>,
    run: Arc<Run>,
    request_id: String,
    tool: String,
    actor: String,
    args: Value,
    since: Instant,
}

/// Members of a request that say who makes it, not what it does.
pub(super) const HEADER_MEMBERS: &[&str] = &["request_id", "host_id", "actor", "user"];

impl ToolTrace {
    fn new(host: &Arc<Host>, run: &Arc<Run>, request: &HostRequest, header: &RpcHeader) -> ToolTrace {
        let mut args: Value = serde_json::from_slice(&request.data).unwrap_or_default();
        if let Some(members) = args.as_object_mut() {
            members.retain(|name, _| !HEADER_MEMBERS.contains(&name.as_str()));
        }
        ToolTrace {
            host: host.clone(),
            run: run.clone(),
            request_id: header.request_id.clone(),
            tool: request.kind.clone(),
            actor: super::methods::actor(header.actor.as_deref()),
            args: host.redaction.value(&args),
            since: Instant::now(),
        }
    }

    async fn begin(&self) {
        let call = ToolCall {
            request_id: self.request_id.clone(),
            tool: self.tool.clone(),
            actor: self.actor.clone(),
            args: self.args.clone(),
        };
        self.append(kind::TOOL_CALL, &call).await;
    }

    /// Appends an event; that of an operation which outlives the host is appended once.
    async fn append(&self, kind: &'static str, data: &(impl serde::Serialize + Sync)) {
        match is_gated(&self.tool) && !self.request_id.is_empty() {
            true => self.run.append_once(kind, &self.request_id, data).await,
            false => drop(self.run.append(kind, data).await),
        }
    }

    async fn end(self, answer: &Answer) {
        let result = result_of(answer);
        let result = ToolResult {
            request_id: self.request_id.clone(),
            tool: self.tool.clone(),
            actor: self.actor.clone(),
            ok: answer.is_ok(),
            duration_ms: u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX),
            result: self.host.redaction.value(&result.unwrap_or_default()),
            error: answer.as_ref().err().map(|error| self.host.redaction.text(&error.message)),
        };
        self.append(kind::TOOL_RESULT, &result).await;
    }
}

/// The result of an answer. A command that failed has one too: its output is not lost.
pub(super) fn result_of(answer: &Answer) -> Option<Value> {
    match answer {
        Ok(result) => serde_json::from_str(result.get()).ok(),
        Err(error) => error.data.get("result").cloned(),
    }
}
