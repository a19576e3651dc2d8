//! `process/read`: the stored output of a process and its state, at once or when there is something new.

use std::sync::Arc;
use std::time::Duration;

use engine::process::{Item, Process};
use wire::exec_server::{ByteChunk, v1};
use wire::jsonrpc::RpcError;

use super::{Context, ExecServerPrepared, PrepareResult};
use crate::faces::exec_server::events::{Protocol, stream_name};
use crate::faces::exec_server::sequence::{OutputChunk, SequenceIndex, SequenceState};

/// The longest wait, whatever was requested.
const MAX_WAIT: Duration = Duration::from_secs(3_600);

/// Checks and converts a `process/read` request.
pub(crate) fn read(params: &Arc<v1::ReadParams>, context: &Context<'_>) -> PrepareResult {
    let (state, over) = (&context.session.state, context.session.over.clone());
    let managed = state.known(&params.process_id, Protocol::V1)?;
    if !managed.index.state().is_running {
        let message = format!("process id {} is starting", params.process_id);
        return Err(RpcError::invalid_request(message));
    }
    let (process, index) = (managed.process.clone(), managed.index.clone());
    let (params, memory) = (params.clone(), context.session.response_memory.clone());
    Ok(ExecServerPrepared::new(move |session, mut request| {
        session.spawn(async move {
            let cancel = request.responder.cancel.clone();
            let read = async {
                let state = wait(&index, &params).await;
                let (chunks, has_more) =
                    index.after(params.after_seq.unwrap_or(0), params.max_bytes.unwrap_or(u64::MAX));
                // Once as bytes, once as base64.
                let bytes = chunks.iter().map(|chunk| 3 * chunk.bytes()).sum();
                let memory = memory.reserve(bytes).await?;
                Ok((memory, response((&process, &index), &params, state, (&chunks, has_more)).await))
            };
            tokio::select! {
                result = read => match result {
                    Ok((memory, response)) => {
                        request.responder.hold_memory(memory);
                        request.finish(Ok(response)).await;
                    }
                    Err(error) => request.reject(error).await,
                },
                // The response has no reader.
                () = cancel.cancelled() => {}
                () = over.cancelled() => {}
            }
        });
    }))
}

/// Waits until there is something after `after_seq`, at most as long as requested. The state is read before the chunks:
/// chunks that are added meanwhile only make the response larger.
async fn wait(index: &SequenceIndex, params: &v1::ReadParams) -> SequenceState {
    let after = params.after_seq.unwrap_or(0);
    let timeout = Duration::from_millis(params.wait_ms.unwrap_or(0)).min(MAX_WAIT);
    if !timeout.is_zero() {
        let mut state = index.subscribe();
        let is_ready = |state: &SequenceState| {
            let has_exit = state.exited.is_some() && after.saturating_add(1) < state.next;
            state.closed_at.is_some() || has_exit || !index.after(after, 0).0.is_empty()
        };
        tokio::time::timeout(timeout, state.wait_for(is_ready)).await.ok();
    }
    index.state()
}

async fn response(
    (process, index): (&Process, &SequenceIndex),
    params: &v1::ReadParams,
    state: SequenceState,
    (found, has_more): (&[OutputChunk], bool),
) -> v1::ReadResponse {
    let mut chunks = Vec::with_capacity(found.len());
    let mut has_offsets = state.has_lost;
    for chunk in found {
        match fetch(process, chunk, has_offsets).await {
            Some(chunk) => chunks.push(chunk),
            // It was dropped meanwhile, and with it everything before: the response has no gap.
            None => {
                chunks.clear();
                has_offsets = true;
            }
        }
    }
    index.update(|state| state.reads += 1);
    let last = found.last().map(|chunk| chunk.seq);
    let next_seq = match last {
        // With a budget it is where to continue; without one, clients take it for the next number of all.
        Some(last) if has_more || params.max_bytes.is_some() => last + 1,
        last => state.next.max(last.map_or(0, |last| last + 1)),
    };
    v1::ReadResponse {
        chunks,
        next_seq,
        exited: state.exited.is_some(),
        exit_code: state.exited.map(|exit| exit.exit_code),
        closed: state.closed_at.is_some(),
        failure: None,
        sandbox_denied: Some(state.exited.is_some_and(|exit| exit.is_denied)),
        output_offset: (has_offsets && state.closed_at.is_some()).then(|| process.state().end.0),
    }
}

/// The bytes of a chunk from the log; `None` if they were dropped.
async fn fetch(process: &Process, chunk: &OutputChunk, has_offset: bool) -> Option<v1::ProcessOutputChunk> {
    let mut reader = process.reader(chunk.start);
    let mut bytes = Vec::new();
    while reader.cursor() < chunk.end {
        let max = usize::try_from(chunk.end.0 - reader.cursor().0).unwrap_or(usize::MAX);
        match reader.next(max).await {
            Item::Output { bytes: more, .. } if !more.is_empty() => bytes.extend_from_slice(&more),
            Item::Exited { .. } => {}
            Item::Output { .. } | Item::Lost { .. } | Item::Closed(_) | Item::Disconnected => return None,
        }
    }
    Some(v1::ProcessOutputChunk {
        seq: chunk.seq,
        stream: stream_name(chunk.stream),
        chunk: ByteChunk::from(bytes),
        output_offset: has_offset.then_some(chunk.start.0),
    })
}
