//! `session.close`, `session.info`, `session.ack`, `session.set_cwd` and `server.ping`.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::json;
use wire::rexd::v1;

use super::{Context, Params, PrepareResult, RexdPrepared, admit};
use crate::core::request::off_thread;
use crate::core::responder::Responder;
use crate::core::session::SessionMessage;
use crate::faces::rexd::convert::{self, timestamp};
use crate::faces::rexd::errors::{rpc_error, text};
use crate::faces::rexd::session::{Session, info as session_info};

/// `session.close`: answered when nothing of the session is left.
pub(crate) fn close(_: &Params<v1::SessionClose>, _: &Context<'_>) -> PrepareResult {
    Ok(RexdPrepared::new(|session, request| session.close(request.responder, json!(v1::OkResult::DONE))))
}

/// Checks and converts a `session.info` request.
pub(crate) fn info(_: &Params<v1::SessionInfo>, context: &Context<'_>) -> PrepareResult {
    let result = session_info(context.session);
    Ok(RexdPrepared::response(async { Ok(result) }))
}

/// `session.ack`: without an audit record, because a client sends one for every few events.
pub(crate) fn acknowledge(params: &Params<v1::SessionAck>, _: &Context<'_>) -> PrepareResult {
    let event = convert::optional("event_id", Some(params.event_id))?.unwrap_or(0);
    Ok(RexdPrepared::new(move |session, mut request| {
        request.responder.skip_audit();
        let acknowledged = session.acknowledge(event);
        session.spawn(async move {
            acknowledged.await;
            request.finish(Ok(v1::OkResult::DONE)).await;
        });
    }))
}

/// `session.set_cwd`: relative paths start there, if it is a directory inside the roots.
pub(crate) fn set_cwd(params: &Params<v1::SessionSetCwd>, context: &Context<'_>) -> PrepareResult {
    let path = context.start_directory(&admit(context, &params.path)?);
    Ok(RexdPrepared::new(move |session, request| {
        let handle = session.handle();
        session.spawn(async move {
            let cwd = path.as_path().to_owned();
            match off_thread(move || path.open_directory().map_err(rpc_error)).await {
                Ok(_directory) => {
                    let result = v1::SessionSetCwdResult { ok: true, cwd: text(&cwd) };
                    let (responder, guard) = (request.responder, request.guard);
                    // In force before the response, so that the next request uses it.
                    let update = SessionMessage::update(move |session: &mut Session| {
                        session.cwd = Arc::new(cwd);
                        drop(guard);
                    });
                    handle.send(update).await;
                    responder.send(Ok(result)).await;
                }
                Err(error) => request.reject(error).await,
            }
        });
    }))
}

/// Responds to `server.ping` with the time.
pub(crate) async fn ping(responder: Responder) {
    responder.send(Ok(v1::ServerPingResult { time: timestamp(SystemTime::now()) })).await;
}
