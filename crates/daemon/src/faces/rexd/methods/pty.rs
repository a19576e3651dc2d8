//! Terminals: opened at their size, written to, resized and closed.

use engine::process::{Signal, Stdin};
use wire::rexd::v1;

use super::exec::write_input;
use super::processes::{StartRequest, StartResult, start, with_terminal};
use super::{Context, Params, PrepareResult, RexdPrepared};
use crate::faces::rexd::convert;
use crate::faces::rexd::errors::rpc_error;

/// `pty.open`. Clients that lose early output receive it a little later.
pub(crate) fn open(params: &Params<v1::PtyOpen>, context: &Context<'_>) -> PrepareResult {
    let timeout = convert::optional_time("timeout_ms", params.timeout_ms)?;
    let request = StartRequest {
        program: convert::pty_program(params)?,
        cwd: params.cwd.clone(),
        env: params.env.clone(),
        terminal: Some(convert::new_size(params.cols, params.rows)?),
        stdin: Stdin::Open,
        merges_stderr: false,
        // A terminal runs until it is closed, unless the request has a timeout.
        stop_after: context.session.limits.timeout_if_asked(timeout),
        output_limit: None,
        sandbox: params.sandbox.clone(),
        name: params.name.clone(),
        is_detached: params.detach,
        result: StartResult::Pty,
    };
    start(request, context)
}

/// Checks and converts a `pty.input` request.
pub(crate) fn input(params: &Params<v1::PtyInput>, _: &Context<'_>) -> PrepareResult {
    let params = params.clone();
    Ok(RexdPrepared::new(move |session, request| {
        let id = params.pty_id.clone();
        with_terminal(session, &id, request, move |session, process, request| {
            let text = ("data", params.data.as_str());
            match convert::payload_or_text(params.payload.as_ref(), text, params.encoding.as_deref()) {
                Ok(bytes) => write_input(session, process, (bytes, false), request),
                Err(error) => session.spawn(request.reject(error)),
            }
        });
    }))
}

/// Checks and converts a `pty.resize` request.
pub(crate) fn resize(params: &Params<v1::PtyResize>, _: &Context<'_>) -> PrepareResult {
    let params = params.clone();
    Ok(RexdPrepared::new(move |session, request| {
        let id = params.pty_id.clone();
        with_terminal(session, &id, request, move |session, process, request| {
            let size = convert::size(params.cols, params.rows);
            session.spawn(async move {
                let resized = match size {
                    Ok(size) => process.resize(size).await.map(|()| v1::OkResult::DONE).map_err(rpc_error),
                    Err(error) => Err(error),
                };
                request.finish(resized).await;
            });
        });
    }))
}

/// `pty.close`: kills the process, unless only a hang-up is wanted.
pub(crate) fn close(params: &Params<v1::PtyClose>, _: &Context<'_>) -> PrepareResult {
    let params = params.clone();
    Ok(RexdPrepared::new(move |session, request| {
        let signal = if params.kill.unwrap_or(true) { Signal::KILL } else { Signal::HUP };
        with_terminal(session, &params.pty_id, request, move |session, process, request| {
            session.spawn(async move {
                // A process that has already ended is closed as well.
                drop(process.kill(signal).await);
                request.finish(Ok(v1::OkResult::DONE)).await;
            });
        });
    }))
}
