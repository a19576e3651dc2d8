//! `process/write`: input is written once, even if a client that lost its connection sends it again.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use engine::Error;
use wire::exec_server::{v0, v1};
use wire::jsonrpc::RpcError;

use super::{ExecServerPrepared, PrepareResult};
use crate::core::request::RequestContext;
use crate::faces::exec_server::errors::rpc_error;
use crate::faces::exec_server::events::Protocol;
use crate::faces::exec_server::session::Session;

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
pub(crate) fn write(params: &Arc<v1::WriteParams>, _: &Session, _: &RequestContext) -> PrepareResult {
    if params.write_id.as_deref() == Some("") {
        return Err(RpcError::invalid_params("writeId must not be empty"));
    }
    let params = params.clone();
    Ok(ExecServerPrepared::new(move |session, request| {
        let status = |status| Ok::<_, RpcError>(v1::WriteResponse { status });
        if session.state.pending_starts.contains(&params.process_id) {
            return session.spawn(request.finish(status(v1::WriteStatus::Starting)));
        }
        let managed = session.state.process_mut(&params.process_id);
        let Some(managed) = managed.filter(|managed| managed.protocol == Protocol::V1) else {
            return session.spawn(request.finish(status(v1::WriteStatus::UnknownProcess)));
        };
        if !managed.takes_input {
            return session.spawn(request.finish(status(v1::WriteStatus::StdinClosed)));
        }
        if params.write_id.as_deref().is_some_and(|id| !managed.write_ids.insert(id)) {
            return session.spawn(request.finish(status(v1::WriteStatus::Accepted)));
        }
        let process = managed.process.clone();
        session.spawn(async move {
            let written = match process.input(params.chunk.0.clone(), false).await {
                // Accepted does not mean read: a client that writes while the process ends learns of the end by its exit.
                Ok(_) | Err(Error::Gone | Error::InputClosed) => status(v1::WriteStatus::Accepted),
                Err(error) => Err(rpc_error(error)),
            };
            request.finish(written).await;
        });
    }))
}

/// Checks and converts a `command/exec/write` request.
pub(crate) fn write_v0(params: &Arc<v0::WriteParams>, _: &Session, _: &RequestContext) -> PrepareResult {
    let params = params.clone();
    Ok(ExecServerPrepared::new(move |session, request| {
        let id = &params.process_id;
        let managed = session.state.process(id).filter(|managed| managed.protocol == Protocol::V0);
        let process = match managed {
            None => Err(format!("there is no process {id:?}")),
            Some(managed) if !managed.takes_input => {
                Err(format!("the standard input of process {id:?} is closed: it has no terminal"))
            }
            Some(managed) => Ok(managed.process.clone()),
        };
        session.spawn(async move {
            let written = match process {
                Ok(process) => process.input(params.chunk.0.clone(), false).await.map_err(rpc_error),
                Err(message) => Err(RpcError::invalid_request(message)),
            };
            request.finish(written.map(|_bytes| v0::WriteResponse { accepted: true })).await;
        });
    }))
}
