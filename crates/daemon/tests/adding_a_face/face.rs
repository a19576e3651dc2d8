//! A complete face: it opens a session, runs a command, streams its output, and resumes after a disconnect.

use std::sync::Arc;

use bytes::Bytes;
use daemon::core::Core;
use daemon::core::dispatch::{Dispatch, dispatch};
use daemon::core::effects::{CommandEffects, Effects};
use daemon::core::events::{self, LogEntry};
use daemon::core::prepare::PrepareContext;
use daemon::core::request::{ConnectionContext, Details, Requester};
use daemon::core::session::{
    self, Face, Retention, SessionConnection, SessionMessage, SessionOptions, SessionRegistry, StartOptions,
    SubscriptionId,
};
use daemon::core::table::{Admission, ConnectionRow, Method, Prepared, Row, Schedule, detail, no_details};
use daemon::net::auth::Scope;
use engine::audit::RecordPriority;
use engine::process::{ExitStatus, Item, Process, ProcessId, ProcessSpec, Program, Stdin};
use link::Link;
use link::rpc::{Params, Requests, RpcLimits};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::RpcError;

// The wire: what a real face has in `crates/wire/src/NAME/`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Open {}
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Resume {
    session: String,
    last_event: u64,
}
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    session: String,
    argv: Vec<String>,
}

// The table: one row per method.
static TABLE: &[&dyn Method<Demo>] = &[
    &ConnectionRow::<Demo, Open> {
        name: "open",
        scope: Scope::Read,
        record_priority: RecordPriority::Normal,
        audit: no_details,
        call: DemoCall::Open,
    },
    &ConnectionRow::<Demo, Resume> {
        name: "resume",
        scope: Scope::Read,
        record_priority: RecordPriority::Reserved,
        audit: |params| detail("session", &params.session),
        call: DemoCall::Resume,
    },
    &Row::<Demo, Run> {
        name: "run",
        scope: Scope::Exec,
        schedule: Schedule::Read,
        admission: Admission::Unlimited,
        record_priority: RecordPriority::Normal,
        session: |params| Some(&params.session),
        audit: |params| detail("argv", &params.argv.join(" ")),
        key: None,
        payload: None,
        prepare: run,
    },
];

pub(crate) enum DemoCall {
    Open(Open),
    Resume(Resume),
}

/// The face: what all its connections share.
pub(crate) struct Demo {
    core: Arc<Core>,
    sessions: SessionRegistry<Demo>,
}

impl Demo {
    pub(crate) fn new(core: Arc<Core>) -> Demo {
        Demo { core, sessions: SessionRegistry::new(Retention::default()) }
    }
}

impl Face for Demo {
    const NAME: &'static str = "demo";
    const IDENTITY_PARAMS: &'static [&'static str] = &["session"];
    type State = ();
    type ConnectionCall = DemoCall;
    type Events = DemoEvents;

    fn core(&self) -> &Arc<Core> {
        &self.core
    }
    fn sessions(&self) -> &SessionRegistry<Demo> {
        &self.sessions
    }
    fn table() -> &'static [&'static dyn Method<Demo>] {
        TABLE
    }
    fn decode<P: DeserializeOwned>(params: &Params) -> Result<P, RpcError> {
        params.decode()
    }
    fn error(error: engine::Error) -> RpcError {
        RpcError::new(-32001, error.to_string())
    }
    fn session_closed(id: &str) -> RpcError {
        RpcError::invalid_params(format!("no session {id}"))
    }
    fn process_closed(session: &mut Session, process: &ProcessId) {
        session.engine.remove(process)
    }
}

type Session = session::Session<Demo>;

// The first conversion: from parameters to effects and an action.
fn run(params: &Arc<Run>, context: &PrepareContext<'_, Demo>) -> Result<Prepared<Demo>, RpcError> {
    if params.argv.is_empty() {
        return Err(RpcError::invalid_params("argv is empty"));
    }
    let program = Program::Argv(params.argv.clone());
    let cwd = context.start_directory(&context.admit("").map_err(Demo::error)?);
    let effects = CommandEffects {
        program: program.clone(),
        cwd: cwd.clone(),
        env: Vec::new(),
        stdin: Bytes::new(),
        has_terminal: false,
        is_detached: false,
    };
    Ok(Prepared::with_effects(Effects::Command(Box::new(effects)), move |session, request| {
        let spec = ProcessSpec {
            program,
            arg0: None,
            name: None,
            cwd,
            env: session.core.policy.current().environment.clone(),
            terminal: None,
            stdin: Stdin::Empty,
            merges_stderr: false,
            side_pipes: None,
            end_grace: None,
            stop_after: None,
            output_limit: None,
            is_text: true,
            origin: Demo::NAME.into(),
            confinement: None,
        };
        let result = |process: &Process| json!({ "process": process.id().0 });
        session.start_process(spec, StartOptions::default(), request, |_, _| DemoEvents, result);
    }))
}

// The second conversion: from log entries to events.
#[derive(Debug)]
pub(crate) struct DemoEvents;

impl events::ProcessEvents for DemoEvents {
    fn encode(&mut self, entry: &LogEntry<'_>, id: u64) -> Vec<Bytes> {
        let event = match entry.item {
            Item::Output { bytes, .. } => json!({ "event": id, "output": String::from_utf8_lossy(bytes) }),
            Item::Closed(closed) => json!({ "event": id, "exit": match closed.exit {
                ExitStatus::Code(code) => code,
                ExitStatus::Signal(signal) => 128 + signal.number(),
            }}),
            Item::Lost { bytes, .. } => json!({ "event": id, "lost": bytes }),
            Item::Exited { .. } | Item::Disconnected => return Vec::new(),
        };
        vec![Bytes::from(json!({ "jsonrpc": "2.0", "method": "event", "params": event }).to_string())]
    }

    fn audit_end(&self, process: &Process) -> (&'static str, Details) {
        ("end", detail("process", &process.id().0))
    }
}

/// A new session with the operator's roots and limits.
fn open(face: &Arc<Demo>, context: &ConnectionContext) -> Result<SessionOptions<Demo>, engine::Error> {
    let session = Some(engine::session::random_name()?.into());
    let requester = Requester { session, ..Requester::new(Demo::NAME, context.caller.clone()) };
    Ok(SessionOptions::new(face, requester, face.core.engine.open_session()?, ()))
}

/// Serves one connection; its sessions are kept for the next one.
pub(crate) async fn serve(face: Arc<Demo>, link: Link, context: ConnectionContext, stop: CancellationToken) {
    let outgoing = link.outgoing.clone();
    let mut requests = Requests::new(link.incoming, link.outgoing, RpcLimits::default());
    let mut sessions = Vec::new();
    while let Some(Some(request)) = stop.run_until_cancelled(requests.next()).await {
        let connection = SessionConnection { outgoing: outgoing.clone(), hang_up: None };
        let find = |id: Option<&str>| face.sessions.find(id?, &context.caller);
        let requester = Requester::new(Demo::NAME, context.caller.clone());
        match dispatch::<Demo>(&face.core, &context, requester, request, find) {
            Ok(Dispatch::Connection(DemoCall::Open(_), responder)) => match open(&face, &context) {
                Ok(options) => {
                    let handle = options.open(connection);
                    responder.send(Ok(json!({ "session": &*handle.id }))).await;
                    sessions.push((handle, SubscriptionId::FIRST));
                }
                Err(error) => responder.reject(Demo::error(error)).await,
            },
            Ok(Dispatch::Connection(DemoCall::Resume(params), responder)) => {
                let Some(handle) = face.sessions.find(&params.session, &context.caller) else {
                    responder.reject(Demo::session_closed(&params.session)).await;
                    continue;
                };
                let result = |lost| json!({ "lost": lost });
                let (message, id) = SessionMessage::resume(connection, params.last_event, responder, result);
                handle.send(message).await;
                sessions.extend(id.await.map(|id| (handle, id)));
            }
            Ok(Dispatch::Session(request, handle)) => drop(handle.request(request).await),
            Ok(Dispatch::NoSession(id, responder)) => {
                responder.reject(Demo::session_closed(&id.unwrap_or_default())).await;
            }
            Err(rejected) => rejected.respond().await,
        }
    }
    for (handle, id) in sessions {
        handle.send(SessionMessage::Disconnected(id)).await;
    }
}
