//! `process/read`: what is kept of a process's output, and its state; at once, or when there is something.

use std::sync::Arc;
use std::time::Duration;

use engine::process::{Item, Process};
use wire::exec_server::{ByteChunk, ErrorObject, v1};

use super::answer::Answer;
use super::numbers::{Numbers, Piece, State};
use super::pump::{Words, stream_of};
use super::session::Session;

/// The longest that is waited, whatever was asked for.
const WAITS_AT_MOST: Duration = Duration::from_secs(3_600);

impl Session {
    /// `process/read`.
    pub(super) fn read(&mut self, params: v1::ReadParams, mut answer: Answer) {
        let id = &params.process_id;
        let refuse = |message: String| Err::<(), _>(ErrorObject::invalid_request(message));
        let Some(managed) = self.managed(id).filter(|managed| managed.words == Words::V1) else {
            return self.reply(answer, refuse(format!("there is no process {id:?}")));
        };
        if !managed.numbers.state().is_running {
            return self.reply(answer, refuse(format!("process {id:?} is still starting")));
        }
        let (process, numbers) = (managed.process.clone(), managed.numbers.clone());
        let over = self.over.clone();
        self.spawn(async move {
            let cancel = answer.cancel.clone();
            tokio::select! {
                read = read((&process, &numbers), &params, &mut answer) => answer.send(Ok::<_, ErrorObject>(read)).await,
                // Nobody is there to read the answer.
                () = cancel.cancelled() => {}
                () = over.cancelled() => {}
            }
        });
    }
}

async fn read(
    (process, numbers): (&Process, &Arc<Numbers>),
    params: &v1::ReadParams,
    answer: &mut Answer,
) -> v1::ReadResponse {
    let after = params.after_seq.unwrap_or(0);
    let wait = Duration::from_millis(params.wait_ms.unwrap_or(0)).min(WAITS_AT_MOST);
    if !wait.is_zero() {
        let mut state = numbers.watch();
        let is_there = |state: &State| {
            let has_news = state.exited.is_some() && after.saturating_add(1) < state.next;
            state.closed_at.is_some() || has_news || !numbers.after(after, 0).0.is_empty()
        };
        // Too late is as good as something: what is there is told.
        let _waited = tokio::time::timeout(wait, state.wait_for(is_there)).await;
    }
    // The state first: what is added to the pieces meanwhile only makes the answer fuller.
    let state = numbers.state();
    let (pieces, has_more) = numbers.after(after, params.max_bytes.unwrap_or(u64::MAX));
    // Once as it is, once as text.
    answer.afford(pieces.iter().map(|piece| 3 * (piece.end.0 - piece.start.0)).sum()).await;
    let mut chunks = Vec::with_capacity(pieces.len());
    let mut says_where = state.has_given_up;
    for piece in &pieces {
        match fetch(process, piece, says_where).await {
            Some(chunk) => chunks.push(chunk),
            // It was given up meanwhile, and with it whatever came before: what is told has no gap.
            None => {
                chunks.clear();
                says_where = true;
            }
        }
    }
    numbers.was_read();
    let last = pieces.last().map(|piece| piece.seq);
    let next_seq = match last {
        // With a budget it is where to go on, as ever; without one, current clients take it for the next number at all.
        Some(last) if has_more || params.max_bytes.is_some() => last + 1,
        last => state.next.max(last.map_or(0, |last| last + 1)),
    };
    v1::ReadResponse {
        chunks,
        next_seq,
        exited: state.exited.is_some(),
        exit_code: state.exited.map(|ended| ended.exit_code),
        closed: state.closed_at.is_some(),
        failure: None,
        sandbox_denied: Some(state.exited.is_some_and(|ended| ended.is_denied)),
        output_offset: (says_where && state.closed_at.is_some()).then(|| process.state().end.0),
    }
}

/// The bytes of a piece, from wherever the log has them; nothing if they are gone. Where some are, it is said where in
/// all output these lie.
async fn fetch(process: &Process, piece: &Piece, says_where: bool) -> Option<v1::ProcessOutputChunk> {
    let mut reader = process.reader(piece.start);
    reader.ignore_exit();
    let mut bytes = Vec::new();
    while reader.cursor() < piece.end {
        let most = usize::try_from(piece.end.0 - reader.cursor().0).unwrap_or(usize::MAX);
        match reader.next(most).await {
            Item::Output { bytes: more, .. } if !more.is_empty() => bytes.extend_from_slice(&more),
            Item::Output { .. }
            | Item::Lost { .. }
            | Item::Exited { .. }
            | Item::Closed(_)
            | Item::Disconnected => return None,
        }
    }
    Some(v1::ProcessOutputChunk {
        seq: piece.seq,
        stream: stream_of(piece.stream),
        chunk: ByteChunk::from(bytes),
        output_offset: says_where.then_some(piece.start.0),
    })
}
