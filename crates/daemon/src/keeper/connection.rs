//! The keeper's side of one connection: requests one by one, or the log until its end.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use engine::process::{Cursor, Process, Signal, TerminalSize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use wire::keeper::{
    FailureKind, KeeperFrame, KeeperMessage, KeeperRequest, MAX_INPUT_BYTES, MAX_KEY_BYTES, Version,
    encode_frame, read_request,
};

use super::convert;
use super::input_keys::InputKeys;
use super::viewer::Viewer;

/// The time within which a client must send its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// The state that all connections of a keeper share.
#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) process: Process,
    pub(super) log: PathBuf,
    pub(super) written: watch::Receiver<Cursor>,
    /// The newest supported version.
    pub(super) protocol: Version,
    /// Permits for viewers; the other connections serve single requests.
    pub(super) viewers: Semaphore,
    /// Permits for disk reads, so that viewers leave a thread to the log writer.
    pub(super) disk: Arc<Semaphore>,
    pub(super) input_keys: InputKeys,
    /// The size of the terminal, for the status at the end.
    pub(super) terminal_size: watch::Sender<Option<TerminalSize>>,
    /// Cancelled when the keeper is about to exit: idle connections end.
    pub(super) stop: CancellationToken,
}

impl ServerState {
    /// Notes a new size of the terminal; a side of 0 stays as it is.
    fn note_resize(&self, cols: u16, rows: u16) {
        self.terminal_size.send_modify(|size| {
            if let Some(size) = size {
                size.cols = if cols > 0 { cols } else { size.cols };
                size.rows = if rows > 0 { rows } else { size.rows };
            }
        });
    }
}

struct Connection {
    socket: UnixStream,
    incoming: BytesMut,
    version: Version,
}

/// Serves one client until it disconnects.
pub(super) async fn serve(socket: UnixStream, state: Arc<ServerState>) {
    let mut connection = Connection { socket, incoming: BytesMut::new(), version: Version::V1 };
    // An error ends only this connection; a keeper has no log to report it in.
    let _ended = connection.run(&state).await;
}

impl Connection {
    async fn run(&mut self, state: &ServerState) -> io::Result<()> {
        match tokio::time::timeout(HELLO_TIMEOUT, self.request()).await?? {
            Some(KeeperRequest::Hello { id, version }) => match state.protocol.common(version) {
                Some(common) => {
                    self.version = common;
                    self.send(KeeperMessage::Hello { id, version: common.number() }).await?;
                }
                None => return self.refuse(id, FailureKind::Invalid, "no common protocol version").await,
            },
            Some(other) => return self.refuse(other.id(), FailureKind::Invalid, "expected a hello").await,
            None => return Ok(()),
        }
        loop {
            let request = tokio::select! {
                biased;
                request = self.request() => request?,
                () = state.stop.cancelled() => None,
            };
            match request {
                Some(KeeperRequest::Attach { id, cursor }) => return self.attach(state, id, cursor).await,
                Some(request) => {
                    let response = handle(state, request).await;
                    self.send(response).await?;
                }
                None => return Ok(()),
            }
        }
    }

    /// Sends the log from `cursor` on.
    async fn attach(&mut self, state: &ServerState, id: u64, cursor: u64) -> io::Result<()> {
        let Ok(_permit) = state.viewers.try_acquire() else {
            return self.refuse(id, FailureKind::Busy, "too many viewers").await;
        };
        let from = Cursor(cursor).min(state.process.state().end);
        self.send(KeeperMessage::Attached { id, cursor: from.0 }).await?;
        let mut viewer = Viewer::new(state, from);
        loop {
            let frame = {
                let next = viewer.next();
                tokio::pin!(next);
                tokio::select! {
                    biased;
                    frame = &mut next => frame,
                    // No request may follow an attach: any byte, like the end of file, ends the connection.
                    _ = self.socket.read_u8() => return Ok(()),
                }
            };
            match frame {
                Some(frame) => self.socket.write_all(&encode_frame(self.version, &frame)).await?,
                None => return self.socket.shutdown().await,
            }
        }
    }

    /// The next request; `None` when the client has disconnected. Dropping this future loses nothing.
    async fn request(&mut self) -> io::Result<Option<KeeperRequest>> {
        loop {
            if let Some(request) = read_request(&mut self.incoming).map_err(io::Error::other)? {
                return Ok(Some(request));
            }
            if self.socket.read_buf(&mut self.incoming).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn send(&mut self, message: KeeperMessage) -> io::Result<()> {
        self.socket.write_all(&encode_frame(self.version, &KeeperFrame::Message(message))).await
    }

    async fn refuse(&mut self, id: u64, kind: FailureKind, reason: &str) -> io::Result<()> {
        self.send(failure(id, kind, reason)).await
    }
}

fn failure(id: u64, kind: FailureKind, reason: &str) -> KeeperMessage {
    KeeperMessage::Error { id, kind, message: reason.to_owned() }
}

/// Executes a request and returns its response.
async fn handle(state: &ServerState, request: KeeperRequest) -> KeeperMessage {
    let (id, process) = (request.id(), &state.process);
    let invalid = |reason| failure(id, FailureKind::Invalid, reason);
    let done = match request {
        KeeperRequest::Input { data, eof, key, .. } => {
            let bytes = match wire::base64::decode(&data) {
                Ok(bytes) if bytes.len() <= MAX_INPUT_BYTES => bytes,
                Ok(_) => return invalid("input too large"),
                Err(_) => return invalid("invalid base64"),
            };
            let input = process.input(bytes.into(), eof);
            let accepted = match key {
                None => input.await.map(Some),
                Some(key) if key.len() <= MAX_KEY_BYTES => state.input_keys.once(key, input).await,
                Some(_) => return invalid("key too long"),
            };
            accepted.map(|written| KeeperMessage::Accepted {
                id,
                bytes: written.unwrap_or_default() as u64,
                repeated: written.is_none(),
            })
        }
        KeeperRequest::Resize { cols, rows, .. } => {
            let resized = process.resize(TerminalSize { cols, rows }).await;
            resized.map(|()| {
                state.note_resize(cols, rows);
                KeeperMessage::Resized { id }
            })
        }
        KeeperRequest::Terminal { .. } => {
            process.terminal_state().await.map(|terminal| convert::terminal_to_wire(id, &terminal))
        }
        KeeperRequest::Kill { signal, .. } => {
            let Some(signal) = Signal::from_number(signal) else { return invalid("unknown signal") };
            process.kill(signal).await.map(|ended| KeeperMessage::Killed {
                id,
                killed: convert::members_to_wire(&ended.killed),
                left: convert::members_to_wire(&ended.remaining),
                complete: ended.is_complete,
            })
        }
        KeeperRequest::Status { .. } => {
            let state = process.state();
            Ok(KeeperMessage::Status {
                id,
                pid: state.pid,
                end: state.end.0,
                exit: state.exited.map(convert::exit_to_wire),
                closed: state.closed.map(|closed| convert::summary_to_wire(&closed)),
            })
        }
        KeeperRequest::Hello { .. } | KeeperRequest::Attach { .. } => return invalid("unexpected request"),
    };
    done.unwrap_or_else(|error| convert::error_to_wire(id, &error))
}
