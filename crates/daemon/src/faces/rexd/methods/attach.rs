//! `exec.attach`: follows a process that another session, or an earlier one, has started.

use std::time::{Duration, SystemTime};

use engine::process::{
    Cursor, Description, KeptProcess, LogReader, Process, ProcessId, ProcessState, TerminalSize,
};
use serde_json::json;
use wire::rexd::v1::{self, RpcError, codes};

use super::frame::{ENVELOPE_BYTES, encoded_bytes};
use super::names;
use super::processes::{follow, may_see};
use super::{Context, Params, PrepareResult, RexdPrepared};
use crate::core::is_unauthenticated;
use crate::core::request::AuthorizedRequest;
use crate::core::responder::Responder;
use crate::core::session::SessionMessage;
use crate::core::terminal::{RETAINED_BYTES, RenderedScreen, SCREEN_BYTES, screen_at};
use crate::faces::rexd::convert::{exit_code, exit_signal, optional_time, pty_id, status};
use crate::faces::rexd::errors::{invalid, process_not_found};
use crate::faces::rexd::session::Session;
use crate::keeper::{Keepers, ListedProcess};
use crate::net::auth::Caller;

/// The size of a terminal that no longer reports one.
const UNKNOWN_SIZE: TerminalSize = TerminalSize { cols: 80, rows: 24 };
/// Longest wait for the size of a terminal: 2 s; then it counts as unknown.
const SIZE_WAIT: Duration = Duration::from_secs(2);

/// Where the request wants to start.
#[derive(Debug, Clone, Copy)]
enum AttachPoint {
    Cursor(u64),
    /// At the output since then.
    Since(SystemTime),
    /// At the screen, if the process has a terminal; at its first output otherwise.
    Screen,
}

impl AttachPoint {
    fn new(params: &v1::ExecAttach) -> Result<AttachPoint, RpcError> {
        let cursor =
            u64::try_from(params.cursor).map_err(|_negative| invalid("cursor", "must not be negative"))?;
        let since = optional_time("since_ms", params.since_ms)?;
        Ok(match since {
            _ if params.screen => AttachPoint::Screen,
            // Before 1970 there is no output.
            Some(age) => {
                AttachPoint::Since(SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH))
            }
            None => AttachPoint::Cursor(cursor),
        })
    }

    fn wants_screen(self, process: &Description) -> bool {
        matches!(self, AttachPoint::Screen) && process.has_terminal
    }
}

/// Where a reader starts, and how many bytes before that are lost.
#[derive(Debug, Clone, Copy)]
struct Position {
    at: u64,
    lost: u64,
}

/// `exec.attach`: answered with the position or the screen, then the usual events.
pub(crate) fn attach(params: &Params<v1::ExecAttach>, _: &Context<'_>) -> PrepareResult {
    let point = AttachPoint::new(params)?;
    let id = ProcessId(params.process_id.clone());
    Ok(RexdPrepared::new(move |session, request| {
        let own =
            session.engine.process(&id).ok().filter(|process| !process.description().is_detached).cloned();
        match own {
            Some(own) => attach_to(session, own, point, request.responder, Owner::ThisSession),
            None => look_up(session, id, point, request),
        }
    }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    ThisSession,
    Another,
}

impl Owner {
    fn reader(self, process: &Process, from: Cursor) -> LogReader {
        match self {
            Owner::ThisSession => process.primary_reader(from),
            Owner::Another => process.reader(from),
        }
    }
}

fn attach_to(
    session: &mut Session,
    process: Process,
    point: AttachPoint,
    responder: Responder,
    owner: Owner,
) {
    if owner == Owner::Another {
        session.state.attach(process.clone());
    }
    let facts = process.state();
    if point.wants_screen(process.description()) {
        let from = process.first().0.max(facts.end.0.saturating_sub(SCREEN_BYTES));
        let source = ScreenSource { reader: process.reader(Cursor(from)), facts, size: UNKNOWN_SIZE, owner };
        return attach_with_screen(session, process, source, responder);
    }
    let from = match point {
        AttachPoint::Cursor(cursor) => cursor,
        AttachPoint::Since(time) => process.since(time).0,
        AttachPoint::Screen => 0,
    };
    let at = process.first().0.max(from).min(facts.end.0);
    let reader = owner.reader(&process, Cursor(at));
    let position = Position { at, lost: at.saturating_sub(from) };
    let result = attach_result(&process, &facts, position);
    respond_and_follow(session, (process, reader), result, responder);
}

fn respond_and_follow(
    session: &mut Session,
    (process, reader): (Process, LogReader),
    result: v1::ExecAttachResult,
    responder: Responder,
) {
    let follow = follow(session, (process, reader), None);
    session.spawn(async move {
        responder.send(Ok(result)).await;
        follow.await;
    });
}

/// What the screen of a process is built from.
struct ScreenSource {
    reader: LogReader,
    facts: ProcessState,
    /// The size of a terminal that does not report its own.
    size: TerminalSize,
    owner: Owner,
}

/// Answers with the screen, and follows the output behind it.
fn attach_with_screen(
    session: &mut Session,
    process: Process,
    mut source: ScreenSource,
    responder: Responder,
) {
    let (handle, frame) = (session.handle(), session.state.client.frame_bytes);
    session.spawn(async move {
        let state = tokio::time::timeout(SIZE_WAIT, process.terminal_state()).await;
        let size = state.ok().and_then(Result::ok).map_or(source.size, |state| state.size);
        let (screen, at) = screen_at(&mut source.reader, source.facts.end, size).await;
        let position = Position { at: at.0, lost: 0 };
        let result = v1::ExecAttachResult {
            screen: fitting_screen(screen, frame),
            ..attach_result(&process, &source.facts, position)
        };
        let follow = move |session: &mut Session, responder: Responder| {
            // The reader of the screen retains the output until the next one exists.
            let reader = source.owner.reader(&process, at);
            drop(source.reader);
            respond_and_follow(session, (process, reader), result, responder);
        };
        handle.send(SessionMessage::complete(responder, follow)).await;
    });
}

/// The screen, if it fits into a line of the client.
fn fitting_screen(screen: RenderedScreen, frame: Option<usize>) -> Option<v1::TerminalScreen> {
    let RenderedScreen { size: TerminalSize { cols, rows }, text } = screen;
    let screen = v1::TerminalScreen { cols, rows, text };
    let is_fitting = frame.is_none_or(|frame| encoded_bytes(&screen) + ENVELOPE_BYTES <= frame);
    is_fitting.then_some(screen)
}

/// Looks among the processes of all sessions, then among the detached ones.
fn look_up(session: &mut Session, id: ProcessId, point: AttachPoint, request: AuthorizedRequest) {
    let (core, handle) = (session.core.clone(), session.handle());
    let (caller, roots) = (session.requester.caller.clone(), session.roots.clone());
    let responder = request.responder;
    session.spawn(async move {
        let named = match names::is_name(&id.0) {
            true => names::resolve(&core, &id.0, |process| may_see(&caller, &roots, process)).await,
            false => None,
        };
        let id = named.unwrap_or(id);
        let here = core.engine.processes().await.into_iter().find(|process| *process.id() == id);
        if let Some(process) = here.filter(|found| may_see(&caller, &roots, found.description())) {
            if !may_attach(&caller, process.description()) {
                return responder.reject(only_for_user(process.description())).await;
            }
            let attach = move |session: &mut Session, responder: Responder| {
                attach_to(session, process, point, responder, Owner::Another);
            };
            return handle.send(SessionMessage::complete(responder, attach)).await;
        }
        let kept = match &core.keepers {
            Some(keepers) => match keepers.find(&id).await {
                Ok(listed) if may_see(&caller, &roots, &listed.description) => {
                    let from = first_of_kept(keepers, &listed, point).await;
                    keepers.kept(&id, from).await.ok().map(|kept| (kept, listed))
                }
                _ => None,
            },
            None => None,
        };
        let Some(((kept, lost), listed)) = kept else {
            return responder.reject(process_not_found(&id.0)).await;
        };
        let wants_screen = point.wants_screen(&listed.description);
        let adopt = move |session: &mut Session, responder: Responder| match wants_screen {
            true => adopt_with_screen(session, kept, listed, responder),
            false => adopt_attached(session, kept, (listed, lost), responder),
        };
        handle.send(SessionMessage::complete(responder, adopt)).await;
    });
}

/// Where the log of a detached process is read from.
async fn first_of_kept(keepers: &Keepers, listed: &ListedProcess, point: AttachPoint) -> Cursor {
    match point {
        AttachPoint::Cursor(cursor) => Cursor(cursor),
        AttachPoint::Since(time) => keepers.since(&listed.id, time).await.unwrap_or_default(),
        AttachPoint::Screen if listed.description.has_terminal => {
            Cursor(listed.facts.end.0.saturating_sub(SCREEN_BYTES))
        }
        AttachPoint::Screen => Cursor(0),
    }
}

/// Follows a detached process.
fn adopt_attached(
    session: &mut Session,
    kept: KeptProcess,
    (listed, lost): (ListedProcess, u64),
    responder: Responder,
) {
    let position = Position { at: kept.from.0, lost };
    let (process, reader) = session.engine.adopt(kept);
    let result = attach_result(&process, &listed.facts, position);
    respond_and_follow(session, (process, reader), result, responder);
}

/// The same, from its screen on.
fn adopt_with_screen(session: &mut Session, kept: KeptProcess, listed: ListedProcess, responder: Responder) {
    let from = kept.from;
    let (process, _reader) = session.engine.adopt(kept);
    let source = ScreenSource {
        reader: process.primary_reader_retaining(from, RETAINED_BYTES),
        facts: listed.facts,
        size: listed.terminal_size.unwrap_or(UNKNOWN_SIZE),
        owner: Owner::ThisSession,
    };
    attach_with_screen(session, process, source, responder);
}

/// A process of a face without authentication is followed only by its own user, on stdio or a unix socket: over HTTP or
/// through a hub, its output and its input would reach others.
fn may_attach(caller: &Caller, process: &Description) -> bool {
    !is_unauthenticated(&process.origin) || caller.is_user()
}

fn only_for_user(process: &Description) -> RpcError {
    let face = &process.origin;
    let message = format!("a process of {face} is attached only over stdio or a unix socket of its user");
    RpcError::new(codes::UNAUTHORIZED, message).with_data(json!({ "face": face }))
}

fn attach_result(process: &Process, facts: &ProcessState, position: Position) -> v1::ExecAttachResult {
    let exit = facts.closed.as_ref().map(|closed| closed.exit);
    v1::ExecAttachResult {
        process_id: process.id().0.clone(),
        pty_id: process.description().has_terminal.then(|| pty_id(process.id())),
        status: status(facts).to_owned(),
        exit_code: exit.map(exit_code),
        signal: exit.and_then(exit_signal),
        cursor: position.at,
        lost: position.lost,
        screen: None,
    }
}
