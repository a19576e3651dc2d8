//! `POST /exec`: the order of checks, the queue, the command, and its three events.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::StatusCode;
use tokio::sync::oneshot;
use tokio::time::timeout;
use wire::jsonrpc::RpcError;
use wire::stringd::v0_1::{Exec, Head, events};

use super::Stringd;
use super::commands::{CommandContext, CommandResult, execute};
use super::convert::{TopicName, label, text, topic};
use super::errors::RequestError;
use super::response::{ResponseBody, StringdResponse, event_stream};
use super::topics::{QueueError, TopicState, TopicTurn};
use crate::core::request::Requester;
use crate::core::responder::Responder;
use crate::core::session::Face as _;
use crate::core::table::detail;
use crate::net::auth::Caller;

/// The code of a failed command in the audit; its message is the protocol's code.
const COMMAND_FAILED: i64 = 0;

/// How long the head of the answer waits for the events, so that the answer to a quick command is one write.
const QUICK_COMMAND: Duration = Duration::from_millis(1);

/// Checks the user of a command.
pub(super) fn check_user(face: &Stringd, id: &str) -> Result<(), RequestError> {
    if id.is_empty() {
        return Err(RequestError::bad("X-User-Id header required"));
    }
    face.users.get(id).map(drop).ok_or_else(|| unknown_user(id))
}

/// The refusal of a user that is not registered.
pub(super) fn unknown_user(id: &str) -> RequestError {
    RequestError::new(StatusCode::UNAUTHORIZED, format!("Unknown user: {id}"))
}

/// A command that passed the checks.
struct PendingCommand {
    text: String,
    label: String,
    request_id: Option<String>,
    user: String,
    topic: TopicName,
}

/// Checks a command, waits for its turn and starts it. Dropping this while it waits leaves the queue; a command that
/// runs completes.
pub(super) async fn exec(
    face: &Arc<Stringd>,
    user: &str,
    body: &[u8],
    record: &mut Option<Responder>,
) -> Result<StringdResponse, RequestError> {
    let command = check(user, body).map_err(|reason| {
        face.log("exec.validation", &[("user", user), ("error", &reason)]);
        RequestError::bad(reason)
    })?;
    if let Some(record) = record {
        record.set_requester(requester(&command));
        record.set_details(detail("cmd", &command.label));
    }
    // The user may have been deleted while the body was read.
    let opened = face.topics.ensure(&face.users, user, &command.topic);
    let (opened, _) = opened.ok_or_else(|| unknown_user(user))?;
    let fields = [("user", user), ("topic", command.topic.as_str())];
    if opened.is_busy() {
        face.log("exec.queued", &fields);
    }
    match opened.turn(face.settings.queue).await {
        Ok(turn) => {
            let (sender, mut events) = oneshot::channel();
            face.core.tasks.spawn(run(face.clone(), turn, (command, record.take()), sender));
            let quick = timeout(QUICK_COMMAND, &mut events).await;
            Ok(event_stream(match quick {
                Ok(events) => ResponseBody::Events(events.ok()),
                Err(_runs) => ResponseBody::Later(events),
            }))
        }
        Err(QueueError::Full) => {
            face.log("exec.queue_full", &fields);
            let topic = format!("{user}:{}", command.topic.as_str());
            let size = face.settings.queue.size;
            let message = format!("Topic {topic} has {size} commands queued. Try again later.");
            Err(RequestError::coded(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", message))
        }
        Err(QueueError::Late) => {
            face.log("exec.queue_timeout", &fields);
            let message = "Timed out waiting in queue.";
            Err(RequestError::coded(StatusCode::GATEWAY_TIMEOUT, "QUEUE_TIMEOUT", message))
        }
    }
}

/// Who sends a command, as the audit has it.
fn requester(command: &PendingCommand) -> Requester {
    let session = Some(Arc::from(format!("{}:{}", command.user, command.topic.as_str())));
    let client = Arc::from(command.user.as_str());
    Requester { session, client, ..Requester::new(Stringd::NAME, Arc::new(Caller::on_loopback())) }
}

fn check(user: &str, body: &[u8]) -> Result<PendingCommand, String> {
    let empty = "Empty command — provide non-empty \"cmd\" field";
    let value: serde_json::Value = serde_json::from_slice(body)
        .map_err(|_| "Invalid JSON body — expected { \"cmd\": \"...\" }".to_owned())?;
    // A value that is no object has no command.
    let request: Exec = serde_json::from_value(value).unwrap_or_default();
    let command = text(&request.cmd).ok_or(empty)?;
    let topic = topic(&request.topic).map_err(|raw| format!("Invalid topic: {raw}"))?;
    Ok(PendingCommand {
        label: label(command),
        text: command.to_owned(),
        request_id: text(&request.request_id).map(str::to_owned),
        user: user.to_owned(),
        topic,
    })
}

/// Runs a command to its end, whether its client reads the events or not.
async fn run(
    face: Arc<Stringd>,
    mut turn: TopicTurn,
    (command, record): (PendingCommand, Option<Responder>),
    sender: oneshot::Sender<Bytes>,
) {
    let since = Instant::now();
    let context = CommandContext::new(&face, &turn.topic.user, &command.topic, &turn.session);
    let running = execute(&mut turn.state, &context, &command.text);
    let Some(result) = face.stop.run_until_cancelled(AssertUnwindSafe(running).catch_unwind()).await else {
        return;
    };
    let (result, meta) = match result {
        Ok(result) => (result, turn.meta()),
        // The panic is in the log; its topic starts afresh.
        Err(_panic) => {
            *turn.state = TopicState::default();
            face.log("internal", &[("user", &command.user), ("cmd", &command.label)]);
            (CommandResult::failed("INTERNAL_ERROR", "the command failed inside the daemon"), None)
        }
    };
    // The next command may run, and the state is back, before the client can send another.
    drop((context, turn));
    let code = result.code.as_deref().unwrap_or("-");
    let ms = since.elapsed().as_millis().to_string();
    face.log(
        "exec",
        &[
            ("user", &command.user),
            ("topic", command.topic.as_str()),
            ("cmd", &command.label),
            ("code", code),
            ("ms", &ms),
        ],
    );
    if let Some(record) = record {
        record.send(outcome(&result)).await;
    }
    let content = content(&command, &result);
    let head = Head {
        ok: result.ok,
        code: result.code,
        cmd: command.label,
        request_id: command.request_id,
        user_id: command.user,
        topic: command.topic.as_str().to_owned(),
        topic_type: command.topic.kind().name().to_owned(),
        meta,
    };
    // Texts always have a JSON form, and a client that is gone reads nothing.
    if let Ok(events) = events(&head, &content) {
        sender.send(events.into()).ok();
    }
}

/// The text of the event `content`.
fn content(command: &PendingCommand, result: &CommandResult) -> String {
    let id = command.request_id.as_ref().map(|id| format!("[{id}] ")).unwrap_or_default();
    let error = match (result.ok, &result.code) {
        (true, _) => String::new(),
        (false, code) => format!("ERROR({}): ", code.as_deref().unwrap_or("UNKNOWN")),
    };
    format!("re: {id}{}\n{error}{}", command.label, result.content)
}

/// The result of a command as the audit, metrics and traces record it.
fn outcome(result: &CommandResult) -> Result<(), RpcError> {
    let failed = || RpcError::new(COMMAND_FAILED, result.code.as_deref().unwrap_or("UNKNOWN"));
    if result.ok { Ok(()) } else { Err(failed()) }
}
