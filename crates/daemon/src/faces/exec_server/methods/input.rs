//! `process/write`: input is written once, even if a client that lost its connection sends it again.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use engine::Error;
use engine::process::Process;
use wire::exec_server::{v0, v1};
use wire::jsonrpc::RpcError;

use super::{Context, ExecServerPrepared, PrepareResult, Session, rpc_error};
use crate::faces::exec_server::events::Protocol;

/// Write ids stored per process.
const MAX_WRITE_IDS: usize = 4_096;

/// The ids of the latest writes to one process.
#[derive(Debug, Default)]
pub(crate) struct WriteIds {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl WriteIds {
    /// Stores an id; false if it is already stored.
    fn insert(&mut self, id: &str) -> bool {
        if !self.known.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > MAX_WRITE_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

/// Checks and converts a `process/write` request.
pub(crate) fn write(params: &Arc<v1::WriteParams>, _: &Context<'_>) -> PrepareResult {
    if params.write_id.as_deref() == Some("") {
        return Err(RpcError::invalid_params("writeId must not be empty"));
    }
    let params = params.clone();
    Ok(ExecServerPrepared::new(move |session, request| {
        let target = write_target(session, &params);
        session.spawn(async move {
            let written = match target {
                Ok(process) => match process.input(params.chunk.0.clone(), false).await {
                    // Accepted does not mean read: a client that writes while the process ends learns of it by its exit.
                    Ok(_) | Err(Error::Gone | Error::InputClosed) => Ok(v1::WriteStatus::Accepted),
                    Err(error) => Err(rpc_error(error)),
                },
                Err(status) => Ok(status),
            };
            request.finish(written.map(|status| v1::WriteResponse { status })).await;
        });
    }))
}

/// The process that takes the input, or the status to respond with.
fn write_target(session: &mut Session, params: &v1::WriteParams) -> Result<Process, v1::WriteStatus> {
    if session.state.pending_starts.contains(&params.process_id) {
        return Err(v1::WriteStatus::Starting);
    }
    let managed = session.state.process_mut(&params.process_id);
    let managed = managed.filter(|managed| managed.protocol == Protocol::V1);
    let managed = managed.ok_or(v1::WriteStatus::UnknownProcess)?;
    if !managed.takes_input {
        return Err(v1::WriteStatus::StdinClosed);
    }
    match params.write_id.as_deref() {
        Some(id) if !managed.write_ids.insert(id) => Err(v1::WriteStatus::Accepted),
        _ => Ok(managed.process.clone()),
    }
}

/// Checks and converts a `command/exec/write` request.
pub(crate) fn write_v0(params: &Arc<v0::WriteParams>, context: &Context<'_>) -> PrepareResult {
    let (id, chunk) = (&params.process_id, params.chunk.0.clone());
    let managed = context.session.state.known(id, Protocol::V0)?;
    if !managed.takes_input {
        let message = format!("the standard input of process {id:?} is closed: it has no terminal");
        return Err(RpcError::invalid_request(message));
    }
    let process = managed.process.clone();
    Ok(ExecServerPrepared::response(async move {
        let written = process.input(chunk, false).await;
        written.map(|_bytes| v0::WriteResponse { accepted: true }).map_err(rpc_error)
    }))
}
